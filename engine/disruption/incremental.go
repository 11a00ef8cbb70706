package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

const (
	// lookAgain is how old a look at everything may be that PlanAgain goes on from, unless the cache says. Within it pods grow
	// older, and so cheaper to move, by little.
	lookAgain = time.Minute
	// fewSources is the number of machines up to which everything is looked at unless the cache says how often: that takes no
	// time.
	fewSources = 300
	// mostWasteful is how many machines are looked at beside those that have changed: those that had most to gain.
	mostWasteful = 40
	// behind is for how long machines that could not go make way for others, in a small cluster with more of them than one pass
	// tries.
	behind = 10 * time.Minute
)

// PlanAgain is Plan for a caller that keeps a cache from pass to pass. Once a pass has looked at all machines for what could
// be consolidated, the next ones within a minute (or Cache.LookAgain) look only at those whose pods have changed or that a budget
// put off, and at those that could use the room most; all other methods look at all machines each time. It also moves no pods
// of pools that are unsettled. So it may leave to a later pass what Plan would find now.
func PlanAgain(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *engine.Plan {
	return disrupt(s, opt, cache, true)
}

func lookAgainAfter(m *inventory.Cache) time.Duration {
	if m.LookAgain <= 0 {
		return lookAgain
	}
	return m.LookAgain
}

// lastPasses is what PlanAgain remembers of the passes before.
type lastPasses struct {
	// looked is what they have looked at for nothing; nil before the first.
	looked *lastLook
	// scaledDown is since when pools have been seen to be, by name.
	scaledDown map[string]time.Time
}

// lastLook is what passes have looked at for nothing.
type lastLook struct {
	at       time.Time
	pools    string                        // as textOfPools has them
	classes  []engine.Class                // as they were then
	last     []engine.Class                // as the last pass saw them: they sell no more than then
	since    map[inventory.MachineKey]bool // machines that later passes have looked at
	stamps   map[inventory.MachineKey]podStamp
	why      map[inventory.MachineKey]engine.Reason
	wasteful []inventory.MachineKey
	worth    map[string]float64 // by resource
	// cutShort is true if a small cluster had more machines that could not go than one pass tries.
	cutShort bool
	// failed is when machines that had been found turned out not to be able to go.
	failed map[inventory.MachineKey]time.Time
}

// podStamp tells whether the pods of a machine are the same as before.
type podStamp struct {
	sum   uint64
	count int
}

func stampOf(h *inventory.Machine) podStamp { return podStamp{h.Pods.Sum, h.Pods.Count} }

// changed narrows the sources to those that have to be looked at again, and says of the others what was found before. It
// answers false if all have to be.
func (c *consolidator) changed() bool {
	l := c.last.looked
	if l == nil || c.s.Now.Before(l.at) || l.pools != textOfPools(c.s) || !l.holds(c.s) {
		return false
	}
	if len(c.sources) <= fewSources && c.cache.LookAgain <= 0 {
		if l.cutShort {
			c.passOver(l, behind)
		}
		return false
	}
	if c.s.Now.Sub(l.at) >= lookAgainAfter(c.cache) {
		return false
	}
	look := map[inventory.MachineKey]bool{}
	freed := false
	for _, h := range c.sources {
		before, known := l.stamps[h.Key()]
		switch {
		case !known:
			look[h.Key()] = true
		case before != stampOf(h) && stampOf(h).count <= before.count:
			look[h.Key()], freed = true, true
		} // with more pods than before they are worth more, and have less room for those of others
	}
	if len(look) > mostWasteful && c.cache.LookAgain <= 0 {
		c.passOver(l, lookAgainAfter(c.cache))
		return false
	}
	if freed {
		for _, key := range l.wasteful {
			look[key] = look[key] || l.why[key].Code != engine.WouldStrand
		}
	}
	c.drop(func(h *inventory.Machine) bool {
		if why, known := l.why[h.Key()]; known && !look[h.Key()] {
			c.setReason(h, why)
		}
		return !look[h.Key()]
	})
	return true
}

// passOver leaves out machines that a pass has found for nothing not longer ago than that, and that have not changed since:
// where budgets are small, others would wait for ever behind them.
func (c *consolidator) passOver(l *lastLook, within time.Duration) {
	c.drop(func(h *inventory.Machine) bool {
		at, failed := l.failed[h.Key()]
		if !failed || c.s.Now.Sub(at) >= within || l.stamps[h.Key()] != stampOf(h) {
			return false
		}
		c.setReason(h, l.why[h.Key()])
		c.passed = append(c.passed, h)
		return true
	})
}

// drop takes away sources.
func (c *consolidator) drop(gone func(h *inventory.Machine) bool) {
	c.sources = slices.DeleteFunc(c.sources, gone)
	for i, h := range c.sources {
		c.index[h.Number] = i
	}
}

// noteLook writes down which machines are not worth another look as long as they stay the same: all but those that go, or
// that would go but for a budget.
func (c *consolidator) noteLook() {
	if !c.incremental {
		before := c.last.looked
		c.last.looked = &lastLook{
			at: c.s.Now, pools: textOfPools(c.s), classes: c.s.Classes, last: c.s.Classes, since: map[inventory.MachineKey]bool{},
			stamps: map[inventory.MachineKey]podStamp{}, why: map[inventory.MachineKey]engine.Reason{}, worth: map[string]float64{}, failed: map[inventory.MachineKey]time.Time{},
		}
		for _, h := range c.passed {
			c.last.looked.keep(h, c.why[h], c.s.Now)
			c.last.looked.failed[h.Key()] = before.failed[h.Key()]
		}
		for i, worth := range c.worth {
			c.last.looked.worth[c.problem.Names.Name(i)] = worth
		}
		c.last.looked.wasteful = c.mostWasteful()
	}
	for _, h := range c.sources {
		if l := c.last.looked; c.taken[h] || c.why[h].Code == engine.BudgetExhausted || c.why[h].Code == engine.EvictionBlocked {
			delete(l.stamps, h.Key())
		} else {
			l.keep(h, c.why[h], c.s.Now)
			if c.incremental {
				l.since[h.Key()] = true
			}
		}
	}
}

// keep notes why the machine stays, and since when that is known.
func (l *lastLook) keep(h *inventory.Machine, why engine.Reason, at time.Time) {
	l.stamps[h.Key()], l.why[h.Key()] = stampOf(h), why
	delete(l.failed, h.Key())
	if why.Code == engine.WouldStrand || why.Code == engine.CannotMove {
		l.failed[h.Key()] = at
	}
}

// mostWasteful lists the machines that have most to gain for what moving their pods costs.
func (c *consolidator) mostWasteful() []inventory.MachineKey {
	ranked := slices.Clone(c.sources)
	rate := make(map[*inventory.Machine]float64, len(ranked))
	for j, h := range ranked {
		rate[h] = (c.planner.price(h) - c.value(h)) / (c.cost[j] + 1e-9)
	}
	slices.SortStableFunc(ranked, func(a, b *inventory.Machine) int { return cmp.Compare(rate[b], rate[a]) })
	var out []inventory.MachineKey
	for _, h := range ranked[:min(mostWasteful, len(ranked))] {
		out = append(out, h.Key())
	}
	return out
}

// worthIn is what a unit of each of the resources is worth.
func (l *lastLook) worthIn(names *kube.ResourceNames) []float64 {
	out := make([]float64, names.Len())
	for i := range out {
		out[i] = l.worth[names.Name(i)]
	}
	return out
}

func textOfPools(s *engine.Snapshot) string {
	var b strings.Builder
	for _, p := range kube.ByName(s.NodePools) {
		fmt.Fprintf(&b, "%q %d %q %t\n", p.Name, p.Generation, p.Annotations, p.DeletionTimestamp != nil)
	}
	return b.String()
}

// holds reports whether what the whole look has found still holds, as far as what is sold matters: nothing is to be had that was
// not, or at another price. What is sold out since then makes no machine worth another look. Once some of that is to be had again,
// those machines are looked at again that were looked at meanwhile.
func (l *lastLook) holds(s *engine.Snapshot) bool {
	if slices.EqualFunc(l.last, s.Classes, sameList) {
		return true
	}
	if !slices.EqualFunc(l.classes, s.Classes, offersNoMore) {
		return false
	}
	if !slices.EqualFunc(l.last, s.Classes, offersNoMore) {
		for key := range l.since {
			delete(l.stamps, key)
		}
		clear(l.since)
	}
	l.last = s.Classes
	return true
}

// sameList reports whether the class still has the very catalog that it had.
func sameList(before, after engine.Class) bool {
	return before.Ref == after.Ref && before.Problem == after.Problem && len(before.InstanceTypes) == len(after.InstanceTypes) &&
		(len(after.InstanceTypes) == 0 || &before.InstanceTypes[0] == &after.InstanceTypes[0])
}

// offersNoMore reports whether the class sells what it sold or less, at the same prices.
func offersNoMore(before, after engine.Class) bool {
	return sameList(before, after) || before.Ref == after.Ref && (before.Problem == "" || after.Problem != "") &&
		slices.EqualFunc(before.InstanceTypes, after.InstanceTypes, sellsNoMore)
}

// sellsNoMore reports whether the type is the same as before, but that offerings may be sold out.
func sellsNoMore(before, after engine.InstanceType) bool {
	return before.Name == after.Name && maps.EqualFunc(before.Labels, after.Labels, slices.Equal[[]string]) &&
		sameAmounts(before.Capacity, after.Capacity) && sameAmounts(before.Overhead, after.Overhead) && maps.Equal(before.AttachLimits, after.AttachLimits) && maps.Equal(before.AttachShared, after.AttachShared) &&
		slices.EqualFunc(before.Offerings, after.Offerings, func(a, b engine.Offering) bool {
			return a.Zone == b.Zone && a.CapacityType == b.CapacityType && a.Price == b.Price && (b.SoldOut || !a.SoldOut) &&
				a.Reservation == b.Reservation && a.Slots >= b.Slots && maps.Equal(a.Labels, b.Labels)
		})
}

func sameAmounts(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
