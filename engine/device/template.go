package device

// A Template is a pool that a driver is expected to publish on a future machine.
type Template struct {
	Driver  string     `json:"driver"`
	Pool    string     `json:"pool"`
	Devices []Expected `json:"devices"`
	// Counters are the amounts if nothing is allocated.
	Counters []Counter `json:"counters,omitempty"`
}

// Expected is one device of a Template.
type Expected struct {
	Name  string `json:"name"`
	Shape Shape  `json:"shape"`
	// Consumes lists the device's use of Counters while it is allocated.
	Consumes []Counter `json:"consumes,omitempty"`
}
