package disruption

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

const (
	// lookAgain is the greatest age of a look at all machines that a later pass may build on, unless the options set one. Within that time the cost
	// of moving a pod, which falls with its age, changes little.
	lookAgain = time.Minute
	// fewSources is the number of machines up to which a pass looks at all of them, because that takes almost no time, unless the options set
	// lookAgain.
	fewSources = 300
	// mostWasteful bounds the unchanged machines that a pass looks at. It looks at the machines that had most to gain.
	mostWasteful = 40
	// behind is the time for which, in a small cluster, machines that could not be removed come after others, if one pass cannot try all of them.
	behind = 10 * time.Minute
)

func (c *consolidator) lookAgainAfter() time.Duration {
	if c.opt.LookAgain > 0 {
		return c.opt.LookAgain
	}
	return lookAgain
}

// passesOf returns the data that this pass leaves for the next one. At first it is a copy of the data of earlier passes.
func passesOf(s *engine.Snapshot) *engine.EarlierPasses {
	out := &engine.EarlierPasses{ScaledDown: map[string]time.Time{}}
	if before := s.EarlierPasses; before != nil {
		maps.Copy(out.ScaledDown, before.ScaledDown)
		if before.Look != nil {
			out.Look = new(*before.Look)
			out.Look.Machines = make(map[string]engine.LookedMachine, len(before.Look.Machines))
			maps.Copy(out.Look.Machines, before.Look.Machines)
		}
	}
	return out
}

// podsOf returns a hash of the machine's pods, and their number. Both stay the same while the pods do.
func podsOf(m *inventory.Machine) (hash uint64, count int) { return m.Pods.Hash, m.Pods.Count }

// changed reduces the sources to the machines that need another look, and sets the earlier reasons of the others. It returns false if all
// machines need another look.
func (c *consolidator) changed() bool {
	l := c.passes.Look
	if l == nil || c.s.Now.Before(l.At) || l.Pools != hashOfPools(c.s) || !c.offersHold(l) {
		return false
	}
	if len(c.sources) <= fewSources && c.opt.LookAgain <= 0 {
		if l.CutShort {
			c.passOver(l, behind)
		}
		return false
	}
	if c.s.Now.Sub(l.At) >= c.lookAgainAfter() {
		return false
	}
	look := map[string]bool{}
	freed := false
	for _, machine := range c.sources {
		before, known := l.Machines[machine.Key()]
		pods, count := podsOf(machine)
		switch {
		case !known:
			look[machine.Key()] = true
		case before.Pods != pods && count <= before.Count:
			look[machine.Key()], freed = true, true
		} // a machine with more pods is worth more, and has less room for others
	}
	if len(look) > mostWasteful && c.opt.LookAgain <= 0 {
		c.passOver(l, c.lookAgainAfter())
		return false
	}
	if freed {
		for _, key := range l.Wasteful {
			look[key] = look[key] || !hasNoPlace(l.Machines[key].Why.Code)
		}
	}
	c.drop(func(machine *inventory.Machine) bool {
		if m, known := l.Machines[machine.Key()]; known && !look[machine.Key()] {
			c.setReason(machine, m.Why)
		}
		return !look[machine.Key()]
	})
	return true
}

// passOver leaves out machines that an earlier pass could not remove, if that pass was at most `within` ago and the machines have not changed since.
// If a budget allows few machines, this gives other machines a turn.
func (c *consolidator) passOver(l *engine.ConsolidationLook, within time.Duration) {
	c.drop(func(machine *inventory.Machine) bool {
		m := l.Machines[machine.Key()]
		if pods, count := podsOf(machine); m.Failed.IsZero() || c.s.Now.Sub(m.Failed) >= within || m.Pods != pods || m.Count != count {
			return false
		}
		c.setReason(machine, m.Why)
		c.passed = append(c.passed, machine)
		return true
	})
}

// drop removes sources.
func (c *consolidator) drop(gone func(m *inventory.Machine) bool) {
	c.sources = slices.DeleteFunc(c.sources, gone)
	for i, m := range c.sources {
		c.index[m.Number] = i
	}
}

// noteLook records the machines that need no other look as long as they do not change: all except those chosen for removal or kept only by a budget.
func (c *consolidator) noteLook() {
	if !c.incremental {
		before, offers := c.passes.Look, c.offers()
		now := &engine.ConsolidationLook{
			At: c.s.Now.Round(0), Pools: hashOfPools(c.s), Offers: offers, LastOffers: offers, Machines: map[string]engine.LookedMachine{},
			Wasteful: c.mostWasteful(), Worth: map[string]float64{}, Market: map[string]float64{},
		}
		for _, machine := range c.passed {
			m := c.looked(machine)
			m.Failed = before.Machines[machine.Key()].Failed
			now.Machines[machine.Key()] = m
		}
		for i, worth := range c.worth {
			now.Worth[c.problem.Names.Name(i)], now.Market[c.problem.Names.Name(i)] = worth, c.market[i]
		}
		c.passes.Look = now
	}
	l := c.passes.Look
	for _, machine := range c.sources {
		if c.taken[machine] || c.why[machine].Code == engine.BudgetExhausted || c.why[machine].Code == engine.EvictionBlocked {
			delete(l.Machines, machine.Key())
			continue
		}
		m := c.looked(machine)
		m.Later = c.incremental
		l.Machines[machine.Key()] = m
	}
}

// looked returns the result of this pass for the machine.
func (c *consolidator) looked(machine *inventory.Machine) engine.LookedMachine {
	m := engine.LookedMachine{Why: c.why[machine]}
	m.Pods, m.Count = podsOf(machine)
	if hasNoPlace(m.Why.Code) || m.Why.Code == engine.CannotMove {
		m.Failed = c.s.Now.Round(0)
	}
	return m
}

// hasNoPlace reports whether the code says that a machine is kept because of where kube-scheduler would put its pods.
func hasNoPlace(code engine.Code) bool {
	return code == engine.WouldStrand || code == engine.OnDemandShareLost
}

// mostWasteful returns the keys of the machines that have most to gain, relative to the cost of moving their pods.
func (c *consolidator) mostWasteful() []string {
	ranked := slices.Clone(c.sources)
	rate := make(map[*inventory.Machine]float64, len(ranked))
	for j, m := range ranked {
		rate[m] = (c.planner.price(m) - c.value(m)) / (c.cost[j] + 1e-9)
	}
	slices.SortStableFunc(ranked, func(a, b *inventory.Machine) int { return cmp.Compare(rate[b], rate[a]) })
	var out []string
	for _, m := range ranked[:min(mostWasteful, len(ranked))] {
		out = append(out, m.Key())
	}
	return out
}

// worthIn returns the worth of a unit of each resource, in the order of the names.
func worthIn(worth map[string]float64, names *kube.ResourceNames) []float64 {
	out := make([]float64, names.Len())
	for i := range out {
		out[i] = worth[names.Name(i)]
	}
	return out
}

func hashOfPools(s *engine.Snapshot) string {
	d := kube.NewDigest()
	for _, p := range kube.ByName(s.NodePools) {
		annotations := maps.Clone(p.Annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation) // a cluster that was read from a file does not have it
		d = kube.DigestMap(d.Text(p.Name).Number(int(p.Generation)), annotations, kube.Digest.Text)
		if p.DeletionTimestamp != nil {
			d = d.Text("deleting")
		}
	}
	return d.String()
}

// offers returns the offerings that are sold now, for a later pass. It returns nil if there is none.
func (c *consolidator) offers() []engine.ClassOffers {
	if c.s.EarlierPasses == nil {
		return nil
	}
	offers := inventory.OffersOf(c.s.Classes, c.cache)
	if len(c.s.Commitments) > 0 {
		offers = append(slices.Clip(offers), inventory.OffersOfCommitments(inventory.BillOf(c.s, c.cache, c.p.Machines)))
	}
	return offers
}

// offersHold reports whether the last look at all machines is still right about the offerings: all that are available were available then, at the
// same price. An offering that has sold out since is no reason to look at a machine again. Once it is back, the machines that were looked at in the
// meantime are looked at again.
func (c *consolidator) offersHold(l *engine.ConsolidationLook) bool {
	now := c.offers()
	if !inventory.SellNoMore(l.Offers, now) {
		return false
	}
	if !inventory.SellNoMore(l.LastOffers, now) {
		maps.DeleteFunc(l.Machines, func(_ string, m engine.LookedMachine) bool { return m.Later })
	}
	l.LastOffers = now
	return true
}
