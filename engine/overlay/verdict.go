package overlay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// clash is the first value that two overlays of one weight both correct.
type clash struct {
	with     *plan
	what     string // "the price", a resource, or a figure about interruptions
	pool     string
	kind     string
	offering *engine.Offering // nil for a resource
}

// clashIn returns the first value that the overlay selects and that another overlay of the same weight has corrected. It returns nil if there is
// none.
func (p *plan) clashIn(views []*view) *clash {
	for _, v := range views {
		for _, m := range v.matches(p) {
			if c := v.clashAt(p, m); c != nil {
				return c
			}
		}
	}
	return nil
}

func (v *view) clashAt(p *plan, m match) *clash {
	kind := &v.sold.types[m.kind]
	if p.setsPrice() && v.price[m.kind] != nil {
		for i := range m.each(len(kind.Offerings)) {
			if other := v.price[m.kind][i]; other != nil && other.weight == p.weight {
				return &clash{other, "the price", v.pools[0], kind.Name, &kind.Offerings[i]}
			}
		}
	}
	if v.risks[m.kind] != nil {
		for i := range m.each(len(kind.Offerings)) {
			if other, what := v.risks[m.kind][i].clashOf(p); other != nil {
				return &clash{other, what, v.pools[0], kind.Name, &kind.Offerings[i]}
			}
		}
	}
	if len(v.added[m.kind]) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.overlay.Spec.Capacity)) {
		if other := v.added[m.kind][name]; other != nil && other.weight == p.weight {
			return &clash{other, string(name), v.pools[0], kind.Name, nil}
		}
	}
	return nil
}

// verdict returns the result for the overlay.
func (p *plan) verdict() Verdict {
	switch {
	case len(p.faults) > 0:
		return Verdict{p.overlay, RuntimeValidation, strings.Join(p.faults, "; ")}
	case p.clash != nil:
		return Verdict{p.overlay, Conflict, p.clash.message(p)}
	}
	return Verdict{Overlay: p.overlay, Message: p.effect()}
}

func (c *clash) message(p *plan) string {
	at := c.kind
	if c.offering != nil {
		at += "/" + c.offering.Zone + "/" + c.offering.CapacityType
	}
	return fmt.Sprintf("conflict with NodeOverlay %s, which has the same weight (%d) and sets %s of %s in NodePool %s too: give one of the two "+
		"another weight, or requirements that keep them apart", c.with.overlay.Name, p.weight, c.what, at, c.pool)
}

// effect describes the corrections of an overlay that is in force, and consequences that its owner may not expect.
func (p *plan) effect() string {
	f := &p.found
	var does []string
	if f.offerings > 0 {
		does = append(does, "corrects the price of "+count(f.offerings, "offering"))
	}
	if f.risks > 0 {
		does = append(does, "says of interruptions of "+count(f.risks, "spot offering")+" "+p.risk.words())
	}
	if f.types > 0 {
		does = append(does, fmt.Sprintf("sets %s of %s", list(slices.Sorted(maps.Keys(p.overlay.Spec.Capacity))), count(f.types, "instance type")))
	}
	var text string
	switch {
	case !p.setsPrice() && !p.risk.said() && len(p.overlay.Spec.Capacity) == 0:
		text = "it has no effect: set price, priceAdjustment or capacity, or the annotations " + v1.InterruptionRateAnnotationKey + " and " + v1.InterruptionCostAnnotationKey
	case !f.selected:
		text = "it selects nothing: no NodePool buys an instance type that meets its requirements"
	case len(does) == 0 && !p.setsPrice() && len(p.overlay.Spec.Capacity) == 0:
		text = "it has no effect: it selects no spot machines, or heavier overlays say of interruptions what it says"
	case len(does) == 0:
		text = "it has no effect: heavier overlays correct all that it selects"
	default:
		slices.Sort(f.pools)
		text = strings.Join(does, " and ") + " in " + count(len(f.pools), "NodePool") + ": " + list(f.pools)
	}
	if len(p.overlay.Spec.Capacity) > 0 && p.asksOfOfferings() {
		text += "; capacity is that of whole instance types: zones, capacity types and reservations do not narrow it further than to types that are sold there"
	}
	if f.risks > 0 && !f.priced {
		text += "; that counts for nothing until it is said of the same machines both how often they are interrupted and what it costs each time"
	}
	if f.unpriced {
		text += "; what has no price stays without one: only an overlay with a price and no other requirement than " + instanceType + " In gives it one"
	}
	if f.part != "" {
		text += fmt.Sprintf("; nodes that show %s usually show 0 of %s, which is what is assumed: if yours show some, set that too", f.part, f.whole)
	}
	return text
}

// asksOfOfferings reports whether a requirement is about a label in which offerings of one type differ.
func (p *plan) asksOfOfferings() bool {
	for _, e := range p.asked {
		if kube.SaidElsewhere(e.Key) && e.Key != instanceType || strings.HasPrefix(e.Key, "karpenter.k8s.aws/capacity-reservation") {
			return true
		}
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// mostListed is the largest number of names in a message.
const mostListed = 5

func list[T ~string](names []T) string {
	out := make([]string, 0, mostListed+1)
	for i, name := range names {
		if i == mostListed {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, string(name))
	}
	return strings.Join(out, ", ")
}
