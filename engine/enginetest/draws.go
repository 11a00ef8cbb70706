package enginetest

import (
	"fmt"
	"os"
)

// Draws is how many of so many random inputs a law is tried on: all where TENON_DRAWS says so, as make test does, else one in ten
// and four at least, so that the tests of a package take seconds while it is edited.
func Draws(all int) uint64 {
	switch said := os.Getenv("TENON_DRAWS"); said {
	case "all":
		return uint64(all)
	case "":
		return uint64(min(all, max(4, all/10)))
	default:
		panic(fmt.Sprintf("TENON_DRAWS is %q: it must be all, or not be set", said))
	}
}
