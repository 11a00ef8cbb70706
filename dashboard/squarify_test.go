package dashboard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTilesFillTheMapInProportionAndDoNotOverlap(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sizes := make([]float64, 1+draw.IntN(60))
		total := 0.0
		for i := range sizes {
			sizes[i] = math.Exp(3 * draw.NormFloat64())
			total += sizes[i]
		}
		slices.SortFunc(sizes, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
		into := rect{10, 20, 1 + 1000*draw.Float64(), 1 + 500*draw.Float64()}
		tiles := squarify(sizes, into)
		if len(tiles) != len(sizes) {
			t.Fatalf("%d tiles for %d sizes", len(tiles), len(sizes))
		}
		for i, a := range tiles {
			if want := sizes[i] / total * into.w * into.h; math.Abs(a.w*a.h-want) > 1e-6*into.w*into.h {
				t.Fatalf("tile %d has area %v, want %v", i, a.w*a.h, want)
			}
			if a.x < into.x-1e-6 || a.y < into.y-1e-6 || a.x+a.w > into.x+into.w+1e-6 || a.y+a.h > into.y+into.h+1e-6 {
				t.Fatalf("tile %d %v sticks out of %v", i, a, into)
			}
			for _, b := range tiles[:i] {
				if min(a.x+a.w, b.x+b.w)-max(a.x, b.x) > 1e-6 && min(a.y+a.h, b.y+b.h)-max(a.y, b.y) > 1e-6 {
					t.Fatalf("tiles %v and %v overlap", a, b)
				}
			}
		}
	}
	if got := squarify(nil, rect{0, 0, 1, 1}); len(got) != 0 {
		t.Errorf("tiles of nothing: %v", got)
	}
}

func TestEveryNodeIsOneTileOfTheMap(t *testing.T) {
	t.Parallel()
	g := &group{Key: "pool", Value: "general"}
	cost, nothing := 2.5, 0.0
	for i := range 40 {
		n := &node{State: "ready", CPU: Share{float64(i), 40}}
		if i%3 == 0 {
			n.PricePerHour = &cost
		} else if i%3 == 1 {
			n.PricePerHour = &nothing
		}
		g.add(n)
	}
	for _, equal := range []bool{false, true} {
		m := newTileMap([]*group{g}, 300, 200, equal, func(n *node) float64 { return n.CPU.Of() })
		seen := map[*node]bool{}
		for _, tile := range m.tiles {
			seen[tile.node] = tile.w > 0 && tile.h > 0
		}
		if len(seen) != 40 || slices.Contains(slices.Collect(func(yield func(bool) bool) {
			for _, ok := range seen {
				if !yield(ok) {
					return
				}
			}
		}), false) {
			t.Errorf("equal %v: %d of 40 nodes can be seen", equal, len(seen))
		}
	}
}
