package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// mostTiles is the number of nodes up to which each has a tile. With more nodes the tiles fill a screen, and the page becomes too large.
const mostTiles = 1000

// tileClass returns the style classes of a node's tile: the node stays, goes, or is not ready for pods, and the tenths that its requests fill.
func (d *nodesData) tileClass(n *node) string {
	class := "tile"
	switch {
	case n.Goes():
		class = "tile goes"
	case n.State != "ready":
		class = "tile waits"
	}
	return fmt.Sprintf("%s f%.0f", class, math.Round(10*min(1, d.query.filled(n))))
}

// filled returns how far the tile of a node is filled.
func (q nodesQuery) filled(n *node) float64 {
	switch q.fill {
	case "cpu":
		return n.CPU.Of()
	case "memory":
		return n.Memory.Of()
	}
	return max(n.CPU.Of(), n.Memory.Of())
}

// tileWords describes the node of a tile in one line.
func tileWords(n *node) string {
	cost := "unknown price"
	if n.PricePerHour != nil {
		cost = dollars(*n.PricePerHour) + "/h"
	}
	machine := strings.Join(strings.Fields(n.InstanceType+" "+n.Zone+" "+n.CapacityType), " ")
	words := []string{n.Node, cmp.Or(n.NodePool, "no pool"), cmp.Or(machine, "unknown machine"), cost,
		fmt.Sprintf("CPU %s, memory %s", percent(n.CPU.Of()), percent(n.Memory.Of())), count(n.Pods, "pod"), n.Standing()}
	if n.Goes() {
		words = append(words, n.Disruption)
	}
	return strings.Join(words, " · ")
}
