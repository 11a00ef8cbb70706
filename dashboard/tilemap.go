package dashboard

import (
	"fmt"
	"math"
	"strings"
)

// A tileMap is the nodes as rectangles, in groups. The area of a tile is its price, or equal for all; the filled part is its requests.
// All tiles of a kind are one path, so five thousand tiles are a few elements of the page.
type tileMap struct {
	Width, Height int
	Groups        []mapGroup
	// Layers are the tiles by their meaning, with their filled parts.
	Layers []mapLayer
	tiles  []tile
}

// A mapGroup is a frame with a name.
type mapGroup struct {
	X, Y, W, H int
	Name, Note string // "" where there is no room for it
	Filter     string
}

// A mapLayer is the outlines of tiles, and their filled parts.
type mapLayer struct{ Class, Tiles, Fill string }

// A tile is where one node is in the map.
type tile struct {
	x, y, w, h int
	node       *node
}

type rect struct{ x, y, w, h float64 }

func (r rect) inset(by, top float64) rect {
	return rect{r.x + by, r.y + top, max(0, r.w-2*by), max(0, r.h-by-top)}
}

// The room that a name takes above the tiles of its group, and the least size of a group that has one.
const (
	headHeight  = 20
	leastHeaded = 54
)

// newTileMap lays out the groups in a rectangle.
func newTileMap(groups []*group, width, height int, equal bool, filled func(*node) float64) *tileMap {
	m := &tileMap{Width: width, Height: height}
	m.place(groups, rect{0, 0, float64(width), float64(height)}, equal, 0)
	layers := map[string]*[2]strings.Builder{}
	for _, t := range m.tiles {
		class := tileClass(t.node)
		if layers[class] == nil {
			layers[class] = &[2]strings.Builder{}
		}
		l := layers[class]
		fmt.Fprintf(&l[0], "M%d %dh%dv%dh-%dz", t.x, t.y, t.w, t.h, t.w)
		if h := int(math.Round(float64(t.h) * min(1, filled(t.node)))); h > 0 {
			fmt.Fprintf(&l[1], "M%d %dh%dv%dh-%dz", t.x, t.y+t.h-h, t.w, h, t.w)
		}
	}
	for _, class := range []string{"stays", "waits", "goes"} {
		if l := layers[class]; l != nil {
			m.Layers = append(m.Layers, mapLayer{class, l[0].String(), l[1].String()})
		}
	}
	return m
}

// tileClass returns the style class of a node's tile: the node stays, goes, or is not ready for pods.
func tileClass(n *node) string {
	switch {
	case n.Goes():
		return "goes"
	case n.State == "ready":
		return "stays"
	}
	return "waits"
}

// place lays groups, or the nodes of groups without any, into a rectangle.
func (m *tileMap) place(groups []*group, into rect, equal bool, depth int) {
	sizes := make([]float64, len(groups))
	for i, g := range groups {
		for _, n := range g.Nodes {
			sizes[i] += tileSize(n, equal)
		}
	}
	order := bySize(sizes)
	sorted := make([]float64, len(sizes))
	for i, at := range order {
		sorted[i] = sizes[at]
	}
	for i, r := range squarify(sorted, into) {
		g := groups[order[i]]
		frame := mapGroup{X: int(r.x), Y: int(r.y), W: int(r.w), H: int(r.h), Filter: g.Filter()}
		inner := r.inset(2, 2)
		if depth > 0 {
			inner = r.inset(1, 1)
		}
		if r.w >= leastHeaded && r.h >= leastHeaded {
			frame.Name = fitting(g.Name(), r.w-8)
			if rest := r.w - 8 - 7*float64(len([]rune(frame.Name))); rest > 90 && depth == 0 {
				frame.Note = dollars(g.Price) + "/h"
			}
			inner = r.inset(inner.x-r.x, headHeight)
		}
		m.Groups = append(m.Groups, frame)
		if len(g.Groups) > 0 {
			m.place(g.Groups, inner, equal, depth+1)
			continue
		}
		m.placeNodes(g.Nodes, inner, equal)
	}
}

func (m *tileMap) placeNodes(nodes []*node, into rect, equal bool) {
	sizes := make([]float64, len(nodes))
	for i, n := range nodes {
		sizes[i] = tileSize(n, equal)
	}
	order := bySize(sizes)
	sorted := make([]float64, len(nodes))
	for i, at := range order {
		sorted[i] = sizes[at]
	}
	for i, r := range squarify(sorted, into) {
		gap := 1.0
		if r.w < 6 || r.h < 6 {
			gap = 0.5
		}
		x, y := int(math.Round(r.x)), int(math.Round(r.y))
		w, h := int(math.Round(r.x+r.w-gap))-x, int(math.Round(r.y+r.h-gap))-y
		m.tiles = append(m.tiles, tile{x, y, max(1, w), max(1, h), nodes[order[i]]})
	}
}

// tileSize returns the price of a node. A node of unknown price, or of none, is as large as a cheap node, because it must be visible.
func tileSize(n *node, equal bool) float64 {
	if equal {
		return 1
	}
	return max(n.Price(), 0.01)
}

// fitting shortens a name to the room for it, at about 7 units a letter.
func fitting(name string, width float64) string {
	most := int(width / 7)
	letters := []rune(name)
	if len(letters) <= most {
		return name
	}
	if most < 4 {
		return ""
	}
	return string(letters[:most-1]) + "…"
}
