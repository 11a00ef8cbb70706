package provisioning

import (
	"fmt"
	"slices"
	"strings"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/topology"
)

// inDomains says why no machine of the pool can be had though one could hold a pod of the class, and the rules between pods leave
// it places: they fix where the machine is, and there it has too few values for minValues, or is above a limit. If neither is
// so, it names all that has to be met together.
func (p *Problem) inDomains(i, class int, left []int64, spare []int, w *topology.World) (first, beside engine.Reason) {
	c, pool := p.Classes[class], p.Pools[i]
	level := &c.levels[len(c.levels)-1]
	if level.Rules == nil {
		return together(pool, nil), engine.Reason{}
	}
	keys := level.Rules.Interest(&p.InterPod.Layout)
	for _, options := range p.domains(i, class, keys, w) {
		r, second := p.supplyRefusal(pool, options, left, spare)
		if r.OK() {
			return together(pool, level.Rules), engine.Reason{}
		}
		if first.OK() {
			first, beside = r, second
		}
	}
	if first.OK() {
		return together(pool, level.Rules), engine.Reason{}
	}
	first.Have += ", since " + betweenText(level.Rules) + " fixes " + p.placeText(keys)
	return first, beside
}

// domains are the options, sold out or not, that hold a pod of the class, by where the rules between pods allow them.
func (p *Problem) domains(i, class int, keys []int, w *topology.World) []bitset.Set {
	c, pool := p.Classes[class], p.Pools[i]
	level := &c.levels[len(c.levels)-1]
	var order []string
	at := map[string]bitset.Set{}
	spot := map[int]string{} // of each place, empty for those that are not allowed
	for _, way := range level.Ways.Pools[i] {
		for o := way.Options.Next(0); o >= 0; o = way.Options.Next(o + 1) {
			option := &pool.Model.Options[o]
			if !c.Request.Fits(option.Allocatable) {
				continue
			}
			text, known := spot[option.Place]
			if !known {
				place := p.InterPod.List[option.Place]
				if _, ok := w.Allows(level.Rules, place); ok {
					text = "at"
					for _, k := range keys {
						text += fmt.Sprint(" ", place[k])
					}
				}
				spot[option.Place] = text
			}
			if text == "" {
				continue
			}
			if at[text] == nil {
				at[text] = bitset.New(len(pool.Options))
				order = append(order, text)
			}
			at[text].Add(o)
		}
	}
	slices.Sort(order)
	var out []bitset.Set
	for _, text := range order {
		out = append(out, at[text])
	}
	return out
}

// together names what cannot be met all at once, though each part of it can.
func together(m *offering.Pool, r *topology.Rules) engine.Reason {
	parts := []string{"what the other pods of this plan take"}
	if r != nil {
		parts = append(parts, betweenText(r))
	}
	if len(m.Model.Variety) > 0 {
		parts = append(parts, "minValues")
	}
	if len(m.NodePool.Spec.Limits) > 0 {
		parts = append(parts, "the pool's limits")
	}
	parts = append(parts, suppliesOf(m)...)
	return engine.Reason{Code: engine.ConstraintsConflict, Have: strings.Join(parts, ", ")}
}

// mostSupplies is how many supplies of a kind a sentence names.
const mostSupplies = 3

// suppliesOf are those with an end that the pool's machines draw from. Others than capacity reservations are named: whoever has to
// raise one should know which.
func suppliesOf(m *offering.Pool) (out []string) {
	named := map[string][]string{} // by what they are
	for i := range m.Options {
		if o := m.Options[i].Offering; o.Reservation != "" && !slices.Contains(named[o.Bound], o.Reservation) {
			named[o.Bound] = append(named[o.Bound], o.Reservation)
		}
	}
	for _, kind := range kube.SortedKeys(named) {
		if kind == "" {
			out = append(out, "capacity reservations")
			continue
		}
		slices.Sort(named[kind])
		out = append(out, fmt.Sprintf("%s (%s)", kind, engine.AtMost(named[kind], mostSupplies)))
	}
	return out
}

// betweenText names the kinds of rules between pods.
func betweenText(r *topology.Rules) string {
	var parts []string
	add := func(there bool, text string) {
		if there {
			parts = append(parts, text)
		}
	}
	add(len(r.Spread) > 0, "topology spread")
	add(len(r.Affinity) > 0, "pod affinity")
	add(len(r.Rejects) > 0 || !r.HostRejects.Empty(), "pod anti-affinity")
	add(len(r.Takes) > 0, "volumes")
	add(len(parts) == 0, "what other pods ask for")
	return strings.Join(parts, " with ")
}

// placeText names the labels of the keys of places.
func (p *Problem) placeText(keys []int) string {
	var labels []string
	for _, k := range keys {
		if label, ok := strings.CutPrefix(p.InterPod.Keys.Name(k), "label "); ok {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, " and ")
}
