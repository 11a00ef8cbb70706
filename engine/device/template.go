package device

// A Template is a pool of which a driver is expected to publish as much on a machine that is not there yet.
type Template struct {
	Driver  string     `json:"driver"`
	Pool    string     `json:"pool"`
	Devices []Expected `json:"devices"`
}

// Expected is one device of a Template.
type Expected struct {
	Name  string `json:"name"`
	Shape Shape  `json:"shape"`
}
