package packing_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"tenon.sh/engine/packing"
)

func TestDbg(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	d := drawRuled(seed, os.Getenv("FEATURE"))
	for c := range d.wishes {
		fmt.Printf("class %d x%d %v %+v ways %v\n", c, d.p.Classes[c].Count, d.p.Classes[c].Request, d.wishes[c], d.p.Classes[c].Levels[0].Ways.Pools[0][0].Options)
	}
	for i, o := range d.p.Pools[0].Options {
		fmt.Printf("option %d type %d zone %d %v %.4f res %d\n", i, o.Type, o.Place, o.Allocatable, o.Price, o.Reservation)
	}
	fmt.Println(d.p.Pools[0].Left, d.p.Reservations)
	s := packing.Solve(d.p)
	for _, m := range s.New {
		o := d.p.Pools[0].Options[m.Chosen]
		fmt.Printf("  zone %d option %d %.4f %v\n", o.Place, m.Chosen, o.Price, m.Pods)
	}
	fmt.Println("left", s.Left, "price", price(d.p, s), "bound", s.Bound)
	var counts []int
	for c := range s.Left {
		counts = append(counts, d.p.Classes[c].Count-len(s.Left[c]))
	}
	fmt.Println(counts, d.brute().least(counts))
}
