package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// lacking returns the resources that one more pod takes of a machine with the things in has: the pod does not take these things again.
func lacking(request capacity.Vector, shared []Shared, has bitset.Set) capacity.Vector {
	need := request
	for _, s := range shared {
		if !has.Has(s.Thing) {
			continue
		}
		if &need[0] == &request[0] {
			need = need.Clone()
		}
		need[s.Resource] -= s.Amount
	}
	return need
}

// withThings returns the set with the shared things; it does not change the set itself.
func (p *Problem) withThings(has bitset.Set, shared []Shared) bitset.Set {
	for _, thing := range shared {
		if !has.Has(thing.Thing) {
			has = union(has, bitset.Of(p.Things, thing.Thing))
		}
	}
	return has
}

// countSharers counts the pods that share each thing. It also finds the resources that every pod of a class takes of a new machine even if
// other pods have brought the shared things there.
func (hr *hostReader) countSharers() {
	hr.sharers = make([]int, hr.p.Things)
	for c := range hr.p.Classes {
		shared := hr.p.Classes[c].Shared
		for i, thing := range shared {
			if !slices.ContainsFunc(shared[:i], func(o Shared) bool { return o.Thing == thing.Thing }) {
				hr.sharers[thing.Thing] += hr.p.Classes[c].Count
			}
		}
	}
	all := bitset.Full(hr.p.Things)
	for c := range hr.p.Classes {
		hr.own = append(hr.own, lacking(hr.p.Classes[c].Request, hr.sharing(hr.p.Classes[c].Shared), all))
	}
}

// sharing returns the things that a pod may share with others on a new machine. A thing of only one pod is left out, because no other pod
// brings it.
func (hr *hostReader) sharing(shared []Shared) (out []Shared) {
	for _, thing := range shared {
		if hr.sharers[thing.Thing] > 1 {
			out = append(out, thing)
		}
	}
	return out
}

// together returns the resources that n pods of the class take of a new machine.
func (hr *hostReader) together(c, n int) capacity.Vector {
	all := hr.p.Classes[c].Request.Clone()
	all.Add(hr.own[c], int64(n-1))
	return all
}
