package explain

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
)

// PoolExplanation is the record of a pool: the machines that it can start now, and the pods that it refuses.
type PoolExplanation struct {
	NodePool string `json:"nodePool"`
	Class    string `json:"class"`
	Summary  string `json:"summary"`
	// Problem says why the pool cannot be used, empty if it can.
	Problem string `json:"problem,omitempty"`
	Weight  int32  `json:"weight"`
	// Nodes counts the pool's machines; PricePerHour adds up the known prices, Unpriced counts machines without a known price.
	Nodes        int           `json:"nodes"`
	PricePerHour float64       `json:"pricePerHour"`
	Unpriced     int           `json:"unpriced,omitempty"`
	Limits       []ResourceUse `json:"limits"`
	// InstanceTypes and Offerings count the pool's available types and offerings; SoldOut lists its sold-out offerings.
	InstanceTypes   int            `json:"instanceTypes"`
	Offerings       int            `json:"offerings"`
	SoldOut         []string       `json:"soldOut"`
	CheapestPerCore *PerCoreRecord `json:"cheapestPerCore,omitempty"`
	// Devices are the accelerators that the pool's nodes will show, with the source.
	Devices []DeviceRecord `json:"devices,omitempty"`
	// TimeZone is the time zone of the budgets' schedules. Paused is the reason of a pause of voluntary disruption, empty without one.
	// Retired means that no more machines are started.
	TimeZone   string            `json:"timeZone,omitempty"`
	Paused     string            `json:"paused,omitempty"`
	Retired    bool              `json:"retired,omitempty"`
	Budgets    []BudgetRecord    `json:"budgets"`
	Allowances []AllowedRecord   `json:"allowances"`
	Drift      *DriftRecord      `json:"drift,omitempty"`
	Refused    []RefusedRecord   `json:"refused"`
	Launches   []string          `json:"launches"`
	Notes      []string          `json:"notes"`
	Conditions []ConditionRecord `json:"conditions"`
}

// PerCoreRecord is an offering with its price per core, in USD per hour.
type PerCoreRecord struct {
	engine.OfferingID
	Price   float64 `json:"price"`
	PerCore float64 `json:"perCore"`
}

// BudgetRecord is one disruption budget. Allows is the number of nodes that may go at a time now, null if the budget bounds nothing now. Problem is
// the reason why the budget cannot be read. Bounds names the bounded nodes: all, replaced ones, or deleted ones (without a replacement).
type BudgetRecord struct {
	Bounds   string                `json:"bounds"`
	Nodes    string                `json:"nodes"`
	Reasons  []v1.DisruptionReason `json:"reasons,omitempty"`
	Schedule string                `json:"schedule,omitempty"`
	Duration string                `json:"duration,omitempty"`
	Allows   *int                  `json:"allows"`
	Problem  string                `json:"problem,omitempty"`
	// Active reports whether the budget is in force now; Turns is the time of the next change, if the budget has a schedule.
	Active bool       `json:"active"`
	Turns  *time.Time `json:"turns,omitempty"`
}

// AllowedRecord is the allowance of all budgets together for one reason: Left more nodes, null if nothing bounds them. Opens is the next time
// with an allowance, if there is none now and time alone changes that.
type AllowedRecord struct {
	Opens      *time.Time          `json:"opens,omitempty"`
	Reason     v1.DisruptionReason `json:"reason"`
	Disrupting int                 `json:"disrupting"`
	Left       *int                `json:"left"`
	Problem    string              `json:"problem,omitempty"`
}

// DriftRecord counts the pool's drifted nodes. Stay lists the nodes that are not replaced now, by the code of the reason.
type DriftRecord struct {
	Nodes int         `json:"nodes"`
	Stay  []StayGroup `json:"stay"`
}

// StayGroup lists nodes that stay for reasons with the same code; the record is that of the first node.
type StayGroup struct {
	engine.ReasonRecord
	Nodes []string `json:"nodes"`
}

// RefusedRecord is a set of pending pods that the pool refuses for one reason.
type RefusedRecord struct {
	engine.ReasonRecord
	Pods []string `json:"pods"`

	PodIDs []engine.PodID `json:"-"`
}

// ExplainPool returns the record of the pool. The plan is the result of provisioning.Plan for the snapshot, disrupt that of disruption.Plan; if
// disrupt is nil, the record has no drift.
func ExplainPool(s *engine.Snapshot, plan, disrupt *engine.Plan, pool *v1.NodePool) PoolExplanation {
	ref := pool.Spec.Template.Spec.NodeClassRef
	class := kube.ClassOf(s, pool)
	story := PoolExplanation{
		NodePool: pool.Name, Problem: kube.PoolProblem(pool, class).Have, Weight: kube.WeightOf(pool), Limits: limitUse(s, pool),
		SoldOut: []string{}, Budgets: []BudgetRecord{}, Allowances: []AllowedRecord{}, Refused: []RefusedRecord{},
		Launches: []string{}, Notes: []string{}, Conditions: conditionRecords(pool.Status.Conditions),
	}
	if ref != nil {
		story.Class = ref.Kind + " " + ref.Name
	}
	story.countMachines(s, pool)
	story.countOfferings(pool, class, s.NodeOverheadPrice)
	story.readDevices(pool, class)
	story.countHardware(s, pool)
	story.readBudgets(s, pool)
	for i := range plan.Launches {
		if l := &plan.Launches[i]; l.NodePool == pool.Name {
			story.Launches = append(story.Launches, l.Sentence())
		}
	}
	for _, n := range plan.Notes {
		if n.Object == "NodePool "+pool.Name && n.Reason.Have != story.Problem {
			story.Notes = append(story.Notes, n.Reason.Message())
		}
	}
	story.groupRefused(plan)
	if disrupt != nil {
		story.readDrift(s, disrupt)
	}
	story.Summary = story.summary()
	return story
}

func (p *PoolExplanation) summary() string {
	switch {
	case p.Problem != "":
		return "it cannot be used: " + p.Problem
	case p.Offerings == 0 && len(p.SoldOut) > 0:
		return "it is ready, and everything that it can buy is sold out"
	case p.Offerings == 0:
		return "it is ready, and no instance type meets its requirements"
	}
	return "it is ready"
}

// countMachines counts the nodes with the pool's label, and the claims without a node.
func (p *PoolExplanation) countMachines(s *engine.Snapshot, pool *v1.NodePool) {
	prices := inventory.NewPriceBook(s)
	count := func(labels map[string]string) {
		p.Nodes++
		price, known := prices.Price(labels, pool.Spec.Template.Spec.NodeClassRef)
		if !known {
			p.Unpriced++
			return
		}
		p.PricePerHour += price
	}
	joined := map[string]bool{}
	for _, n := range kube.ByName(s.Nodes) {
		joined[n.Spec.ProviderID] = n.Spec.ProviderID != ""
		if n.Labels[v1.NodePoolLabelKey] == pool.Name {
			count(n.Labels)
		}
	}
	for _, c := range kube.ByName(s.NodeClaims) {
		if c.Labels[v1.NodePoolLabelKey] == pool.Name && !joined[c.Status.ProviderID] {
			count(c.Labels)
		}
	}
}

func (p *PoolExplanation) countOfferings(pool *v1.NodePool, class *engine.Class, overhead float64) {
	kinds := map[string]bool{}
	for _, o := range offering.Of(pool, class, overhead) {
		if o.Offering.SoldOut {
			p.SoldOut = append(p.SoldOut, o.ID().String())
			continue
		}
		p.Offerings++
		kinds[o.Kind.Name] = true
		if per := o.PerCore(); per > 0 && (p.CheapestPerCore == nil || per < p.CheapestPerCore.PerCore) {
			p.CheapestPerCore = &PerCoreRecord{o.ID(), o.Price, per}
		}
	}
	p.InstanceTypes = len(kinds)
}

func (p *PoolExplanation) readBudgets(s *engine.Snapshot, pool *v1.NodePool) {
	rules := budget.RulesOf(s, pool)
	counts := budget.CountNodes(pool.Name, inventory.MachinesOf(s, (*inventory.Cache)(nil).Take(s, 1)))
	p.Retired = rules.NoLaunch
	if r := rules.Pause(); !r.OK() {
		p.Paused = r.Message()
	}
	if name, ok := pool.Annotations[v1.BudgetTimeZoneAnnotationKey]; ok {
		p.TimeZone = name
	}
	p.addBudgets(s.Now, rules, "all", pool.Spec.Disruption.Budgets, counts.Total)
	for _, verb := range []struct {
		bounds string
		of     *budget.VerbBudgets
	}{{"replaced", rules.Replacing}, {"deleted", rules.Deleting}} {
		if verb.of != nil {
			p.addBudgets(s.Now, rules, verb.bounds, verb.of.Budgets, counts.Total)
		}
	}
	for _, reason := range append(v1.DisruptionReasons(), v1.Expired) {
		a := rules.Allowance(s.Now, reason, counts)
		r := AllowedRecord{Reason: reason, Disrupting: a.Disrupting, Left: allowedIn(a.Left(), a), Problem: a.Problem}
		if at := rules.Opens(s.Now, reason, counts); a.Problem == "" && a.Left() == 0 && !at.IsZero() {
			at = at.In(rules.Zone)
			r.Opens = &at
		}
		p.Allowances = append(p.Allowances, r)
	}
	for _, problem := range rules.Problems {
		p.Notes = append(p.Notes, problem.Message())
	}
}

func (p *PoolExplanation) addBudgets(now time.Time, rules *budget.PoolRules, bounds string, budgets []v1.Budget, total int) {
	for i := range budgets {
		b := &budgets[i]
		r := BudgetRecord{Bounds: bounds, Nodes: b.Nodes, Reasons: b.Reasons}
		if b.Schedule != nil {
			r.Schedule = *b.Schedule
		}
		if b.Duration != nil {
			r.Duration = b.Duration.Duration.String()
		}
		limit, err := rules.Limit(b, now, total)
		times := rules.TimesOf(b)
		switch {
		case rules.Closed != "":
			r.Problem = rules.Closed
		case err != nil:
			r.Problem = err.Error()
		default:
			r.Active = times.IsActive(now)
			if r.Active {
				r.Allows = &limit
			}
			if !times.Scheduled {
				break
			}
			if turn := times.Window.Changes(now); !turn.IsZero() {
				turn = turn.In(rules.Zone)
				r.Turns = &turn
			}
		}
		p.Budgets = append(p.Budgets, r)
	}
}

// allowedIn returns n, or nil if nothing bounds the number.
func allowedIn(n int, a budget.Allowance) *int {
	if a.Allowed == math.MaxInt {
		return nil
	}
	return &n
}

// groupRefused groups the pods that the pool refuses for the same reason; the largest groups come first.
func (p *PoolExplanation) groupRefused(plan *engine.Plan) {
	index := map[engine.Reason]int{}
	for _, u := range plan.Unplaced {
		for _, r := range u.Reasons {
			if r.NodePool != p.NodePool {
				continue
			}
			i, ok := index[r]
			if !ok {
				i = len(p.Refused)
				index[r] = i
				p.Refused = append(p.Refused, RefusedRecord{ReasonRecord: r.Record()})
			}
			p.Refused[i].PodIDs = append(p.Refused[i].PodIDs, u.Pod)
		}
	}
	for i := range p.Refused {
		p.Refused[i].Pods = podTexts(p.Refused[i].PodIDs)
	}
	slices.SortStableFunc(p.Refused, func(a, b RefusedRecord) int { return cmp.Compare(len(b.PodIDs), len(a.PodIDs)) })
}

// readDrift counts the pool's drifted nodes, and groups the kept ones by reason.
func (p *PoolExplanation) readDrift(s *engine.Snapshot, disrupt *engine.Plan) {
	drifted := map[string]bool{}
	for _, c := range s.NodeClaims {
		if c.Labels[v1.NodePoolLabelKey] == p.NodePool && v1.IsTrue(c, v1.ConditionDrifted) {
			drifted[c.Name] = true
		}
	}
	if len(drifted) == 0 {
		return
	}
	p.Drift = &DriftRecord{Nodes: len(drifted), Stay: []StayGroup{}}
	for _, k := range disrupt.Kept {
		if !drifted[k.Claim] {
			continue
		}
		i := slices.IndexFunc(p.Drift.Stay, func(g StayGroup) bool { return g.Code == k.Reason.Code })
		if i < 0 {
			i = len(p.Drift.Stay)
			p.Drift.Stay = append(p.Drift.Stay, StayGroup{ReasonRecord: k.Reason.Record()})
		}
		p.Drift.Stay[i].Nodes = append(p.Drift.Stay[i].Nodes, cmp.Or(k.Node, k.Claim))
	}
}

// limitUse returns the pool's usage of each resource that its limits name.
func limitUse(s *engine.Snapshot, pool *v1.NodePool) []ResourceUse {
	if len(pool.Spec.Limits) == 0 {
		return []ResourceUse{}
	}
	return useOf(inventory.PoolUsage(inventory.MachinesOf(s, (*inventory.Cache)(nil).Take(s, 1)), pool.Name), corev1.ResourceList(pool.Spec.Limits), slices.Sorted(maps.Keys(pool.Spec.Limits)))
}

func limitWords(limits []ResourceUse) string {
	var parts []string
	for _, l := range limits {
		parts = append(parts, l.UsedWords+" of "+l.AvailableWords+" "+string(l.Resource))
	}
	return strings.Join(parts, ", ")
}
