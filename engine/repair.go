package engine

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

const (
	// mostUnhealthy is the share of a pool's nodes, in percent and rounded up, above which none is repaired: that many broken
	// machines at once have a cause that replacing them would not mend.
	mostUnhealthy = 20
	// agePerRank is how much longer a node must have been broken to be as urgent as one of the next priority.
	agePerRank = 30 * time.Minute
)

// repairer decides which broken nodes are replaced.
type repairer struct {
	d        *disruptor
	patterns map[string]*regexp.Regexp // nil for those that cannot be read
	faults   map[*host]*fault
	sick     map[string]int // nodes of each pool with any such condition, however young
	all      map[string]int // nodes of each pool
}

// fault is what is wrong with a node.
type fault struct {
	policy *RepairPolicy // the most urgent one
	since  time.Time     // when it could first have been repaired
	score  float64
	grace  *time.Duration // how long the drain may take
	due    time.Time      // when it can first be repaired, if that is still to come
}

// repair replaces machines whose nodes say that they are broken.
func (d *disruptor) repair() {
	if !slices.ContainsFunc(d.s.Classes, func(c Class) bool { return len(c.Repairs) > 0 }) {
		return
	}
	r := &repairer{d, map[string]*regexp.Regexp{}, map[*host]*fault{}, map[string]int{}, map[string]int{}}
	r.readPatterns()
	r.examine()
	var candidates []*host
	for h, f := range r.faults {
		if f.policy != nil {
			candidates = append(candidates, h)
		}
	}
	slices.SortFunc(candidates, func(a, b *host) int {
		return cmp.Or(cmp.Compare(r.faults[b].score, r.faults[a].score), cmp.Compare(d.legacyCost(a), d.legacyCost(b)), compareNames(a, b))
	})
	r.carry(candidates)
}

// BrokenBy is the condition for which the node has to be replaced by now; "" if there is none.
func BrokenBy(s *Snapshot, node *corev1.Node, claim *v1.NodeClaim) string {
	class := findClass(s, claim.Spec.NodeClassRef)
	if class == nil {
		return ""
	}
	r := &repairer{d: &disruptor{s: s, plan: &Plan{}}, patterns: map[string]*regexp.Regexp{}}
	r.readPatterns()
	f, _ := r.fault(&host{machine: &machine{node: node, claim: claim}}, class.Repairs)
	if f.policy == nil {
		return ""
	}
	return f.policy.Condition
}

func (r *repairer) readPatterns() {
	for i := range r.d.s.Classes {
		c := &r.d.s.Classes[i]
		for _, p := range c.Repairs {
			if _, known := r.patterns[p.Reason]; known {
				continue
			}
			pattern, err := regexp.Compile(p.Reason)
			if err != nil {
				r.d.plan.Notes = append(r.d.plan.Notes, Note{Object: c.Ref.Kind + " " + c.Ref.Name, Reason: Reason{
					Code: UnreadablePolicy, Key: p.Condition, Have: err.Error()}})
			}
			r.patterns[p.Reason] = pattern
		}
	}
}

// examine looks at every node with the label of a pool whose class says what broken means.
func (r *repairer) examine() {
	for _, h := range r.d.p.hosts {
		b := r.d.budgets[h.pool()]
		if h.node == nil || b == nil {
			continue
		}
		class := findClass(r.d.s, b.rules.pool.Spec.Template.Spec.NodeClassRef)
		if class == nil || len(class.Repairs) == 0 {
			continue
		}
		r.all[h.pool()]++
		f, sick := r.fault(h, class.Repairs)
		if sick {
			r.sick[h.pool()]++
		}
		if h.claim != nil && sick {
			r.faults[h] = f
		}
	}
}

// fault brings together what the policies say of the node's conditions.
func (r *repairer) fault(h *host, policies []RepairPolicy) (f *fault, sick bool) {
	f = &fault{}
	ranks := priorityRanks(policies)
	var due []*RepairPolicy
	begun := map[*RepairPolicy]time.Time{}
	for i := range h.node.Status.Conditions {
		c := &h.node.Status.Conditions[i]
		applying := r.applying(c, policies)
		sick = sick || len(applying) > 0
		for _, p := range applying {
			at := r.counted(h, c).Add(p.Toleration)
			if r.d.s.Now.Before(at) {
				if f.due.IsZero() || at.Before(f.due) {
					f.due = at
				}
				continue
			}
			due, begun[p] = append(due, p), at
		}
	}
	slices.SortFunc(due, func(a, b *RepairPolicy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), begun[a].Compare(begun[b]), cmp.Compare(a.Condition, b.Condition))
	})
	for _, p := range due {
		f.score = max(f.score, float64(ranks[p.Priority])+float64(r.d.s.Now.Sub(begun[p]))/float64(agePerRank))
		f.grace = shorter(f.grace, p.Grace)
	}
	if len(due) > 0 {
		f.policy, f.since = due[0], begun[due[0]]
	}
	return f, sick
}

// applying lists the policies that are about the condition: those that name its reason, else the one that names none.
func (r *repairer) applying(c *corev1.NodeCondition, policies []RepairPolicy) []*RepairPolicy {
	var named, fallback []*RepairPolicy
	covered := false
	for i := range policies {
		p := &policies[i]
		about := p.Condition == string(c.Type) && p.Status == string(c.Status)
		covered = covered || about
		switch {
		case p.Reason == "":
			if about {
				fallback = append([]*RepairPolicy{p}, fallback...)
			} else {
				fallback = append(fallback, p)
			}
		case about && r.patterns[p.Reason] != nil && r.patterns[p.Reason].MatchString(c.Reason):
			named = append(named, p)
		}
	}
	switch {
	case !covered:
		return nil
	case len(named) > 0 || len(fallback) == 0:
		return named
	}
	return fallback[:1]
}

// counted is when the condition's toleration began: a node that has just been made, or rebooted, gets all of it.
func (r *repairer) counted(h *host, c *corev1.NodeCondition) time.Time {
	at := latest(c.LastTransitionTime.Time, h.node.CreationTimestamp.Time)
	if h.claim != nil && !h.isRebooting() {
		at = latest(at, since(h.claim, v1.ConditionRebooting))
	}
	return at
}

// priorityRanks numbers the priorities that occur, the lowest 0.
func priorityRanks(policies []RepairPolicy) map[int]int {
	var priorities []int
	for _, p := range policies {
		priorities = append(priorities, p.Priority)
	}
	slices.Sort(priorities)
	ranks := map[int]int{}
	for i, p := range slices.Compact(priorities) {
		ranks[p] = i
	}
	return ranks
}

// carry removes the broken machines in their order. Those that were never ready go at once.
func (r *repairer) carry(candidates []*host) {
	m := method{
		reason: v1.Unhealthy, refusal: func(h *host) Reason { return r.refusal(h) },
		trial:       trialOptions{held: true, closed: func(h *host) bool { return r.faults[h] != nil || r.d.goesSoon(h) }},
		heeds:       func(*host) bool { return false },
		drainWithin: func(h *host) *time.Duration { return r.drainWithin(h) },
	}
	var pools, static []*host
	for _, h := range candidates {
		rules := r.d.budgets[h.pool()].rules
		switch {
		case !h.isInitialized():
			if refused := r.refusal(h); !refused.OK() {
				r.d.insist(h, refused)
				continue
			}
			r.d.add(part{hosts: []*host{h}}, m)
		case rules.pool.Spec.Replicas != nil:
			static = append(static, h)
		default:
			pools = append(pools, h)
		}
	}
	r.d.replaceStatic(static, m)
	r.d.carry(pools, m)
}

// refusal says why the broken machine is not repaired now. What protects a node from being disrupted does not protect a broken
// one, but its pods get the time that somebody has set for them.
func (r *repairer) refusal(h *host) Reason {
	pool := h.pool()
	switch {
	case h.isRebooting():
		return Reason{Code: Rebooting, NodePool: pool}
	case h.leaving:
		return Reason{Code: AlreadyLeaving, NodePool: pool}
	case !h.isRegistered():
		return Reason{Code: NotInitialized, NodePool: pool}
	}
	if refused := r.d.barredByOwner(h); !refused.OK() {
		return refused
	}
	if h.isInitialized() && len(h.expected) > 0 {
		return Reason{Code: PodsExpected, NodePool: pool, Need: podID(h.expected[0]).String()}
	}
	if h.node.Annotations[v1.DoNotRepairAnnotationKey] == "true" {
		return Reason{Code: DoNotRepair, NodePool: pool}
	}
	if most := (mostUnhealthy*r.all[pool] + 99) / 100; r.sick[pool] > most {
		return Reason{Code: TooManyUnhealthy, NodePool: pool, Have: fmt.Sprintf("%d of %d", r.sick[pool], r.all[pool]), Need: fmt.Sprint(most)}
	}
	if back := r.d.takenBack(h, true); !back.OK() {
		return back
	}
	if r.faults[h].grace != nil || hasDeadline(h) {
		return Reason{}
	}
	blocking := r.d.held(h)
	if blocking.OK() {
		blocking = r.d.blocked(h)
	}
	if !blocking.OK() {
		return Reason{Code: NoDrainBound, NodePool: pool, Have: blocking.Message()}
	}
	return Reason{}
}

// drainWithin is how long the drain may take: what the policies or the claim set, whichever is less; nil if no policy sets
// anything, and then the claim's own time holds as for any removal.
func (r *repairer) drainWithin(h *host) *time.Duration {
	grace := r.faults[h].grace
	if grace == nil || !hasDeadline(h) {
		return grace
	}
	return shorter(grace, &h.claim.Spec.TerminationGracePeriod.Duration)
}
