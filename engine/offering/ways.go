package offering

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// domain returns the possible values of a label that no type sets, by the pool's labels and requirements. A well-known label that the pool
// leaves open can get any value; the pool must define other labels. Each machine gets a new hostname and a new name, which no pod names.
func (p *Pool) domain(k int) bitset.Set {
	u := p.in.Universe
	key := u.Name(k)
	if key == corev1.LabelHostname || key == kube.NodeNameKey {
		return bitset.Of(u.Size(k), u.Size(k)-1)
	}
	set := u.Any(k)
	defined := slices.Contains(v1.WellKnownLabels(), key)
	if value, ok := p.labels[key]; ok {
		set.And(u.Only(k, value))
		defined = true
	}
	for _, e := range p.required {
		if e.Key == key {
			set.And(u.Set(e))
			defined = true
		}
	}
	if !defined {
		return u.Missing(k)
	}
	return set
}

// subtractDaemons subtracts the requests of DaemonSets' pods from the options that they can run on.
func (p *Pool) subtractDaemons() {
	for i := range p.in.DaemonSets {
		d := &p.in.DaemonSets[i]
		need := p.in.Names.Vector(d.Requests)
		burdened := bitset.New(len(p.Options))
		for _, way := range p.Ways(&d.NodeConstraints) {
			burdened.Or(way.Options)
		}
		p.Burdened = append(p.Burdened, burdened)
		// Adjacent options of the same type share vectors.
		var kind *engine.InstanceType
		var heavy, light []capacity.Vector
		for o := burdened.Next(0); o >= 0; o = burdened.Next(o + 1) {
			if p.Options[o].Kind != kind {
				kind, heavy, light = p.Options[o].Kind, heavy[:0], light[:0]
			}
			old := p.Model.Options[o].Allocatable
			at := slices.IndexFunc(heavy, func(v capacity.Vector) bool { return &v[0] == &old[0] })
			if at < 0 {
				at = len(heavy)
				heavy, light = append(heavy, old), append(light, old.Clone())
				light[at].Add(need, -1)
			}
			p.Model.Options[o].Allocatable = light[at]
		}
	}
}

// Ways lists the ways in which a pod with these constraints may use the pool's machines.
func (p *Pool) Ways(d *kube.NodeConstraints) []packing.Way {
	if kube.Untolerated(d.Tolerations, p.Taints) != nil || d.Avoid && kube.Unwelcome(d.Tolerations, p.Taints) {
		return nil
	}
	return p.TolerantWays(d)
}

// Without removes options from ways; nil removes none.
func Without(ways []packing.Way, options bitset.Set) []packing.Way {
	if options == nil {
		return ways
	}
	var out []packing.Way
	for _, way := range ways {
		left := way.Options.Clone()
		left.AndNot(options)
		if !left.Empty() {
			out = append(out, packing.Way{Options: left, Free: way.Free})
		}
	}
	return out
}

// TolerantWays lists the ways as Ways does, but ignores the pool's taints.
func (p *Pool) TolerantWays(d *kube.NodeConstraints) []packing.Way {
	var out []packing.Way
	for _, term := range d.Terms {
		way, ok := p.Way(term)
		if !ok {
			continue
		}
		// Alternatives that leave every free key open are merged, because any of their options will do.
		if len(out) > 0 && allNil(way.Free) && allNil(out[len(out)-1].Free) {
			out[len(out)-1].Options.Or(way.Options)
			continue
		}
		out = append(out, way)
	}
	return out
}

func allNil(sets []bitset.Set) bool {
	return !slices.ContainsFunc(sets, func(s bitset.Set) bool { return s != nil })
}

// Way returns the options and free values that one term leaves; ok is false if none are left.
func (p *Pool) Way(term []requirement.Expression) (w packing.Way, ok bool) {
	u := p.in.Universe
	w.Options = bitset.Full(len(p.Options))
	w.Free = make([]bitset.Set, len(p.free))
	for _, e := range term {
		k := u.Key(e.Key)
		if k < 0 { // no machine has the label
			if !e.Admits("", false) {
				return w, false
			}
			continue
		}
		if byBit, settled := p.settled[k]; settled {
			p.keepOptions(w.Options, byBit, u.Set(e))
			continue
		}
		i := p.freeIndex[k]
		set := u.Set(e)
		if p.Model.Free[i].Within(set) && w.Free[i] == nil {
			continue
		}
		if w.Free[i] == nil {
			w.Free[i] = p.Model.Free[i].Clone()
		}
		w.Free[i].And(set)
		if w.Free[i].Empty() {
			return w, false
		}
	}
	return w, !w.Options.Empty()
}

// keepOptions keeps the options that have one of the values. It loops over these values or over the others, whichever are fewer, because an
// expression may name a thousand values, or all but a few.
func (p *Pool) keepOptions(options bitset.Set, byBit []valueOptions, values bitset.Set) {
	n := 0
	for _, v := range byBit {
		if values.Has(v.bit) {
			n++
		}
	}
	if 2*n > len(byBit) {
		for _, v := range byBit {
			if !values.Has(v.bit) {
				options.AndNot(v.options)
			}
		}
		return
	}
	kept := bitset.New(len(p.Options))
	for _, v := range byBit {
		if values.Has(v.bit) {
			kept.Or(v.options)
		}
	}
	options.And(kept)
}
