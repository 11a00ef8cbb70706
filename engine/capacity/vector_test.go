package capacity_test

import (
	"slices"
	"testing"

	"tenon.sh/engine/capacity"
)

func TestOnlyWhatIsAskedForMustFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		need, have capacity.Vector
		want       bool
	}{
		{capacity.Vector{1, 2}, capacity.Vector{1, 2}, true},
		{capacity.Vector{1, 2}, capacity.Vector{1, 1}, false},
		{capacity.Vector{1, 0}, capacity.Vector{1, -5}, true},
		{capacity.Vector{0, 0}, capacity.Vector{-1, -1}, true},
	} {
		if got := c.need.Fits(c.have); got != c.want {
			t.Errorf("%v fits %v: %v, want %v", c.need, c.have, got, c.want)
		}
	}
}

func TestTimesCountsWholeCopies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		need, have capacity.Vector
		limit      int
		want       int
	}{
		{capacity.Vector{2, 3}, capacity.Vector{10, 10}, 99, 3},
		{capacity.Vector{2, 0}, capacity.Vector{10, -1}, 99, 5},
		{capacity.Vector{2, 3}, capacity.Vector{10, 10}, 1, 1},
		{capacity.Vector{2, 3}, capacity.Vector{10, -1}, 99, 0},
		{capacity.Vector{0, 0}, capacity.Vector{0, 0}, 7, 7},
	} {
		if got := c.need.Times(c.have, c.limit); got != c.want {
			t.Errorf("%v into %v, at most %d: %d, want %d", c.need, c.have, c.limit, got, c.want)
		}
	}
}

func TestSumsNeverOverflow(t *testing.T) {
	t.Parallel()
	v := capacity.Vector{capacity.Most, -capacity.Most, 5}
	v.Add(capacity.Vector{capacity.Most, capacity.Most, 2}, 1<<40)
	if want := (capacity.Vector{capacity.Most, capacity.Most, 5 + 2<<40}); !slices.Equal(v, want) {
		t.Errorf("sum is %v, want %v", v, want)
	}
	v.Add(capacity.Vector{capacity.Most, 1, 0}, -(1 << 40))
	if v[0] != -capacity.Most {
		t.Errorf("difference is %d, want it held at %d", v[0], -capacity.Most)
	}
}

func TestNamesKeepTheirIndex(t *testing.T) {
	t.Parallel()
	var n capacity.Names
	if a, b := n.Index("cpu"), n.Index("memory"); a != 0 || b != 1 || n.Index("cpu") != 0 {
		t.Errorf("indexes are %d, %d, %d", a, b, n.Index("cpu"))
	}
	if n.Find("gpu") != -1 || n.Name(1) != "memory" || n.Len() != 2 {
		t.Errorf("gpu is at %d, 1 is %s of %d", n.Find("gpu"), n.Name(1), n.Len())
	}
}
