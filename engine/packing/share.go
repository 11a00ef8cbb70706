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
func (s *solver) withThings(has bitset.Set, shared []Shared) bitset.Set {
	for _, thing := range shared {
		if !has.Has(thing.Thing) {
			has = union(has, bitset.Of(s.p.Things, thing.Thing))
		}
	}
	return has
}

// countSharers counts the pods that share each thing. It also finds the resources that every pod of a class takes of a new machine even if
// other pods have brought the shared things there.
func (s *solver) countSharers() {
	s.sharers = make([]int, s.p.Things)
	for c := range s.p.Classes {
		shared := s.p.Classes[c].Shared
		for i, thing := range shared {
			if !slices.ContainsFunc(shared[:i], func(o Shared) bool { return o.Thing == thing.Thing }) {
				s.sharers[thing.Thing] += s.p.Classes[c].Count
			}
		}
	}
	all := bitset.Full(s.p.Things)
	for c := range s.p.Classes {
		s.own = append(s.own, lacking(s.p.Classes[c].Request, s.sharing(s.p.Classes[c].Shared), all))
	}
}

// sharing returns the things that a pod may share with others on a new machine. A thing of only one pod is left out, because no other pod
// brings it.
func (s *solver) sharing(shared []Shared) (out []Shared) {
	for _, thing := range shared {
		if s.sharers[thing.Thing] > 1 {
			out = append(out, thing)
		}
	}
	return out
}

// together returns the resources that n pods of the class take of a new machine.
func (s *solver) together(c, n int) capacity.Vector {
	all := s.p.Classes[c].Request.Clone()
	all.Add(s.own[c], int64(n-1))
	return all
}
