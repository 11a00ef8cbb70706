package overlay

import (
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// catalog holds the instance types of a class, and the matches of overlays in it. Pools whose labels make no difference share the matches.
type catalog struct {
	types   []engine.InstanceType
	matches map[string][]match // by overlay and by the keys of the pool's labels that the overlay requires
	// offered holds the keys of labels that offerings have.
	offered map[string]bool
}

func newCatalog(types []engine.InstanceType) *catalog {
	c := &catalog{types: types, matches: map[string][]match{}, offered: map[string]bool{corev1.LabelTopologyZone: true, v1.CapacityTypeLabelKey: true}}
	for i := range types {
		for j := range types[i].Offerings {
			for key := range types[i].Offerings[j].Labels {
				c.offered[key] = true
			}
		}
	}
	return c
}

// match is an instance type that an overlay selects, with the selected offerings.
type match struct {
	kind      int
	all       bool
	offerings []int
}

// each iterates over the indexes of the selected offerings; `all` is the number of the type's offerings.
func (m match) each(all int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if m.all {
			for i := range all {
				if !yield(i) {
					return
				}
			}
			return
		}
		for _, i := range m.offerings {
			if !yield(i) {
				return
			}
		}
	}
}

// find lists the types that the overlay selects. The pool's labels are known to meet the overlay's requirements. If the pool lacks a required
// label, types and offerings may be left out.
func (c *catalog) find(p *plan, labels map[string]string) []match {
	key := strings.Builder{}
	key.WriteString(p.overlay.Name)
	for _, e := range p.asked {
		if _, there := labels[e.Key]; there {
			key.WriteString(" " + e.Key)
		}
	}
	if known, ok := c.matches[key.String()]; ok {
		return known
	}
	out := make([]match, 0, len(c.types))
	for i := range c.types {
		if m, ok := c.match(p.asked, labels, &c.types[i]); ok {
			m.kind = i
			out = append(out, m)
		}
	}
	c.matches[key.String()] = out
	return out
}

// match returns the offerings of a type that meet all expressions. A label is absent if neither the offering nor the type nor the pool has it.
// ok is false if no offering meets them.
func (c *catalog) match(asked []requirement.Expression, pool map[string]string, t *engine.InstanceType) (m match, ok bool) {
	open := asked[:0:0] // expressions about labels that offerings have
	for _, e := range asked {
		if e.Key == instanceType {
			if !e.Admits(t.Name, true) {
				return m, false
			}
			continue
		}
		if c.offered[e.Key] {
			open = append(open, e)
			continue
		}
		if values := t.Labels[e.Key]; len(values) > 0 {
			if !slices.ContainsFunc(values, func(v string) bool { return e.Admits(v, true) }) {
				return m, false
			}
			continue
		}
		if _, there := pool[e.Key]; !there && !e.Admits("", false) {
			return m, false
		}
	}
	if len(open) == 0 {
		return match{all: true}, len(t.Offerings) > 0
	}
	for i := range t.Offerings {
		if !slices.ContainsFunc(open, func(e requirement.Expression) bool { return !offers(e, pool, t, &t.Offerings[i]) }) {
			m.offerings = append(m.offerings, i)
		}
	}
	return m, len(m.offerings) > 0
}

// offers reports whether a machine of the offering meets an expression about a label that offerings have.
func offers(e requirement.Expression, pool map[string]string, t *engine.InstanceType, o *engine.Offering) bool {
	switch e.Key {
	case corev1.LabelTopologyZone:
		return e.Admits(o.Zone, o.Zone != "")
	case v1.CapacityTypeLabelKey:
		return e.Admits(o.CapacityType, o.CapacityType != "")
	}
	if value, there := o.Labels[e.Key]; there {
		return e.Admits(value, true)
	}
	if values := t.Labels[e.Key]; len(values) > 0 {
		return slices.ContainsFunc(values, func(v string) bool { return e.Admits(v, true) })
	}
	_, there := pool[e.Key]
	return there || e.Admits("", false)
}
