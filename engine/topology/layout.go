// Package topology computes the places where a pod may go beside the pods that are there: spread constraints, pod affinity and anti-affinity, and
// any other rule by which pods cannot share a machine. It knows only small integers: keys divide places into domains, and groups, sets and marks are
// counted in them. The caller decides which of Kubernetes' objects the integers number.
package topology

import (
	"slices"

	"tenon.sh/engine/bitset"
)

// Host, as a key, means that every machine is a domain of its own. The caller counts pods by machine; a World counts the other keys.
const Host = -1

// Nowhere is the domain of a place that lacks a key.
const Nowhere = int32(-1)

// Open is the domain of a machine that will have the key, with a value that is not known yet.
const Open = int32(-2)

// A Place lists the domain of a machine for each key.
type Place []int32

// Layout describes the groups, sets and marks to count, and their counts before any pod is placed.
type Layout struct {
	// Domains holds, for each key, the number of its domains.
	Domains []int
	Groups  []Group
	Sets    []Set
	Marks   []Mark
	// HostMarks is the number of marks that concern single machines. Their indexes are separate from those of Marks.
	HostMarks int
	Available []Available
	Residents []Resident
}

// Group is the pods that a spread constraint counts, on the machines that pass its filter, by domain of its key.
type Group struct {
	Key int
	// Filter is a key with the domains 0 and 1: the group includes only machines of domain 1. It is -1 if the group includes all machines.
	Filter int
	// Count holds, for each domain, the number of pods that run there. There holds the domains with a machine that the group includes. Both are
	// unused for the key Host.
	Count []int
	There bitset.Set
	// May holds, for each domain, the number of pods that may run there later; nil for none.
	May []int
	// Zero, for the key Host, is true if some machine that the group counts has no pod of the group and cannot get one.
	Zero bool
}

// Set is the pods that an affinity looks for: pods that meet all of its terms, counted by each term's key.
type Set struct {
	Keys []int
	// Count holds, for each of the keys, the pods in each domain; nil for the key Host.
	Count [][]int
	// Total counts the pods in all domains together.
	Total int
	// Loose is true for a set that has rules only for the keys that its pods have: the first pod may be placed anywhere and, if it lacks a key, the
	// other pods may have any value of this key.
	Loose bool
}

// Mark keeps pods out of a domain: a mark of the owners of an anti-affinity term, or of the pods that the term selects.
type Mark struct {
	Key int
	At  bitset.Set // the domains that own the mark already
}

// Resident is a DaemonSet's pod that new machines get before any other pod. Its key divides machines by the resident's presence: the domains are
// Absent, Possible and Certain. Machines that exist already are Nowhere, because their pods are counted.
type Resident struct {
	Key int
	// Groups and Sets are those that count the resident. Owns and HostOwns are its marks.
	Groups, Sets, Owns []int
	HostOwns           bitset.Set
}

// The domains of a resident's key.
const (
	Absent int32 = iota
	Possible
	Certain
)

// Rules is the rules of one kind of pod for a place, and its effect on the counts there.
type Rules struct {
	Spread   []Spread
	Affinity []Affinity
	// Groups and Sets are those that count the pod.
	Groups, Sets []int
	// Owns are the marks that the pod leaves in its domain, Rejects the marks that keep it out.
	Owns, Rejects []int
	// HostOwns and HostRejects are the marks for single machines; nil for none.
	HostOwns, HostRejects bitset.Set
	// Takes lists the pod's requests for available volumes: it takes one volume for each entry.
	Takes []Take
}

// Spread bounds the difference between the counts of the pod's domain and of the emptiest domain.
type Spread struct {
	Group   int
	MaxSkew int
	// MinDomains is the number of domains below which the emptiest domain is treated as empty; 0 for none.
	MinDomains int
	// Self is true if the group includes the pod itself.
	Self bool
}

// Affinity requires a pod of the set in the pod's domains.
type Affinity struct {
	Set int
	// Self is true if the set includes the pod itself: then the first pod may be placed anywhere.
	Self bool
}

// Len returns the number of rules, without HostOwns and HostRejects.
func (r *Rules) Len() int {
	return len(r.Spread) + len(r.Affinity) + len(r.Groups) + len(r.Sets) + len(r.Owns) + len(r.Rejects) + len(r.Takes)
}

// ByHost reports whether some rule concerns single machines.
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

// Interest returns, in ascending order, the keys on which the rules depend or whose counts they change. A pod with these rules needs a
// known domain for each of these keys.
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

// minds reports whether the resident matters to a pod with these rules on the same machine or in the same domain. A resident of the pod's
// host groups matters too, because it counts toward their bound on the machine.
func (r *Rules) minds(l *Layout, resident *Resident) bool {
	return slices.ContainsFunc(r.Spread, func(s Spread) bool { return slices.Contains(resident.Groups, s.Group) }) ||
		slices.ContainsFunc(r.Groups, func(g int) bool { return l.Groups[g].Key == Host && slices.Contains(resident.Groups, g) }) ||
		slices.ContainsFunc(r.Affinity, func(a Affinity) bool { return slices.Contains(resident.Sets, a.Set) }) ||
		slices.ContainsFunc(r.Rejects, func(m int) bool { return slices.Contains(resident.Owns, m) }) ||
		len(r.HostRejects) > 0 && len(resident.HostOwns) > 0 && r.HostRejects.Meets(resident.HostOwns)
}
