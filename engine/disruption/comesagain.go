package disruption

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

const (
	// mostComings bounds the times that are kept for an owner, mostOwners bounds the owners. An owner is forgotten if all its times are longer ago
	// than "within".
	mostComings = 4
	mostOwners  = 500
	within      = time.Hour
	// comesLate is how long after the expected time a machine still waits for the owner's pods.
	comesLate = 15 * time.Second
	// newMachine is the greatest age of a machine at which its owner is still looked for.
	newMachine = 10 * time.Minute
	// leastBilled is the shortest time for which clouds bill a machine.
	leastBilled = time.Minute
)

// noteComings records, for each owner for whose pods alone machines were started, the times when its pods were created while none of these machines
// was busy.
func (cs *candidates) noteComings() {
	before := cs.s.EarlierPasses.Comings
	ownerOf := map[string]string{} // the owner's key, by the UID of the machine's claim
	for key, c := range before {
		for _, uid := range c.Machines {
			ownerOf[uid] = key
		}
	}
	now := map[string]engine.Comings{}
	came := map[string]time.Time{}
	for _, m := range cs.p.Machines { // ordered by name
		if m.Claim == nil || m.Leaving {
			continue
		}
		uid := string(m.Claim.UID)
		key, known := ownerOf[uid]
		if !known && cs.s.Now.Sub(m.Claim.CreationTimestamp.Time) < newMachine {
			key = startedFor(m)
		}
		if key == "" {
			continue
		}
		ownerOf[uid] = key
		c := now[key]
		c.Machines = append(c.Machines, uid)
		if boot := m.Begun.Sub(kube.TrueSince(m.Claim, v1.ConditionLaunched)); m.IsInitialized() && boot > 0 && (c.Boot == 0 || boot < c.Boot) {
			c.Boot = boot
		}
		for _, pod := range slices.Concat(m.Expected, m.Bound) {
			if kube.IsActive(pod) && m.Pool()+" "+kube.LastingOwner(pod) == key {
				c.Busy, came[key] = true, kube.Latest(came[key], pod.CreationTimestamp.Time)
			}
		}
		now[key] = c
	}
	cs.addEarlier(now, came)
	cs.passes.Comings, cs.ownerOf = now, ownerOf
}

// addEarlier adds the records of earlier passes to the records of this one. came holds, by owner, the time when its newest pod was created.
func (cs *candidates) addEarlier(now map[string]engine.Comings, came map[string]time.Time) {
	before := cs.s.EarlierPasses.Comings
	for key, old := range before {
		if n := len(old.Times); n == 0 || cs.s.Now.Sub(old.Times[n-1]) >= within {
			delete(now, key)
			continue
		}
		c := now[key]
		if c.Times = old.Times; c.Boot == 0 || old.Boot > 0 && old.Boot < c.Boot {
			c.Boot = old.Boot
		}
		now[key] = c
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		c, old := now[key], before[key]
		if _, known := before[key]; !known && len(now) > mostOwners {
			delete(now, key)
			continue
		}
		slices.Sort(c.Machines)
		c.Machines = slices.Compact(c.Machines) // a machine may have several nodes
		if c.Busy && !old.Busy && (len(c.Times) == 0 || came[key].Sub(c.Times[len(c.Times)-1]) > inventory.PodEventWindow) {
			c.Times = append(slices.Clone(c.Times[max(0, len(c.Times)-mostComings+1):]), came[key].UTC())
		}
		now[key] = c
	}
}

// startedFor returns the key of the machine's pool and of the one owner of the pods that it was started for, if they still exist. It returns "" if
// there are several owners or none. Only CronJobs are considered, because they follow the clock: the steps of a workflow recur too, but then stop.
func startedFor(m *inventory.Machine) string {
	planned, owner := kube.PlannedPods(m.Claim), ""
	for _, pod := range slices.Concat(m.Expected, m.Bound) {
		if !slices.Contains(planned, string(pod.UID)) {
			continue
		}
		name := kube.LastingOwner(pod)
		if !strings.HasPrefix(name, "CronJob ") || owner != "" && name != owner {
			return ""
		}
		owner = name
	}
	if owner == "" {
		return ""
	}
	return m.Pool() + " " + owner
}

// comesAgain returns a reason to keep an empty machine: its owner's pods will soon be created again, and waiting costs less than a new machine. The
// cost of a new machine is its boot or the least time billed, plus the pods' wait at the price of the machine.
func (cs *candidates) comesAgain(m *inventory.Machine) engine.Reason {
	if !kube.HasTaints(v1.CoreTaints(m.Claim.Spec.Taints), m.Taints) { // its owner's pods may not tolerate the taints that its claim lacks
		return engine.Reason{}
	}
	key := cs.ownerOf[string(m.Claim.UID)]
	boot, times := cs.passes.Comings[key].Boot, cs.passes.Comings[key].Times
	if len(times) < 2 {
		return engine.Reason{}
	}
	longest := time.Duration(0)
	for i, t := range times[1:] {
		longest = max(longest, t.Sub(times[i]))
	}
	last := times[len(times)-1]
	next := last.Add(longest)
	again := max(boot, leastBilled-cs.s.Now.Sub(last))
	if !cs.s.Now.Before(next.Add(comesLate)) || next.Sub(cs.s.Now) > again+boot {
		return engine.Reason{}
	}
	_, owner, _ := strings.Cut(key, " ")
	return engine.Reason{Code: engine.PodsExpected, NodePool: m.Pool(), Need: "of " + owner + ", which comes again at about " + engine.ClockText(next) + ","}
}
