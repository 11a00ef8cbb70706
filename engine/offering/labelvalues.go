package offering

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// LabelValues holds the label values of existing machines and the possible values of new ones. Pods may name any number of other values and labels;
// they are all equivalent, because no machine ever has them.
type LabelValues struct {
	pools    []*Pool
	machines []*inventory.Machine
	// Answers by label: any value is possible, no machine has the label, and the values on machines.
	open, absent map[string]bool
	there        map[string]map[string]bool
}

// NewLabelValues returns the values for these pools and existing machines.
func NewLabelValues(pools []*Pool, machines []*inventory.Machine) *LabelValues {
	return &LabelValues{pools: pools, machines: machines, open: map[string]bool{}, absent: map[string]bool{}, there: map[string]map[string]bool{}}
}

// IsAbsent reports whether no machine has or can get the label.
func (x *LabelValues) IsAbsent(key string) bool {
	if x == nil || key == kube.NodeNameKey {
		return false
	}
	absent, known := x.absent[key]
	if !known {
		absent = !slices.Contains(v1.WellKnownLabels(), key) &&
			!slices.ContainsFunc(x.pools, func(p *Pool) bool { return p.knows(key) }) &&
			!slices.ContainsFunc(x.machines, func(machine *inventory.Machine) bool { return machine.MayHave(key) })
		x.absent[key] = absent
	}
	return absent
}

// knows reports whether the pool or its catalog names the label, so that its machines may have it.
func (p *Pool) knows(key string) bool {
	_, given := p.labels[key]
	return given || p.catalog.settled[key] || slices.ContainsFunc(p.required, func(e requirement.Expression) bool { return e.Key == key })
}

// has reports whether some machine has the value, or may get it.
func (x *LabelValues) has(key, value string) bool {
	return slices.ContainsFunc(x.pools, func(p *Pool) bool { return p.catalog.known[[2]string{key, value}] }) ||
		x.isOpen(key) || x.onHosts(key)[value]
}

// isOpen reports whether some machine can get any value of the label, because no type sets it.
func (x *LabelValues) isOpen(key string) bool {
	if open, known := x.open[key]; known {
		return open
	}
	open := key != corev1.LabelHostname && key != kube.NodeNameKey &&
		(slices.ContainsFunc(x.pools, func(p *Pool) bool { return !p.catalog.settled[key] }) ||
			slices.ContainsFunc(x.machines, func(machine *inventory.Machine) bool { return machine.Open != nil && len(machine.Open.Types) == 0 }))
	x.open[key] = open
	return open
}

func (x *LabelValues) onHosts(key string) map[string]bool {
	if values := x.there[key]; values != nil {
		return values
	}
	values := map[string]bool{}
	for _, m := range x.machines {
		if value, there := m.Label(key); there {
			values[value] = true
		}
		if m.Open == nil {
			continue
		}
		for _, t := range m.Open.Types {
			for i := range t.Offerings {
				for _, value := range valuesOf(t, &t.Offerings[i], key) {
					values[value] = true
				}
			}
		}
	}
	x.there[key] = values
	return values
}

// Reduced returns the terms without values that no machine has, without duplicates, and without terms that become unmeetable. The result means
// the same to every machine.
func (x *LabelValues) Reduced(terms [][]requirement.Expression) [][]requirement.Expression {
	if x == nil || !slices.ContainsFunc(terms, func(t []requirement.Expression) bool { return slices.ContainsFunc(t, x.namesOthers) }) {
		return terms
	}
	var out [][]requirement.Expression
	seen := map[string]bool{}
	for _, term := range terms {
		short := x.ReducedTerm(term)
		if slices.ContainsFunc(short, requirement.Expression.IsUnmeetable) {
			continue
		}
		if text := string(kube.AppendExpressions(nil, short)); !seen[text] {
			seen[text] = true
			out = append(out, short)
		}
	}
	return out
}

func (x *LabelValues) namesOthers(e requirement.Expression) bool {
	return e.IsUnmeetable() || x.IsAbsent(e.Key) || isList(e) && slices.ContainsFunc(e.Values, func(v string) bool { return !x.has(e.Key, v) })
}

func isList(e requirement.Expression) bool {
	return e.Op == requirement.In || e.Op == requirement.NotIn
}

// ReducedTerm reduces one term like Reduced; an expression that no machine can meet stays, without values.
func (x *LabelValues) ReducedTerm(term []requirement.Expression) []requirement.Expression {
	if x == nil {
		return term
	}
	out := make([]requirement.Expression, 0, len(term))
	for _, e := range term {
		switch {
		case x.IsAbsent(e.Key) && e.Admits("", false):
			continue
		case x.IsAbsent(e.Key):
			e = requirement.Expression{Key: corev1.LabelHostname, Op: requirement.In}
		case isList(e):
			kept := slices.DeleteFunc(slices.Clone(e.Values), func(v string) bool { return !x.has(e.Key, v) })
			if len(kept) == 0 && e.Op == requirement.NotIn {
				continue
			}
			e = requirement.Expect(e.Key, e.Op, kept)
		}
		out = append(out, e)
	}
	return out
}
