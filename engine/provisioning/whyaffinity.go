package provisioning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/topology"
)

// between returns the rules between pods that keep one more pod of the class off every new machine of the options, which are of one pool. It
// returns nil if there are none.
func (an *answer) between(pool, class int, options bitset.Set, world *topology.World) []engine.Reason {
	c := an.Classes[class]
	rules := c.last().Rules
	if rules == nil {
		return nil
	}
	var places []topology.Place
	var kept engine.Reason
	seen := bitset.New(len(an.InterPod.List))
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		option := &an.Packing.Pools[pool].Options[o]
		if seen.Has(option.Place) || !option.Listed {
			continue
		}
		seen.Add(option.Place)
		place := an.InterPod.List[option.Place]
		if r := an.keptOffBy(rules, place); !r.OK() {
			kept = r
			continue
		}
		if _, ok := world.Allows(rules, place); ok {
			kept = an.affinityMissing(c, rules, world)
			places = nil
			break
		}
		places = append(places, place)
	}
	if len(places) > 0 {
		return an.broke(c, rules, places, world)
	}
	if kept.OK() {
		return nil
	}
	return []engine.Reason{kept}
}

// keptOffBy names the DaemonSet whose pods, on new machines of the place, keep pods with these rules off them.
func (an *answer) keptOffBy(rules *topology.Rules, place topology.Place) engine.Reason {
	for i := range an.daemons {
		d := &an.daemons[i]
		if !d.Resident {
			continue
		}
		r := &an.InterPod.Layout.Residents[d.Number]
		if place[r.Key] <= topology.Absent {
			continue
		}
		for m := rules.HostRejects.Next(0); m >= 0; m = rules.HostRejects.Next(m + 1) {
			if r.HostOwns.Has(m) {
				return an.nodeRejectReason(m, d)
			}
		}
	}
	return engine.Reason{}
}

func (an *answer) nodeRejectReason(mark int, d *constraints.DaemonSet) engine.Reason {
	r := engine.Reason{Code: engine.AntiAffinityNotMet, Key: corev1.LabelHostname, Need: "pods of DaemonSet " + d.Key + ", which want to be apart from it,", Have: "every " + corev1.LabelHostname + " has some"}
	for i := range an.InterPod.Terms {
		if t := &an.InterPod.Terms[i]; kube.IsHost(t.Key) && mark == t.Selected {
			r.Need = "pods with " + an.InterPod.Selectors[t.Selector].String() + " (those of DaemonSet " + d.Key + ")"
		}
	}
	return r
}

// broke returns the rules that no place meets. If each rule is met in some place, broke returns all rules that some place does not meet.
func (an *answer) broke(c *podClass, r *topology.Rules, places []topology.Place, world *topology.World) []engine.Reason {
	var everywhere, somewhere []engine.Reason
	try := func(only topology.Rules, explain func() engine.Reason) {
		if len(everywhere) == mostObstacles {
			return
		}
		broken := 0
		for _, place := range places {
			if _, ok := world.Allows(&only, place); !ok {
				broken++
			}
		}
		switch {
		case broken == len(places):
			everywhere = append(everywhere, explain())
		case broken > 0 && len(somewhere) < mostObstacles:
			somewhere = append(somewhere, explain())
		}
	}
	for _, s := range r.Spread {
		try(topology.Rules{Spread: []topology.Spread{s}}, func() engine.Reason { return an.spreadReason(c, s, world) })
	}
	for _, a := range r.Affinity {
		try(topology.Rules{Affinity: []topology.Affinity{a}}, func() engine.Reason { return an.affinityReason(c, a, world) })
	}
	for _, m := range r.Rejects {
		try(topology.Rules{Rejects: []int{m}}, func() engine.Reason { return an.rejectReason(m) })
	}
	if missing := an.affinityMissing(c, r, world); !missing.OK() && !slices.Contains(everywhere, missing) {
		everywhere = append(everywhere, missing)
	}
	if len(everywhere) > 0 {
		return slices.Compact(everywhere)
	}
	for i := range somewhere {
		if somewhere[i].Code == engine.AntiAffinityNotMet {
			somewhere[i].Have = "some " + somewhere[i].Key + " has"
		}
	}
	return slices.Compact(somewhere)
}

// spreadReason returns the reason with the count of each domain.
func (an *answer) spreadReason(c *podClass, s topology.Spread, world *topology.World) engine.Reason {
	g := &an.InterPod.Groups[s.Group]
	r := engine.Reason{Code: engine.SpreadNotMet, Key: g.Key, Need: fmt.Sprintf("at most %d apart", s.MaxSkew)}
	if s.MinDomains > 0 {
		r.Need += fmt.Sprintf(", in %d domains or more", s.MinDomains)
	}
	key := an.InterPod.Layout.Groups[s.Group].Key
	var counts []string
	for d, n := range world.Count(s.Group) {
		if n >= 0 {
			counts = append(counts, fmt.Sprintf("%s has %d", an.InterPod.Domains[key].Name(d), n))
		}
	}
	slices.Sort(counts)
	if r.Have = engine.AtMost(counts, 6); len(counts) == 0 {
		r.Have = "no node can have this label"
	}
	return r
}

// affinityReason returns where the pods run that the affinity needs, or the cycle of pods that wait for each other.
func (an *answer) affinityReason(c *podClass, a topology.Affinity, world *topology.World) engine.Reason {
	set := &an.InterPod.Sets[a.Set]
	if c.Devices.Shared != "" && a.Set == an.InterPod.SetOfDevices(c.PodConstraints) {
		return engine.Reason{Code: engine.ClaimNotReady, Key: c.Devices.Shared, Have: "it will be allocated on the node of another pod, which has no room"}
	}
	if set.Claim != nil {
		return an.claimReason(a, world)
	}
	var keys, who []string
	for _, t := range set.Terms {
		keys = append(keys, t.Key)
		who = append(who, an.InterPod.Selectors[t.Selector].String())
	}
	slices.Sort(keys)
	r := engine.Reason{Code: engine.AffinityNotMet, Key: strings.Join(slices.Compact(keys), " and "), Need: "pods with " + strings.Join(slices.Compact(who), " and ")}
	for _, k := range an.InterPod.Layout.Sets[a.Set].Keys {
		if k != topology.Host && !slices.ContainsFunc(an.InterPod.List, func(at topology.Place) bool { return at[k] != topology.Nowhere }) {
			r.Key, r.Have = strings.TrimPrefix(an.InterPod.Keys.Name(k), "label "), "and no node can have this label"
			return r
		}
	}
	if world.Total(a.Set) == 0 {
		if cycle := an.cycle(c, a.Set); cycle != "" {
			return engine.Reason{Code: engine.AffinityCycle, Need: cycle}
		}
		r.Have = "and there are none"
		return r
	}
	var where []string
	for i, k := range an.InterPod.Layout.Sets[a.Set].Keys {
		if k == topology.Host {
			continue
		}
		for _, d := range world.Domains(a.Set, i) {
			where = append(where, an.InterPod.Domains[k].Name(d))
		}
	}
	slices.Sort(where)
	if r.Have = "which are in " + engine.AtMost(where, 6); len(where) == 0 {
		r.Have = "and no node that has them takes it"
	}
	return r
}

// claimReason returns where the volume will be that the pod shares with other pods.
func (an *answer) claimReason(a topology.Affinity, world *topology.World) engine.Reason {
	var where []string
	for i, k := range an.InterPod.Layout.Sets[a.Set].Keys {
		if k == topology.Host {
			continue
		}
		for _, d := range world.Domains(a.Set, i) {
			where = append(where, an.InterPod.Domains[k].Name(d))
		}
	}
	slices.Sort(where)
	return engine.Reason{
		Code: engine.VolumeNotReady, Key: an.InterPod.Sets[a.Set].Claim.ID.String(),
		Have: "its volume will be made for another pod, " + cmp.Or(engine.AtMost(where, 6), "on its node"),
	}
}

// affinityMissing returns a reason if a pod must share a machine with other pods, and these do not run or their machines have no room.
func (an *answer) affinityMissing(c *podClass, r *topology.Rules, world *topology.World) engine.Reason {
	for _, a := range r.Affinity {
		first := world.Total(a.Set) == 0 && an.InterPod.InSet(a.Set, c.matched)
		if an.InterPod.Layout.Sets[a.Set].WithHost() && !first {
			if world.Total(a.Set) == 0 {
				return an.affinityReason(c, a, world)
			}
			set := &an.InterPod.Sets[a.Set]
			if c.Devices.Shared != "" && a.Set == an.InterPod.SetOfDevices(c.PodConstraints) {
				return an.affinityReason(c, a, world)
			}
			if set.Claim != nil {
				return engine.Reason{Code: engine.VolumeNotReady, Key: set.Claim.ID.String(), Have: "its volume will be made on the node of another pod, which has no room"}
			}
			return engine.Reason{
				Code: engine.AffinityNotMet, Key: corev1.LabelHostname, Need: "pods with " + an.InterPod.Selectors[set.Terms[0].Selector].String(),
				Have: "and no machine that has them takes it",
			}
		}
	}
	return engine.Reason{}
}

// mostInCycle bounds the pods of a cycle that are named.
const mostInCycle = 8

// cycle names classes that wait for each other, starting with the given one; empty if its chain of affinities ends.
func (an *answer) cycle(c *podClass, set int) string {
	names := []string{kube.PodID(c.Pods[0]).String()}
	at, more := set, 0
	for range an.Classes {
		other := an.firstOf(at)
		if other == nil {
			return ""
		}
		name := kube.PodID(other.Pods[0]).String()
		switch {
		case other == c && more > 0:
			return strings.Join(names, " waits for ") + fmt.Sprintf(", and so on over %s, the last of which waits for %s", engine.Plural(more, "more pod"), name)
		case other == c:
			return strings.Join(append(names, name), " waits for ")
		case len(names) == mostInCycle:
			more++
		default:
			names = append(names, name)
		}
		if at = other.Set; at < 0 {
			return ""
		}
	}
	return ""
}

// firstOf returns the first class of the set. It returns nil if there is none.
func (an *answer) firstOf(set int) *podClass {
	if an.first == nil {
		an.first = map[int]*podClass{}
		for _, c := range slices.Backward(an.Classes) {
			for _, s := range an.InterPod.Concerns(c.matched).Sets {
				if an.InterPod.InSet(s, c.matched) {
					an.first[s] = c
				}
			}
		}
	}
	return an.first[set]
}

func (an *answer) rejectReason(mark int) engine.Reason {
	for i := range an.InterPod.Terms {
		t := &an.InterPod.Terms[i]
		if kube.IsHost(t.Key) || mark != t.Selected && mark != t.Owned {
			continue
		}
		who := "pods with " + an.InterPod.Selectors[t.Selector].String()
		if mark == t.Owned {
			who = "pods that want to be apart from it"
		}
		return engine.Reason{Code: engine.AntiAffinityNotMet, Key: t.Key, Need: who, Have: "every " + t.Key + " has some"}
	}
	return engine.Reason{Code: engine.VolumeNotReady, Key: an.InterPod.Onces[max(0, mark-an.InterPod.OnceMark(0))], Have: "only one pod may use it at a time (ReadWriteOncePod)"}
}
