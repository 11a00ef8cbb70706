package dashboard

import (
	"cmp"
	"fmt"
	"slices"
)

// groupKeys returns the properties by which nodes can be grouped, in the order of the choices.
func groupKeys() []string { return []string{"pool", "zone", "type", "capacity", "state"} }

// A group is nodes with a common property, and their sums.
type group struct {
	Key, Value    string // the common property
	Depth         int
	Nodes         []*node
	Price         float64
	Unpriced      int
	CPU, Memory   Share
	Pods, Leaving int     // Leaving counts the nodes that would be removed now
	Part          float64 // of the price of everything shown
	Kept          []tally // why the others stay, the most frequent first
	Groups        []*group
}

// Name returns the value, or a word for no value.
func (g *group) Name() string { return cmp.Or(g.Value, "no "+g.Key) }

// Filter returns a term that selects the group.
func (g *group) Filter() string { return fmt.Sprintf("%s=%s", g.Key, quoteValue(g.Value)) }

func (g *group) add(n *node) {
	g.Nodes = append(g.Nodes, n)
	g.Price += n.Price()
	g.CPU.add(n.CPU)
	g.Memory.add(n.Memory)
	g.Pods += n.Pods
	if n.PricePerHour == nil {
		g.Unpriced++
	}
	if n.Goes() {
		g.Leaving++
	}
}

// A tally counts nodes with one reason.
type tally struct {
	Code  string
	Count int
}

// mostTallies is how many reasons a group names.
const mostTallies = 3

// groupNodes groups the nodes by the keys, one level for each key. The groups with the highest price come first.
func groupNodes(nodes []*node, keys []string, total float64, depth int) []*group {
	if len(keys) == 0 {
		return nil
	}
	value := textKeys()[keys[0]]
	index := map[string]*group{}
	var out []*group
	for _, n := range nodes {
		v := value(n)
		g := index[v]
		if g == nil {
			g = &group{Key: keys[0], Value: v, Depth: depth}
			index[v] = g
			out = append(out, g)
		}
		g.add(n)
	}
	slices.SortFunc(out, func(a, b *group) int { return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.Value, b.Value)) })
	for _, g := range out {
		if total > 0 {
			g.Part = g.Price / total
		}
		g.Kept = tallies(g.Nodes)
		g.Groups = groupNodes(g.Nodes, keys[1:], total, depth+1)
	}
	return out
}

func tallies(nodes []*node) []tally {
	counts := map[string]int{}
	for _, n := range nodes {
		if n.Kept != nil {
			counts[n.Kept.Code]++
		}
	}
	out := make([]tally, 0, len(counts))
	for code, count := range counts {
		out = append(out, tally{code, count})
	}
	slices.SortFunc(out, func(a, b tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code)) })
	return out
}
