package bootstrap

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// unknownMinor is the result for a version that cannot be parsed. It counts as an old version.
const unknownMinor = -1

// parseMinor parses 34 out of 1.34.2.
func parseMinor(text string) int {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return unknownMinor
	}
	return int(v.Minor())
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
