package enginetest

import (
	"fmt"
	"os"
)

// Draws returns on how many of all random inputs to test a law. If TENON_DRAWS is "all", as in make test-draws, that is every input. Otherwise it is
// one in ten, but at least four, so that the tests of a package take seconds.
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
