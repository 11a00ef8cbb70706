package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/packing"
)

const (
	// usualPayback is how soon a move must have paid for itself where the pool does not say.
	usualPayback = 4 * time.Hour
	// leastShare and leastCore are what a move has to save at least: a share of the price that goes, and a share of the price
	// of a core.
	leastShare = 0.01
	leastCore  = 0.03
	// strictness is how much dearer moving counts where something is bought instead.
	strictness = 7
	// mostAims bounds how often what was found is looked at anew because some of it did not hold.
	mostAims = 6
	// fewAims is the same for a pass that looks at a few machines only.
	fewAims = 2
	// mostRetries is how often a small cluster is searched, each time without what was found before and could not go. After that
	// pools of which something was found make way for the others, as often again; then the next pass goes on.
	mostRetries = 4
	// manySources is the number of machines above which no effort goes into what is bought for one pass: the next one looks at
	// it again.
	manySources = 1000
	// batchSize is how many machines are replaced together at most.
	batchSize = 64
	// narrowBand is the price band of replacements: what they may turn out to cost eats up what they save.
	narrowBand = 1.05
)

// consolidate removes and replaces machines whose pods can be had for less. Numbers are searched first (package disruption);
// what is found there is planned with all rules, and what does not hold, or does not pay, is left out. Of the rest goes now
// what budgets allow. With again, what the last pass has looked at is not looked at again.
func (d *disruptor) consolidate(again bool) {
	c := d.newConsolidation(again)
	c.again = again && c.changed()
	gaveUp := map[string]bool{} // pools
	for round := 1; len(c.sources) > 0; round++ {
		begun := len(d.plan.Disruptions)
		c.search()
		aims := mostAims
		if c.again {
			aims = fewAims
		}
		found := c.aim(c.found, aims)
		c.explain(found)
		if wave := c.wave(found); len(wave) > 0 {
			c.carry(wave)
		}
		c.noteLook()
		inVain := len(c.found) > 0 && len(d.plan.Disruptions) == begun
		if c.again || len(c.sources) > fewSources {
			return
		}
		c.last.looked.cutShort = round > mostRetries || round == mostRetries && inVain
		if !inVain {
			return
		}
		for _, h := range c.found {
			gaveUp[h.pool()] = true
			c.giveUp(h)
		}
		if round == 2*mostRetries {
			return
		}
		c.leaveOut(func(h *host) bool { return slices.Contains(c.found, h) || round >= mostRetries && gaveUp[h.pool()] })
	}
}

// giveUp notes that the machine was found in vain, unless time alone changes that, or the memo says how often all are looked at.
func (c *consolidation) giveUp(h *host) {
	switch code := c.why[h].Code; {
	case c.memo.LookAgain > 0, code == BudgetExhausted, code == EvictionBlocked, code == OwnerMoved:
	default:
		c.last.looked.failed[h.key()] = c.s.Now
		c.passed = append(c.passed, h)
	}
}

// leaveOut begins anew without machines that cannot go after all: others must not wait for ever behind those that look best.
func (c *consolidation) leaveOut(out func(h *host) bool) {
	c.drop(out)
	*c = consolidation{disruptor: c.disruptor, sources: c.sources, index: c.index, hints: map[*corev1.Pod]int{}, passed: c.passed}
}

// consolidation is the state of one consolidate.
type consolidation struct {
	*disruptor
	sources []*host
	index   []int                // of each source, by its number
	cost    []float64            // of moving the pods of each source, in USD
	settled []float64            // the same once none of them is young
	worth   []float64            // of a unit of each resource, in USD per hour
	values  map[*podNeed]float64 // of pods, by what they request, in USD per hour
	core    float64              // what a core is worth
	problem *problem             // in which the pods of the sources are to be planned
	classes []searchClass
	domains map[ruledPlace]string // of the places of the problem
	found   []*host
	hints   map[*corev1.Pod]int // the numbers of the machines where the search puts pods
	batches map[string]int      // of the nodes that are replaced
	tried   attempted
	passed  []*host // left out because another pass has tried them just now
	again   bool    // only what has changed since the last look is looked at
}

// attempted is the last trial: a wave is often all that was found.
type attempted struct {
	tried
	gone []*host
}

func (d *disruptor) newConsolidation(again bool) *consolidation {
	var unsettled map[string]Reason
	if again {
		unsettled = d.unsettled()
	}
	c := &consolidation{disruptor: d, index: make([]int, len(d.p.hosts)), hints: map[*corev1.Pod]int{}}
	for _, h := range d.free() {
		if r := cmp.Or(d.consolidationRefusal(h), unsettled[h.pool()]); !r.OK() {
			d.keep(h, r)
			continue
		}
		c.index[h.number] = len(c.sources)
		c.sources = append(c.sources, h)
	}
	return c
}

// consolidationRefusal says why a machine is not looked at.
func (d *disruptor) consolidationRefusal(h *host) Reason {
	if len(d.moving(h)) == 0 {
		return Reason{Code: NotEmpty, NodePool: h.pool(), Have: "0 pods"} // what keeps it is known already
	}
	if r := d.consolidatable(h, false); !r.OK() {
		return r
	}
	if r := d.takenBack(h); !r.OK() {
		return r
	}
	if r := d.held(h); !r.OK() {
		return r
	}
	return d.blocked(h)
}

// horizon is how soon a move of the machine's pods must have paid for itself, in hours.
func (c *consolidation) horizon(h *host) float64 {
	if b := c.budgets[h.pool()]; b != nil && b.rules.payback > 0 {
		return b.rules.payback.Hours()
	}
	return usualPayback.Hours()
}

// moveCosts is what moving the pods of a machine costs, in USD, as if all had the usual payback. Settled is what it costs once
// none of them is young any more.
func (c *consolidation) moveCosts(h *host) (cost, settled float64) {
	for _, f := range c.movers(h) {
		once := f.settledCost(c.podValue(f), f.ownersStart())
		cost += once * f.young(c.s.Now)
		settled += once
	}
	scale := usualPayback.Hours() / c.horizon(h)
	return cost * scale, settled * scale
}

// podValue is what a pod is worth, in USD per hour.
func (c *consolidation) podValue(f *podFacts) float64 {
	need := c.memo.needFor(f)
	value, known := c.values[need]
	if known {
		return value
	}
	for i, n := range c.problem.requestFor(need) {
		if n > 0 && n < capacity.Most {
			value += float64(float64(n) * c.worth[i])
		}
	}
	c.values[need] = value
	return value
}

// search looks for machines whose pods can be had for less.
func (c *consolidation) search() {
	t := c.newTrial(nil, trialOptions{closed: c.goesSoon})
	t.also = hostsIn(len(c.p.hosts), c.sources)
	opt := c.opt
	c.problem = compileTrial(c.s, opt, c.p.census, t)
	options, listed := c.options()
	if c.again {
		c.worth = c.last.looked.worthIn(c.problem.names)
	} else {
		c.worth = c.price(options)
	}
	c.values = map[*podNeed]float64{}
	c.core = 1000 * c.worth[c.problem.names.Find(string(corev1.ResourceCPU))]
	p := &disruption.Problem{
		Options: options, Worth: c.worth, Horizon: usualPayback.Hours(), Floor: leastCore * c.core, Share: leastShare,
		Strict: strictness, Effort: c.opt.effort(), Threads: c.opt.Threads,
	}
	machineOf := c.machines(p)
	c.expectElsewhere(p, machineOf)
	var caps []func(h *host) Reason
	c.opt.parallel(
		func() { c.readClasses(p, machineOf, listed) },
		func() { caps = c.caps(p, machineOf) },
	)
	var result *disruption.Result
	c.opt.parallel(
		func() { result = disruption.Search(p) },
		c.foreseeReplay,
	)
	at := make([]*host, len(p.Machines))
	for _, h := range c.sources {
		at[machineOf[h.number]] = h
	}
	for _, i := range result.Gone {
		c.found = append(c.found, at[i])
	}
	for _, x := range result.PutOff {
		c.insist(at[x.Of], caps[x.N](at[x.Of]))
	}
	c.hint(result, machineOf)
	c.batch()
}

// foreseeReplay reads what pods mean to a replay, which comes next if anything is found, while the search leaves the memo alone.
// Where there is one goroutine only, the replay reads what it needs.
func (c *consolidation) foreseeReplay() {
	if c.opt.Threads <= 1 {
		return
	}
	for _, h := range c.problem.hosts {
		landingOf(c.memo, h.roll)
	}
}

// batch keeps parts small where many machines are replaced: those of one batch do not depend on others.
func (c *consolidation) batch() {
	replaced := 0
	c.batches = map[string]int{}
	for _, h := range c.found {
		if !slices.ContainsFunc(c.moving(h), func(pod *corev1.Pod) bool { _, hinted := c.hints[pod]; return !hinted }) {
			continue
		}
		c.batches[h.name()] = 1 + replaced/batchSize
		replaced++
	}
}

// machines lists the machines that take pods, or whose pods are to move; it returns the place of each in the list, by the host's
// number, -1 for the others.
func (c *consolidation) machines(p *disruption.Problem) []int {
	machineOf := slices.Repeat([]int{-1}, len(c.problem.hosts))
	for i, h := range c.problem.targets {
		machineOf[h.number] = i
		p.Machines = append(p.Machines, disruption.Machine{Free: c.problem.packing.Nodes[i].Free, Takes: true})
	}
	c.cost, c.settled = make([]float64, len(c.sources)), make([]float64, len(c.sources))
	for j, h := range c.sources {
		c.cost[j], c.settled[j] = c.moveCosts(h)
		i := machineOf[h.number]
		if i < 0 { // it takes no pods
			i = len(p.Machines)
			machineOf[h.number] = i
			p.Machines = append(p.Machines, disruption.Machine{Free: make(capacity.Vector, c.problem.names.Len())})
		}
		m := &p.Machines[i]
		m.Goes, m.Price, m.Cost = true, c.disruptor.price(h), c.cost[j]
	}
	return machineOf
}

// expectElsewhere takes off the room of pods that need a place anyway.
func (c *consolidation) expectElsewhere(p *disruption.Problem, machineOf []int) {
	for pod, number := range c.homes {
		if i := machineOf[number]; i >= 0 {
			p.Machines[i].Free = p.Machines[i].Free.Clone()
			p.Machines[i].Free.Add(c.problem.names.vector(PodRequests(pod)), -1)
		}
	}
}

// price works out what resources are worth: at what prices all that is asked for is worth most, while nothing that can be
// bought costs less than what it has.
func (c *consolidation) price(options []disruption.Option) []float64 {
	total := make(capacity.Vector, c.problem.names.Len())
	for _, class := range c.problem.classes {
		total.Add(class.request, int64(len(class.pods)))
	}
	prices, sizes := make([]float64, len(options)), make([]capacity.Vector, len(options))
	for i := range options {
		prices[i], sizes[i] = options[i].Price, options[i].Allocatable
	}
	return packing.Worth(total, sizes, prices)
}

// aim plans the cluster without the machines, with all rules, and leaves out those that do not pay. What is left is a state
// that holds, and is cheaper by more than it costs.
func (c *consolidation) aim(gone []*host, aims int) []part {
	for left := aims - 1; left >= 0; left-- {
		if len(gone) == 0 {
			return nil
		}
		t := c.attempt(gone)
		parts := t.parts(gone)
		stranded := t.stranded()
		var keep []*host
		complete := true
		var good []part
		for _, part := range parts {
			r := c.judgePart(part, stranded)
			if r.OK() {
				good = append(good, part)
				keep = append(keep, part.hosts...)
				continue
			}
			complete = false
			c.note(part, r)
			for _, h := range part.hosts {
				c.insist(h, r)
			}
			if len(part.hosts) > 1 { // without the one that gains least the others may pay
				keep = append(keep, c.better(part, stranded)...)
			}
		}
		if complete {
			return good
		}
		if left == 1 || len(c.sources) > manySources { // a later pass looks at the others again
			keep = hostsOfParts(good)
		}
		gone = keep
	}
	return nil
}

// attempt is a trial with the hints of the search.
func (c *consolidation) attempt(gone []*host) tried {
	if c.tried.covers(gone, len(c.sources) > manySources) {
		return c.tried.part(gone)
	}
	opt := c.opt
	opt.PriceBand = min(opt.priceBand(), narrowBand)
	opt.Effort = max(1, opt.effort()/8)
	if c.again || len(c.sources) > manySources {
		opt.Effort = -1
	}
	c.tried.gone = slices.Clone(gone)
	c.tried.tried = c.try(gone, trialOptions{closed: c.goesSoon, hints: c.hints, options: &opt, batches: c.batches})
	return c.tried.tried
}

// covers reports whether the trial has told already what it takes to remove the machines: it was about them, or also about
// others that they do not depend on.
func (a *attempted) covers(gone []*host, parts bool) bool {
	if len(gone) > len(a.gone) || len(gone) < len(a.gone) && !(parts && a.apart) {
		return false
	}
	in := make(map[*host]bool, len(a.gone))
	for _, h := range a.gone {
		in[h] = true
	}
	return !slices.ContainsFunc(gone, func(h *host) bool { return !in[h] })
}

// part is what the trial has told about these of its machines.
func (a *attempted) part(gone []*host) tried {
	if len(gone) == len(a.gone) {
		return a.tried
	}
	return a.only(gone)
}

// judgePart says why the machines of a part do not go.
func (c *consolidation) judgePart(p part, stranded map[*host]Reason) Reason {
	for _, h := range p.hosts {
		if r := stranded[h]; !r.OK() {
			return r
		}
	}
	price, cost := 0.0, 0.0
	for _, h := range p.hosts {
		price += c.disruptor.price(h)
		cost += c.cost[c.index[h.number]]
	}
	worst := 0.0
	for i := range p.launches {
		worst += p.launches[i].worst()
	}
	h := p.hosts[0]
	moving := cost / usualPayback.Hours()
	if len(p.launches) > 0 {
		moving *= strictness
	}
	saving := price - worst
	if saving-moving < c.least(price) {
		return Reason{
			Code: SavesTooLittle, NodePool: h.pool(), Need: dollars(moving + c.least(price)), Have: dollars(max(saving, 0)),
			Key: replacementWord(p),
		}
	}
	if r := c.spotRefusal(p); !r.OK() {
		return r
	}
	return c.unbalanced(p.hosts, p.launches)
}

func (c *consolidation) least(price float64) float64 { return max(leastShare*price, leastCore*c.core) }

// worst is what the launch costs if the cloud picks the dearest of what it lists.
func (l *Launch) worst() float64 {
	if len(l.Offerings) == 0 {
		return l.Price
	}
	return l.Offerings[len(l.Offerings)-1].Price
}

func dollars(x float64) string { return fmt.Sprintf("$%.3f/h", x) }

func replacementWord(p part) string {
	switch len(p.launches) {
	case 0:
		return "no other machine"
	case 1:
		return p.launches[0].InstanceTypes[0]
	}
	return plural(len(p.launches), "machine")
}

// better is the part without the machine that gains least.
func (c *consolidation) better(p part, stranded map[*host]Reason) []*host {
	var fine []*host
	for _, h := range p.hosts {
		if r := stranded[h]; r.OK() {
			fine = append(fine, h)
		}
	}
	if len(fine) < len(p.hosts) {
		return fine
	}
	gain := func(h *host) float64 {
		return c.disruptor.price(h) - c.value(h) - strictness*c.cost[c.index[h.number]]/usualPayback.Hours()
	}
	slices.SortStableFunc(fine, func(a, b *host) int { return cmp.Compare(gain(b), gain(a)) })
	return fine[:len(fine)-max(1, len(fine)/4)]
}

// value is what the pods of the machine are worth, in USD per hour.
func (c *consolidation) value(h *host) float64 {
	sum := 0.0
	for _, f := range c.movers(h) {
		sum += c.podValue(f)
	}
	return sum
}

// leastSpot is how many instance types a spot machine that replaces a single spot machine may choose from at least: with fewer
// it would soon end up with the type that is interrupted most.
const leastSpot = 15

// spotRefusal keeps spot machines from being replaced by spot machines, unless that is asked for and there is a choice.
func (c *consolidation) spotRefusal(p part) Reason {
	for _, h := range p.hosts {
		if h.labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeSpot {
			return Reason{}
		}
	}
	for i := range p.launches {
		l := &p.launches[i]
		if !slices.ContainsFunc(l.Offerings, func(o LaunchOffering) bool { return o.CapacityType == v1.CapacityTypeSpot }) {
			continue
		}
		pool := p.hosts[0].pool()
		if !c.opt.SpotToSpot {
			return Reason{Code: SpotToSpot, NodePool: pool, Have: "replacing spot machines by spot machines is switched off"}
		}
		if n := len(l.InstanceTypes); len(p.hosts) == 1 && n < leastSpot {
			return Reason{Code: SpotToSpot, NodePool: pool, Have: fmt.Sprintf("a cheaper machine could be of %s only, and %d are needed", plural(n, "spot type"), leastSpot)}
		}
	}
	return Reason{}
}

// explain says of the machines that stay what could be had at most by moving their pods.
func (c *consolidation) explain(found []part) {
	going := map[*host]bool{}
	for _, p := range found {
		for _, h := range p.hosts {
			going[h] = true
		}
	}
	for j, h := range c.sources {
		if going[h] {
			continue
		}
		if old, known := c.why[h]; known && old.Code != NotEmpty {
			continue
		}
		waste := max(0, c.disruptor.price(h)-c.value(h))
		need := c.settled[j]/usualPayback.Hours() + c.least(c.disruptor.price(h))
		r := Reason{Code: NoCheaperPlace, NodePool: h.pool(), Have: dollars(waste)}
		if waste <= need {
			r.Code, r.Have, r.Need = SavesTooLittle, dollars(waste)+" at most", dollars(need)
		}
		c.insist(h, r)
	}
}
