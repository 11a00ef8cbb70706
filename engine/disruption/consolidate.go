package disruption

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/consolidation"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/replacement"
	"tenon.sh/engine/scheduler"
)

// consolidate removes and replaces machines whose pods can run for less. First it searches with numbers only (package consolidation). Then it plans
// the result with all rules, and leaves out moves that break a rule or save too little. It begins as many of the other moves as budgets allow. After
// an earlier pass it may skip machines that this earlier pass has looked at.
func (d *planner) consolidate() {
	c := d.newConsolidation()
	c.incremental = d.s.EarlierPasses != nil && c.changed()
	gaveUp := map[string]bool{} // pools
	for round := 1; len(c.sources) > 0 && !c.opt.Stopped(); round++ {
		begun := len(d.plan.Disruptions)
		c.search(true)
		aims := mostAims
		if c.incremental {
			aims = fewAims
		}
		found := c.aim(c.found, aims)
		if len(found) == 0 && c.problem.Packing.Relief > 0 { // too little of commitments was left for the moves that seemed cheap because of them
			c.startAnew()
			c.search(false)
			found = c.aim(c.found, aims)
		}
		if len(found) == 0 && c.arePriced() {
			c.startAnew()
			c.yielding = true
			c.search(false)
			found = c.aim(c.found, aims)
		}
		c.explain(found)
		if wave := c.batchNow(found); len(wave) > 0 {
			c.beginWave(wave)
		}
		c.noteLook()
		inVain := len(c.found) > 0 && len(d.plan.Disruptions) == begun
		if c.incremental || len(c.sources) > fewSources {
			return
		}
		c.passes.Look.CutShort = round > mostRetries || round == mostRetries && inVain
		if !inVain {
			return
		}
		for _, m := range c.found {
			gaveUp[m.Pool()] = true
			c.giveUp(m)
		}
		if round == 2*mostRetries {
			return
		}
		c.leaveOut(func(m *inventory.Machine) bool {
			return slices.Contains(c.found, m) || round >= mostRetries && gaveUp[m.Pool()]
		})
	}
}

// setReason sets why the machine is kept. A drifted machine keeps its earlier reason, which says why it cannot be replaced because of its drift.
func (c *consolidator) setReason(m *inventory.Machine, r engine.Reason) {
	if _, known := c.why[m]; !known || !isDrifted(m) {
		c.planner.setReason(m, r)
	}
}

// giveUp records that a machine which the search found cannot be removed, unless time alone may change that, or Options.LookAgain is set.
func (c *consolidator) giveUp(machine *inventory.Machine) {
	switch code := c.why[machine].Code; {
	case c.opt.LookAgain > 0, code == engine.BudgetExhausted, code == engine.EvictionBlocked, code == engine.OwnerMoved:
	default:
		if m, known := c.passes.Look.Machines[machine.Key()]; known {
			m.Failed = c.s.Now.Round(0)
			c.passes.Look.Machines[machine.Key()] = m
		}
		c.passed = append(c.passed, machine)
	}
}

// leaveOut starts again without the machines for which out is true: others must not wait for ever behind machines that cannot be removed.
func (c *consolidator) leaveOut(out func(m *inventory.Machine) bool) {
	c.drop(out)
	*c = consolidator{planner: c.planner, sources: c.sources, index: c.index, nominations: map[*corev1.Pod]int{}, passed: c.passed}
}

// startAnew forgets the results of the last search.
func (c *consolidator) startAnew() {
	c.found, c.classes, c.nominations, c.tried = nil, nil, map[*corev1.Pod]int{}, attempted{}
}

func (d *planner) newConsolidation() *consolidator {
	var unsettled map[string]engine.Reason
	if d.s.EarlierPasses != nil {
		unsettled = d.scaledDownLately()
	}
	c := &consolidator{planner: d, index: make([]int, len(d.p.Machines)), nominations: map[*corev1.Pod]int{}}
	for _, m := range d.free() {
		if r := cmp.Or(d.consolidationRefusal(m), unsettled[m.Pool()]); !r.OK() {
			d.refuse(m, r)
			continue
		}
		c.index[m.Number] = len(c.sources)
		c.sources = append(c.sources, m)
	}
	return c
}

// consolidationRefusal returns why consolidation does not look at the machine.
func (d *planner) consolidationRefusal(m *inventory.Machine) engine.Reason {
	if len(d.moving(m)) == 0 {
		return engine.Reason{Code: engine.NotEmpty, NodePool: m.Pool(), Have: "0 pods"} // removeEmpty has recorded its reason
	}
	if r := d.consolidatable(m, false); !r.OK() {
		return r
	}
	if r := replacement.TakenBack(m, d.s.Now); !r.OK() {
		return r
	}
	if pod := d.moved[m]; pod != nil { // this pass moves the pod here, but a replacement has no room for it
		return engine.Reason{Code: engine.PodsExpected, NodePool: m.Pool(), Need: kube.PodID(pod).String()}
	}
	if r := d.held(m); !r.OK() {
		return r
	}
	return d.blocked(m)
}

// horizon returns the hours within which a move of the machine's pods must pay for itself.
func (c *consolidator) horizon(m *inventory.Machine) float64 {
	if b := c.budgets[m.Pool()]; b != nil && b.Rules.Payback > 0 {
		return b.Rules.Payback.Hours()
	}
	return usualPayback.Hours()
}

// moveCosts returns the cost of moving a machine's pods in USD, scaled to the usual payback, and this cost once no pod is young.
func (c *consolidator) moveCosts(m *inventory.Machine) (cost, settled float64) {
	for _, info := range c.movers(m) {
		once := info.SettledCost(c.podValue(info), info.OwnersStart())
		cost += once * info.Young(c.s.Now)
		settled += once
	}
	scale := usualPayback.Hours() / c.horizon(m)
	return cost * scale, settled * scale
}

// podValue returns the worth of a pod at the market's prices, in USD per hour.
func (c *consolidator) podValue(info *inventory.PodInfo) float64 {
	need := c.cache.RequestsFor(info)
	value, known := c.values[need]
	if !known {
		value = c.worthOf(need, c.market)
		c.values[need] = value
	}
	return value
}

// worthOf returns the worth of one pod with these requests, in USD per hour.
func (c *consolidator) worthOf(need *inventory.RequestClass, worth []float64) (sum float64) {
	for i, n := range c.problem.RequestFor(need) {
		if n > 0 && n < capacity.Most {
			sum += float64(float64(n) * worth[i])
		}
	}
	return sum
}

// search looks for machines whose pods can run for less. If covered is true, it treats the rest of commitments as unlimited.
func (c *consolidator) search(covered bool) {
	t := c.newTrial(nil, trialOptions{closed: c.goesSoon})
	t.Also = inventory.MachineSetOf(len(c.p.Machines), c.sources)
	c.problem = provisioning.CompileTrial(c.s, c.opt, c.p.Pods, t)
	p, machineOf, listed := c.numbers(covered)
	var caps []func(m *inventory.Machine) engine.Reason
	c.opt.Parallel(
		func() { c.readClasses(p, machineOf, listed) },
		func() { caps = c.caps(p, machineOf) },
	)
	var result *consolidation.Result
	c.opt.Parallel(
		func() { result = consolidation.Search(p) },
		c.foreseeReplay,
	)
	at := make([]*inventory.Machine, len(p.Machines))
	for _, m := range c.sources {
		at[machineOf[m.Number]] = m
	}
	for _, i := range result.Gone {
		c.found = append(c.found, at[i])
	}
	for _, x := range result.PutOff {
		c.setReason(at[x.Of], caps[x.N](at[x.Of]))
	}
	c.later = map[*inventory.Machine]engine.Reason{}
	for _, x := range result.Later {
		c.later[at[x.Of]] = caps[x.N](at[x.Of])
	}
	c.hint(result, machineOf)
	c.batch()
}

// numbers returns the search's problem without pods and caps, the index of each machine in the problem, and the packing option behind each
// of its options.
func (c *consolidator) numbers(covered bool) (p *consolidation.Problem, machineOf []int, listed []listedOption) {
	options, listed := optionsOf(c.problem, false)
	if c.incremental {
		c.worth, c.market = worthIn(c.passes.Look.Worth, c.problem.Names), worthIn(c.passes.Look.Market, c.problem.Names)
	} else {
		c.worth, c.market = c.price(options)
	}
	worth := c.worth
	if covered && c.problem.Packing.Relief > 0 {
		options, listed = optionsOf(c.problem, true)
		worth, _ = c.price(options) // at most the prices of these options; the cost of moves does not change
	}
	c.values = map[*inventory.RequestClass]float64{}
	c.core = 1000 * c.market[c.problem.Names.Find(string(corev1.ResourceCPU))]
	p = &consolidation.Problem{
		Options: options, Worth: worth, Horizon: usualPayback.Hours(), Floor: leastCore * c.core, Share: leastShare,
		Strict: strictness, Effort: c.opt.EffectiveEffort(), Threads: c.opt.Threads,
	}
	machineOf = c.machines(p)
	c.expectElsewhere(p, machineOf)
	return p, machineOf, listed
}

// foreseeReplay reads the pods' data for the replay of a result early, while the search does not use the cache. With one goroutine this saves no
// time, so foreseeReplay does nothing, and the replay itself reads the data.
func (c *consolidator) foreseeReplay() {
	if c.opt.Threads <= 1 {
		return
	}
	for _, m := range c.problem.Machines {
		scheduler.NodePodsOf(c.cache, m.Pods)
	}
}

// batch divides the found machines into batches. Groups stay small, because the launches of one batch do not depend on another.
func (c *consolidator) batch() {
	c.batches = map[string]int{}
	for i, m := range c.found {
		c.batches[m.Name()] = 1 + i/batchSize
	}
}

// machines adds to the problem the machines that take pods or whose pods are to move. It returns the index of each in the problem's list, by
// Machine.Number; -1 for machines that are not in the list.
func (c *consolidator) machines(p *consolidation.Problem) []int {
	machineOf := slices.Repeat([]int{-1}, len(c.problem.Machines))
	for i, machine := range c.problem.Targets {
		machineOf[machine.Number] = i
		p.Machines = append(p.Machines, consolidation.Machine{Free: c.problem.Packing.Nodes[i].Free, Takes: true})
	}
	c.cost, c.settled = make([]float64, len(c.sources)), make([]float64, len(c.sources))
	for j, machine := range c.sources {
		c.cost[j], c.settled[j] = c.moveCosts(machine)
		i := machineOf[machine.Number]
		if i < 0 { // it takes no pods
			i = len(p.Machines)
			machineOf[machine.Number] = i
			p.Machines = append(p.Machines, consolidation.Machine{Free: make(capacity.Vector, c.problem.Names.Len())})
		}
		m := &p.Machines[i]
		m.Goes, m.Price, m.Cost = true, c.planner.price(machine), c.cost[j]
	}
	return machineOf
}

// expectElsewhere subtracts the requests of pods that need a place anyway from the room of the machines that will run them.
func (c *consolidator) expectElsewhere(p *consolidation.Problem, machineOf []int) {
	for pod, number := range c.assigned {
		if i := machineOf[number]; i >= 0 {
			p.Machines[i].Free = p.Machines[i].Free.Clone()
			p.Machines[i].Free.Add(c.problem.Names.Vector(kube.PodRequests(pod)), -1)
		}
	}
}

// price returns the worth of resources for the pods of the problem (bound.DualPrices), and at the market's prices (bound.MarketPrices).
func (c *consolidator) price(options []consolidation.Option) (worth, market []float64) {
	total := make(capacity.Vector, c.problem.Names.Len())
	for _, class := range c.problem.Classes {
		total.Add(class.Request, int64(len(class.Pods)))
	}
	prices, sizes := make([]float64, len(options)), make([]capacity.Vector, len(options))
	for i := range options {
		prices[i], sizes[i] = options[i].Price, options[i].Allocatable
	}
	return bound.DualPrices(total, sizes, prices), bound.MarketPrices(total, sizes, prices)
}

// aim plans the cluster without the machines, with all rules, and leaves out machines that do not pay. It returns the groups of a plan in which every
// group can be removed and saves more than it costs.
func (c *consolidator) aim(gone []*inventory.Machine, aims int) []provisioning.Group {
	for left := aims - 1; left >= 0 && !c.opt.Stopped(); left-- {
		if len(gone) == 0 {
			return nil
		}
		t := c.attempt(gone)
		parts := t.groups(gone)
		stranded := t.stranded()
		var keep []*inventory.Machine
		complete := true
		var good []provisioning.Group
		for _, part := range parts {
			r := c.judgePart(part, stranded)
			if r.OK() {
				good = append(good, part)
				keep = append(keep, part.Machines...)
				continue
			}
			complete = false
			c.note(part, r)
			for _, m := range part.Machines {
				c.setReason(m, r)
			}
			if len(part.Machines) > 1 { // without the machines that gain least, the others may pay
				keep = append(keep, c.better(part, stranded)...)
			}
		}
		if complete {
			return good
		}
		if left == 1 || len(c.sources) > manySources { // a later pass looks at the others again
			keep = provisioning.MachinesOf(good)
		}
		gone = keep
	}
	return nil
}

// attempt makes a trial with the hints of the search, unless the last trial already covers the machines.
func (c *consolidator) attempt(gone []*inventory.Machine) tried {
	if c.tried.covers(gone, len(c.sources) > manySources) {
		return c.tried.part(gone)
	}
	opt := c.opt
	opt.PriceBand = min(opt.EffectivePriceBand(), narrowBand)
	opt.Effort = max(1, opt.EffectiveEffort()/8)
	if c.incremental || len(c.sources) > manySources {
		opt.Effort = -1
	}
	c.tried.gone, c.tried.onto = slices.Clone(gone), nil
	c.tried.tried = c.try(gone, trialOptions{closed: c.goesSoon, nominations: c.nominations, options: &opt, batches: c.batches})
	return c.tried.tried
}

// covers reports whether the last trial answers how to remove the machines. It does if it had exactly these machines or, if parts is true, also other
// machines that do not affect their result.
func (a *attempted) covers(gone []*inventory.Machine, parts bool) bool {
	if len(gone) > len(a.gone) || len(gone) < len(a.gone) && !(parts && a.apart) {
		return false
	}
	in := make(map[*inventory.Machine]bool, len(a.gone))
	for _, m := range a.gone {
		in[m] = true
	}
	return !slices.ContainsFunc(gone, func(m *inventory.Machine) bool { return !in[m] })
}

// part returns the outcome of the last trial for some of its machines.
func (a *attempted) part(gone []*inventory.Machine) tried {
	if len(gone) == len(a.gone) {
		return a.tried
	}
	return a.only(gone)
}

// explain adds, to the reasons of the machines that are kept, the most that a move of their pods could save.
func (c *consolidator) explain(found []provisioning.Group) {
	going := map[*inventory.Machine]bool{}
	for _, p := range found {
		for _, m := range p.Machines {
			going[m] = true
		}
	}
	held := c.heldByPreferences()
	for j, m := range c.sources {
		if going[m] {
			continue
		}
		if old, known := c.why[m]; known && (old.Code != engine.NotEmpty || old.Need != "") {
			continue
		}
		if r := c.roomOnly(m); !r.OK() {
			c.setReason(m, r)
			continue
		}
		waste := max(0, c.planner.price(m)-c.value(m))
		need := c.settled[j]/usualPayback.Hours() + c.least(c.planner.price(m))
		r := engine.Reason{Code: engine.NoCheaperPlace, NodePool: m.Pool(), Have: dollars(waste), Key: c.besideRoom(m)}
		if held[m] {
			r.Key += c.preferencesOf(m)
		}
		if waste <= need {
			r.Code, r.Have, r.Need, r.Key = engine.SavesTooLittle, dollars(waste)+" at most", dollars(need), ""
		}
		c.setReason(m, r)
	}
}
