// Package disrupt changes tables that everybody reads.
package disrupt

var table = map[string]int{}

var settings struct{ limit int }

func change() {
	table["a"] = 1
	settings.limit = 2
	p := &settings
	_ = p
	for table["b"] = range 3 {
	}
}
