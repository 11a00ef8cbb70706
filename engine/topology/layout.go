// Package topology computes the places where a pod may go beside the pods that are there: spread constraints, pod affinity and anti-affinity, and
// any other rule by which pods cannot share a machine. It knows only small integers: keys divide places into domains, and groups, sets and marks are
// counted in them. The caller decides which of Kubernetes' objects the integers number.
package topology

import (
	"slices"

	"tenon.sh/engine/bitset"
)

// Host, as a key, means that every machine is a domain of its own. What is counted by machine is kept by whoever keeps
// the machines; a World counts the other keys.
const Host = -1

// Nowhere is the domain of a place that lacks a key.
const Nowhere = int32(-1)

// Open is the domain of a machine that will have the key, with a value that is not known yet.
const Open = int32(-2)

// A Place says which domain of each key a machine is in: one entry for each key.
type Place []int32

// Layout is what there is to count, and how it stands before anything is placed.
type Layout struct {
	// Domains holds, for each key, how many domains it has.
	Domains []int
	Groups  []Group
	Sets    []Set
	Marks   []Mark
	// HostMarks counts the marks that concern single machines; they are numbered apart.
	HostMarks int
	Available []Available
	Residents []Resident
}

// Group is what a spread constraint counts: some pods, on the machines that pass its filter, by domain of its key.
type Group struct {
	Key int
	// Filter is a key with the domains 0 and 1 that tells the machines that do not count from those that do; -1 where all
	// do.
	Filter int
	// Count and There hold, for each domain, the pods that run there and whether any machine that counts is there. Both are
	// unused for the key Host.
	Count []int
	There bitset.Set
	// May holds, for each domain, pods that may come there, or not; nil for none.
	May []int
	// Zero, for the key Host, says that some machine that counts has none and cannot get any.
	Zero bool
}

// Set is what the affinity of a pod looks for: pods that meet all of its terms, counted by each term's key.
type Set struct {
	Keys []int
	// Count holds, for each of the keys, the pods in each domain; nil for the key Host.
	Count [][]int
	// Total counts them wherever they are.
	Total int
	// Loose sets ask only for the keys that their pods have: the first pod goes anywhere, and where it lacks a key, the
	// others need not be like it.
	Loose bool
}

// Mark is something that keeps others out of a domain: the owner of an anti-affinity term, or a pod that the term
// selects.
type Mark struct {
	Key int
	At  bitset.Set // the domains that own the mark already
}

// Resident is a pod that new machines have before any other comes. Its key tells the places of machines that have none from
// those of machines that may have one and those that surely have: the domains are Absent, Possible and Certain. Machines that
// are there already are Nowhere: who is on them is counted.
type Resident struct {
	Key int
	// Groups and Sets count it, Owns and HostOwns are the marks that it leaves.
	Groups, Sets, Owns []int
	HostOwns           bitset.Set
}

// The domains of a resident's key.
const (
	Absent int32 = iota
	Possible
	Certain
)

// Rules is what one kind of pod asks of a place, and what it changes there.
type Rules struct {
	Spread   []Spread
	Affinity []Affinity
	// Groups and Sets count the pod.
	Groups, Sets []int
	// Owns are the marks that the pod leaves in its domain, Rejects those that keep it out.
	Owns, Rejects []int
	// HostOwns and HostRejects are the same for single machines; nil where there are none.
	HostOwns, HostRejects bitset.Set
	// Takes lists what the pod takes, one thing each, from available volumes.
	Takes []Take
}

// Spread bounds how much fuller than the emptiest domain the pod's own may be.
type Spread struct {
	Group   int
	MaxSkew int
	// MinDomains is the number of domains below which the emptiest counts as empty; 0 for none.
	MinDomains int
	// Self is true where the group counts the pod itself.
	Self bool
}

// Affinity asks for company.
type Affinity struct {
	Set int
	// Self is true where the set counts the pod itself: then the first one may go anywhere.
	Self bool
}

// Len counts the rules that are not about single machines.
func (r *Rules) Len() int {
	return len(r.Spread) + len(r.Affinity) + len(r.Groups) + len(r.Sets) + len(r.Owns) + len(r.Rejects) + len(r.Takes)
}

// ByHost reports whether the rule set says anything about single machines.
func (r *Rules) ByHost(l *Layout) bool {
	if !r.HostOwns.Empty() || !r.HostRejects.Empty() {
		return true
	}
	for _, s := range r.Spread {
		if l.Groups[s.Group].Key == Host {
			return true
		}
	}
	for _, g := range r.Groups {
		if l.Groups[g].Key == Host {
			return true
		}
	}
	for _, s := range r.Sets {
		if l.Sets[s].WithHost() {
			return true
		}
	}
	return slices.ContainsFunc(r.Affinity, func(a Affinity) bool { return l.Sets[a.Set].WithHost() })
}

// WithHost reports whether the set is counted by machine.
func (s *Set) WithHost() bool { return slices.Contains(s.Keys, Host) }

// Interest lists, ascending, the keys on which the rules depend or which they change: a pod with these rules has to know
// its domain of each.
func (r *Rules) Interest(l *Layout) []int {
	seen := bitset.New(len(l.Domains))
	add := func(k int) {
		if k >= 0 {
			seen.Add(k)
		}
	}
	group := func(g int) {
		add(l.Groups[g].Key)
		add(l.Groups[g].Filter)
	}
	for _, s := range r.Spread {
		group(s.Group)
	}
	for _, g := range r.Groups {
		group(g)
	}
	for _, s := range r.Sets {
		for _, k := range l.Sets[s].Keys {
			add(k)
		}
	}
	for _, a := range r.Affinity {
		for _, k := range l.Sets[a.Set].Keys {
			add(k)
		}
	}
	for _, marks := range [][]int{r.Owns, r.Rejects} {
		for _, m := range marks {
			add(l.Marks[m].Key)
		}
	}
	for i := range r.Takes {
		add(l.Available[r.Takes[i].Supply].Key)
	}
	for i := range l.Residents {
		if r.minds(l, &l.Residents[i]) {
			add(l.Residents[i].Key)
		}
	}
	var keys []int
	for k := seen.Next(0); k >= 0; k = seen.Next(k + 1) {
		keys = append(keys, k)
	}
	return keys
}

// minds reports whether it matters to a pod with these rules that the resident is on its machine, or comes with it. What counts
// pods on single machines is full sooner for whoever is counted beside it.
func (r *Rules) minds(l *Layout, resident *Resident) bool {
	return slices.ContainsFunc(r.Spread, func(s Spread) bool { return slices.Contains(resident.Groups, s.Group) }) ||
		slices.ContainsFunc(r.Groups, func(g int) bool { return l.Groups[g].Key == Host && slices.Contains(resident.Groups, g) }) ||
		slices.ContainsFunc(r.Affinity, func(a Affinity) bool { return slices.Contains(resident.Sets, a.Set) }) ||
		slices.ContainsFunc(r.Rejects, func(m int) bool { return slices.Contains(resident.Owns, m) }) ||
		len(r.HostRejects) > 0 && len(resident.HostOwns) > 0 && r.HostRejects.Meets(resident.HostOwns)
}
