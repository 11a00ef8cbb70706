package device

// A Template is a pool of which a driver is expected to publish as much on a machine that is not there yet.
type Template struct {
	Driver  string     `json:"driver"`
	Pool    string     `json:"pool"`
	Devices []Expected `json:"devices"`
	// Counters are what there is of each if nothing is allocated.
	Counters []Counter `json:"counters,omitempty"`
}

// Expected is one device of a Template.
type Expected struct {
	Name  string `json:"name"`
	Shape Shape  `json:"shape"`
	// Consumes lists what it takes of Counters while it is allocated.
	Consumes []Counter `json:"consumes,omitempty"`
}
