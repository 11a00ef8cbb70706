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
	// lookAgain is how old a look at everything may be that a pass goes on from, unless the options say. Within it pods grow
	// older, and so cheaper to move, by little.
	lookAgain = time.Minute
	// fewSources is the number of machines up to which everything is looked at unless the options say how often: that takes no
	// time.
	fewSources = 300
	// mostWasteful is how many machines are looked at beside those that have changed: those that had most to gain.
	mostWasteful = 40
	// behind is for how long machines that could not go make way for others, in a small cluster with more of them than one pass
	// tries.
	behind = 10 * time.Minute
)

func (c *consolidator) lookAgainAfter() time.Duration {
	if c.opt.LookAgain > 0 {
		return c.opt.LookAgain
	}
	return lookAgain
}

// passesOf is what this pass leaves for the next one: to begin with, what the passes before have left, in maps of its own.
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

// podsOf tells whether the pods of a machine are the same as before: a hash of them, and how many they are.
func podsOf(m *inventory.Machine) (hash uint64, count int) { return m.Pods.Hash, m.Pods.Count }

// changed narrows the sources to those that have to be looked at again, and says of the others what was found before. It
// answers false if all have to be.
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
		} // with more pods than before they are worth more, and have less room for those of others
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

// passOver leaves out machines that a pass has found for nothing not longer ago than that, and that have not changed since:
// where budgets are small, others would wait for ever behind them.
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

// drop takes away sources.
func (c *consolidator) drop(gone func(m *inventory.Machine) bool) {
	c.sources = slices.DeleteFunc(c.sources, gone)
	for i, m := range c.sources {
		c.index[m.Number] = i
	}
}

// noteLook writes down which machines are not worth another look as long as they stay the same: all but those that go, or
// that would go but for a budget.
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

// looked is what this pass has found of the machine.
func (c *consolidator) looked(machine *inventory.Machine) engine.LookedMachine {
	m := engine.LookedMachine{Why: c.why[machine]}
	m.Pods, m.Count = podsOf(machine)
	if hasNoPlace(m.Why.Code) || m.Why.Code == engine.CannotMove {
		m.Failed = c.s.Now.Round(0)
	}
	return m
}

// hasNoPlace reports whether a machine stays because of where kube-scheduler would put its pods.
func hasNoPlace(code engine.Code) bool {
	return code == engine.WouldStrand || code == engine.OnDemandShareLost
}

// mostWasteful names the machines that have most to gain for what moving their pods costs.
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

// worthIn is what a unit of each of the resources is worth.
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
		delete(annotations, corev1.LastAppliedConfigAnnotation) // what a file of the cluster does not have
		d = kube.DigestMap(d.Text(p.Name).Number(int(p.Generation)), annotations, kube.Digest.Text)
		if p.DeletionTimestamp != nil {
			d = d.Text("deleting")
		}
	}
	return d.String()
}

// offers is what is sold now, as far as a later pass may ask.
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

// offersHold reports whether what the whole look has found still holds, as far as what is sold matters: nothing is to be had that
// was not, or at another price. What is sold out since then makes no machine worth another look. Once some of that is to be had
// again, those machines are looked at again that were looked at meanwhile.
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
