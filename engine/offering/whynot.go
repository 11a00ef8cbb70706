package offering

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Emptiness returns the reason why a pool has no options: a requirement that no type meets, with the available values.
func (p *Pool) Emptiness() engine.Reason {
	r := engine.Reason{Code: engine.NoInstanceTypes, NodePool: p.NodePool.Name}
	settled := p.catalog.settled
	for _, e := range p.required {
		if !settled[e.Key] {
			continue
		}
		met, have := p.offers(e)
		if !met {
			r.Have = fmt.Sprintf(": %s %s, on offer are %s", e.Key, kube.ExpressionText(e), cmp.Or(engine.AtMost(have, 6), "none"))
			return r
		}
	}
	if key := p.contradiction(); key != "" {
		var all []requirement.Expression
		for _, e := range p.required {
			if e.Key == key {
				all = append(all, e)
			}
		}
		r.Have = fmt.Sprintf(": no label has a value that meets %s", kube.TermText(all))
	}
	return r
}

// offers reports whether any type of the class meets the expression, and lists the values of the expression's label on these types.
func (p *Pool) offers(e requirement.Expression) (met bool, have []string) {
	for i := range p.Class.InstanceTypes {
		kind := &p.Class.InstanceTypes[i]
		for j := range kind.Offerings {
			for _, value := range valuesOf(kind, &kind.Offerings[j], e.Key) {
				met = met || e.Admits(value, true)
				have = append(have, value)
			}
			_, known := kind.Labels[e.Key]
			met = met || !known && e.Admits("", false)
		}
	}
	slices.Sort(have)
	return met, slices.Compact(have)
}

// Missing returns why the pool cannot meet one expression.
func (p *Pool) Missing(e requirement.Expression) engine.Reason {
	u := p.in.Universe
	k := u.Key(e.Key)
	if k < 0 { // no machine has the label
		if e.Admits("", false) {
			return engine.Reason{}
		}
		return engine.Reason{Code: engine.LabelNotDefined, Key: e.Key, Need: kube.ExpressionText(e)}
	}
	have := bitset.New(u.Size(k))
	if byBit, ok := p.settled[k]; ok {
		for _, v := range byBit {
			have.Add(v.bit)
		}
	} else {
		have.Or(p.Model.Free[p.freeIndex[k]])
	}
	// The last bit represents all values that nothing else names, including those that only this expression names.
	other := u.Size(k) - 1
	given := have.Has(other) && e.Op == requirement.In && e.Key != corev1.LabelHostname && e.Key != kube.NodeNameKey &&
		slices.ContainsFunc(e.Values, func(value string) bool { return u.Bit(k, value) == other })
	if given || have.Meets(u.Set(e)) {
		return engine.Reason{}
	}
	r := engine.Reason{Key: e.Key, Need: kube.ExpressionText(e)}
	if have.Within(u.Missing(k)) && !slices.Contains(v1.WellKnownLabels(), e.Key) {
		r.Code = engine.LabelNotDefined
		return r
	}
	r.Code, r.Have = engine.LabelMismatch, p.valuesText(k, have)
	return r
}

// Nearest finds the term with the most expressions that the pool meets. It returns these expressions, and at most `most` reasons for the others.
// A term that requires the absence of a label that all nodes have comes last, because another term explains more.
func (p *Pool) Nearest(terms [][]requirement.Expression, most int) (met []requirement.Expression, misses []engine.Reason, ok bool) {
	furthest := 0
	for _, term := range terms {
		var here []requirement.Expression
		var reasons []engine.Reason
		far := 0
		for _, e := range term {
			r := p.Missing(e)
			switch {
			case r.OK():
				here = append(here, e)
				far++
			case e.Op == requirement.DoesNotExist:
				far -= len(term) + 1
			}
			if !r.OK() && len(reasons) < most {
				reasons = append(reasons, r)
			}
		}
		if !ok || far > furthest {
			met, misses, furthest, ok = here, reasons, far, true
		}
	}
	return met, misses, ok
}

func (p *Pool) valuesText(k int, set bitset.Set) string {
	var values []string
	for b := set.Next(0); b >= 0; b = set.Next(b + 1) {
		value, there := p.in.Universe.Value(k, b)
		switch {
		case !there:
			value = "no value"
		case b == p.in.Universe.Size(k)-1:
			value = "other values"
		}
		values = append(values, value)
	}
	return engine.AtMost(values, 6)
}

// VarietyRefusals returns the minValues that the listed options among these cannot reach.
func (p *Pool) VarietyRefusals(fitting bitset.Set) (out []engine.Reason) {
	varied := p.varied()
	for i, v := range p.Model.Variety {
		most := 0
		values := map[int]map[int]bool{} // values by group, because options of one group are listed together
		ofType := map[int]map[int]bool{}
		widest := 0 // values that one type has
		for o := fitting.Next(0); o >= 0; o = fitting.Next(o + 1) {
			option := &p.Model.Options[o]
			if !option.Listed || v.Value[o] < 0 {
				continue
			}
			widest = max(widest, note(ofType, option.Type, v.Value[o]))
			most = max(most, min(note(values, option.Group, v.Value[o]), widest*p.in.Opt.EffectiveMaxTypes()))
		}
		if most < v.Min && !v.Soft {
			out = append(out, engine.Reason{Code: engine.MinValuesNotMet, Key: v1.NormalizeLabel(varied[i].Key), Need: strconv.Itoa(v.Min), Have: strconv.Itoa(most)})
		}
	}
	return out
}

// note adds the value to the key's values and returns their number.
func note(values map[int]map[int]bool, key, value int) int {
	if values[key] == nil {
		values[key] = map[int]bool{}
	}
	values[key][value] = true
	return len(values[key])
}

// Names returns the names of the options' offerings, at most n.
func (p *Pool) Names(options bitset.Set, n int) string {
	var names []string
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		names = append(names, p.Options[o].ID().String())
	}
	slices.Sort(names)
	return engine.AtMost(slices.Compact(names), n)
}
