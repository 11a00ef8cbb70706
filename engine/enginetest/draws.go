package enginetest

import (
	"fmt"
	"os"
)

// Draws is how many of so many random inputs a law is tried on: all where TENON_DRAWS says so, as make test-draws does, else one in ten
// and four at least, so that the tests of a package take seconds while it is edited.
func Draws(all int) uint64 {
	if drawsAll() {
		return uint64(all)
	}
	return uint64(min(all, max(4, all/10)))
}

// Few is Draws for inputs that take a second each: one unless all are drawn.
func Few(all int) uint64 {
	if drawsAll() {
		return uint64(all)
	}
	return 1
}

func drawsAll() bool {
	switch said := os.Getenv("TENON_DRAWS"); said {
	case "all":
		return true
	case "":
		return false
	default:
		panic(fmt.Sprintf("TENON_DRAWS is %q: it must be all, or not be set", said))
	}
}
