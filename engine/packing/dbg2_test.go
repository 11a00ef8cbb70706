package packing_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"tenon.sh/engine/packing"
)

func TestDbgDrawn(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	p, k := drawProblem(seed)
	fmt.Printf("%+v weighted %v reservations %v\n", k, p.Weighted, p.Reservations)
	for g, x := range p.Layout.Groups {
		fmt.Printf("group %d %+v\n", g, x)
	}
	for g, x := range p.Layout.Sets {
		fmt.Printf("set %d %+v\n", g, x)
	}
	for i, n := range p.Nodes {
		fmt.Printf("node %d %v at %v bears %v shuns %v groups %v sets %v\n", i, n.Free, p.Places[n.Place], n.Bears, n.Shuns, n.Groups, n.Sets)
	}
	for c := range p.Classes {
		cl := &p.Classes[c]
		fmt.Printf("class %d x%d prio %d %v\n", c, cl.Count, cl.Priority, cl.Request)
		for _, l := range cl.Levels {
			fmt.Printf("    nodes %v ways", l.Nodes)
			for _, w := range l.Ways.Pools {
				fmt.Print(" [")
				for _, x := range w {
					fmt.Print(x.Options, x.Free, " ")
				}
				fmt.Print("]")
			}
			if l.Rules != nil {
				fmt.Printf(" %+v", *l.Rules)
			}
			fmt.Println()
		}
	}
	for i := range p.Pools {
		fmt.Println("pool", i, p.Pools[i].Weight, p.Pools[i].Left, p.Pools[i].Variety)
		if os.Getenv("OPTIONS") != "" {
			for o, x := range p.Pools[i].Options {
				fmt.Printf("   option %d type %d slot %d group %d at %v %v %.4f res %d listed %v large %v\n", o, x.Type, x.Slot, x.Group, p.Places[x.Place], x.Allocatable, x.Price, x.Reservation, x.Listed, x.Large)
			}
		}
	}
	s := packing.Solve(p)
	for i, x := range s.OnNodes {
		fmt.Println("node", i, x)
	}
	for i, m := range s.New {
		o := p.Pools[m.Pool].Options[m.Chosen]
		fmt.Printf("machine %d pool %d place %v option %d %.4f listed %v free %v %v\n", i, m.Pool, p.Places[o.Place], m.Chosen, o.Price, m.Listed, m.Free, m.Pods)
	}
	fmt.Println("left", s.Left, "price", price(p, s), "bound", s.Bound)
	fmt.Println("order", s.Order)
	for _, f := range verify(p, s) {
		fmt.Println(f)
	}
}
