package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// lacking is what one more pod takes of a machine that has some things: of those that it shares only what is not there.
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

// withThings is the set with what is shared, as a new set if that adds anything.
func (s *solver) withThings(has bitset.Set, shared []Shared) bitset.Set {
	for _, thing := range shared {
		if !has.Has(thing.Thing) {
			has = union(has, bitset.Of(s.p.Things, thing.Thing))
		}
	}
	return has
}

// countSharers counts the pods that share each thing, and works out what every pod of a class takes of a new machine even
// if others have brought there what it shares.
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

// sharing is what a pod may share with others on a new machine: what only one pod to place has, nobody brings.
func (s *solver) sharing(shared []Shared) (out []Shared) {
	for _, thing := range shared {
		if s.sharers[thing.Thing] > 1 {
			out = append(out, thing)
		}
	}
	return out
}

// together is what n pods of the class take of a new machine.
func (s *solver) together(c, n int) capacity.Vector {
	all := s.p.Classes[c].Request.Clone()
	all.Add(s.own[c], int64(n-1))
	return all
}
