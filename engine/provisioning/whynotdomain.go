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

// inDomains returns why no option is available in the domains that the rules between pods leave. The options are of pool i and would hold a
// pod of the class. The rules fix the domain, and the domain has too few values for minValues, or its options exceed a limit. It returns nil
// if there is no reason of this kind.
func (an *answer) inDomains(i, class int, options bitset.Set, left []int64, spare []int, world *topology.World) (out []engine.Reason) {
	rules := an.Classes[class].last().Rules
	if rules == nil {
		return nil
	}
	keys := rules.Interest(&an.InterPod.Layout)
	for _, options := range an.domains(i, class, options, keys, world) {
		refusals := an.supplyRefusals(an.Pools[i], options, left, spare)
		if len(refusals) == 0 {
			return nil
		}
		if out == nil {
			out = refusals
		}
	}
	if out != nil {
		out[0].Have += ", since " + betweenText(rules) + " fixes " + an.placeText(keys)
	}
	return out
}

// domains divides the options of pool i, sold out or not, by the domains in which the rules between pods allow a pod of the class.
func (an *answer) domains(i, class int, options bitset.Set, keys []int, world *topology.World) []bitset.Set {
	rules := an.Classes[class].last().Rules
	at := map[string]bitset.Set{}
	spot := map[int]string{} // the domain of each place as text, empty if the place is not allowed
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		number := an.Pools[i].Model.Options[o].Place
		text, known := spot[number]
		if !known {
			place := an.InterPod.List[number]
			if _, ok := world.Allows(rules, place); ok {
				text = "at"
				for _, k := range keys {
					text += fmt.Sprint(" ", place[k])
				}
			}
			spot[number] = text
		}
		if text == "" {
			continue
		}
		if at[text] == nil {
			at[text] = bitset.New(len(an.Pools[i].Options))
		}
		at[text].Add(o)
	}
	var out []bitset.Set
	for _, text := range kube.SortedKeys(at) {
		out = append(out, at[text])
	}
	return out
}

// together returns a reason that names the constraints that cannot be met all at once, though each can be met alone.
func together(p *offering.Pool, r *topology.Rules) engine.Reason {
	parts := []string{"what the other pods of this plan take"}
	if r != nil {
		parts = append(parts, betweenText(r))
	}
	if len(p.Model.Variety) > 0 {
		parts = append(parts, "minValues")
	}
	if len(p.NodePool.Spec.Limits) > 0 {
		parts = append(parts, "the pool's limits")
	}
	parts = append(parts, suppliesOf(p)...)
	return engine.Reason{Code: engine.ConstraintsConflict, Have: strings.Join(parts, ", ")}
}

// mostSupplies bounds the supplies of a kind that a sentence names.
const mostSupplies = 3

// suppliesOf returns the limited supplies that the pool's machines draw from. Each is named, except capacity reservations, because a user who has to
// raise one should know which.
func suppliesOf(p *offering.Pool) (out []string) {
	named := map[string][]string{} // by kind
	for i := range p.Options {
		if o := p.Options[i].Offering; o.Reservation != "" && !slices.Contains(named[o.Bound], o.Reservation) {
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
func (an *answer) placeText(keys []int) string {
	var labels []string
	for _, k := range keys {
		if label, ok := strings.CutPrefix(an.InterPod.Keys.Name(k), "label "); ok {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, " and ")
}
