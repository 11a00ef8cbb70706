package enginetest

import "os"

// Draws is how many of so many random inputs a law is tried on: all where TENON_DRAWS says so, as make test does, else one in ten
// and four at least, so that the tests of a package take seconds while it is edited.
func Draws(all int) uint64 {
	if os.Getenv("TENON_DRAWS") == "all" {
		return uint64(all)
	}
	return uint64(min(all, max(4, all/10)))
}
