package disruption

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

const (
	// mostUnhealthy is the share of a pool's nodes, in percent and rounded up, above which none is repaired, because so many broken machines
	// at once have a cause that replacements do not mend.
	mostUnhealthy = 20
	// agePerRank is how much longer a node must have been broken to be as urgent as one of the next priority.
	agePerRank = 30 * time.Minute
)

// repairer is the state of one call of repair.
type repairer struct {
	d        *planner
	patterns map[string]*regexp.Regexp // nil for a pattern that cannot be read
	faults   map[*inventory.Machine]*fault
	sick     map[string]int // by pool, the nodes that a policy applies to, due or not
	all      map[string]int // nodes of each pool
}

// fault is a node's fault.
type fault struct {
	policy *engine.RepairPolicy // the most urgent policy that is due
	score  float64
	grace  time.Duration // how long the drain may take
}

// repair replaces machines whose nodes report that they are broken.
func (d *planner) repair() {
	if !slices.ContainsFunc(d.s.Classes, func(c engine.Class) bool { return len(c.Repairs) > 0 }) {
		return
	}
	r := &repairer{d, map[string]*regexp.Regexp{}, map[*inventory.Machine]*fault{}, map[string]int{}, map[string]int{}}
	r.readPatterns()
	r.examine()
	var candidates []*inventory.Machine
	for m, f := range r.faults {
		if f.policy != nil {
			candidates = append(candidates, m)
		}
	}
	slices.SortFunc(candidates, func(a, b *inventory.Machine) int {
		return cmp.Or(cmp.Compare(r.faults[b].score, r.faults[a].score), cmp.Compare(d.legacyCost(a), d.legacyCost(b)), provisioning.CompareNames(a, b))
	})
	r.removeBroken(candidates)
}

// BrokenBy returns the condition for which the node is due to be replaced. It returns "" if there is none.
func BrokenBy(s *engine.Snapshot, node *corev1.Node, claim *v1.NodeClaim) string {
	class := kube.FindClass(s, claim.Spec.NodeClassRef)
	if class == nil {
		return ""
	}
	r := &repairer{d: &planner{candidates: &candidates{s: s}, plan: &engine.Plan{}}, patterns: map[string]*regexp.Regexp{}}
	r.readPatterns()
	f, _ := r.fault(&inventory.Machine{MachineInfo: &inventory.MachineInfo{Node: node, Claim: claim}}, class.Repairs)
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
				r.d.plan.Notes = append(r.d.plan.Notes, engine.Note{Object: c.Ref.Kind + " " + c.Ref.Name, Reason: engine.Reason{
					Code: engine.UnreadablePolicy, Key: p.Condition, Have: err.Error()}})
			}
			r.patterns[p.Reason] = pattern
		}
	}
}

// examine finds the faults of all nodes with the label of a pool whose class has repair policies.
func (r *repairer) examine() {
	for _, m := range r.d.p.Machines {
		b := r.d.budgets[m.Pool()]
		if m.Node == nil || b == nil {
			continue
		}
		class := kube.FindClass(r.d.s, b.Rules.Pool.Spec.Template.Spec.NodeClassRef)
		if class == nil || len(class.Repairs) == 0 {
			continue
		}
		r.all[m.Pool()]++
		f, sick := r.fault(m, class.Repairs)
		if sick {
			r.sick[m.Pool()]++
		}
		if m.Claim != nil && sick {
			r.faults[m] = f
		}
	}
}

// fault combines the policies about the node's conditions; sick is true if any policy applies, due or not.
func (r *repairer) fault(m *inventory.Machine, policies []engine.RepairPolicy) (f *fault, sick bool) {
	f = &fault{}
	ranks := priorityRanks(policies)
	var due []*engine.RepairPolicy
	begun := map[*engine.RepairPolicy]time.Time{}
	for i := range m.Node.Status.Conditions {
		c := &m.Node.Status.Conditions[i]
		applying := r.applying(c, policies)
		sick = sick || len(applying) > 0
		for _, p := range applying {
			if at := r.counted(m, c).Add(p.Toleration); !r.d.s.Now.Before(at) {
				due, begun[p] = append(due, p), at
			}
		}
	}
	slices.SortFunc(due, func(a, b *engine.RepairPolicy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), begun[a].Compare(begun[b]), cmp.Compare(a.Condition, b.Condition))
	})
	for i, p := range due {
		f.score = max(f.score, float64(ranks[p.Priority])+float64(r.d.s.Now.Sub(begun[p]))/float64(agePerRank))
		if i == 0 || p.Grace < f.grace {
			f.policy, f.grace = due[0], p.Grace
		}
	}
	return f, sick
}

// applying returns the policies about the condition whose reason matches. If there are none, it returns the fallback: a policy without a reason, of
// any type and status, if possible one about the condition. It returns none if no policy is about the condition's type and status.
func (r *repairer) applying(c *corev1.NodeCondition, policies []engine.RepairPolicy) []*engine.RepairPolicy {
	var named, fallback []*engine.RepairPolicy
	covered := false
	for i := range policies {
		p := &policies[i]
		about := p.Condition == string(c.Type) && p.Status == string(c.Status)
		covered = covered || about
		switch {
		case p.Reason == "":
			if about {
				fallback = append([]*engine.RepairPolicy{p}, fallback...)
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

// counted returns the time at which the condition's toleration began: the condition's own time or, if it has none, the node's time. The condition may
// be older than the node, because the node may have registered again. After a reboot the toleration begins again.
func (r *repairer) counted(m *inventory.Machine, c *corev1.NodeCondition) time.Time {
	at := c.LastTransitionTime.Time
	if at.IsZero() {
		at = m.Node.CreationTimestamp.Time
	}
	if m.Claim != nil && !m.IsRebooting() {
		at = kube.Latest(at, kube.TrueSince(m.Claim, v1.ConditionRebooting))
	}
	return at
}

// priorityRanks returns the rank of each priority; the lowest has 0.
func priorityRanks(policies []engine.RepairPolicy) map[int]int {
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

// removeBroken removes the broken machines in their order. It removes them at once, even if pods are protected or have no other place, because a
// broken machine is of no use to pods. Only if a policy gives the drain some time, the replacement is started first.
func (r *repairer) removeBroken(candidates []*inventory.Machine) {
	m := method{
		reason: v1.Unhealthy, refusal: r.refusal,
		trial:       trialOptions{held: true, closed: func(machine *inventory.Machine) bool { return r.faults[machine] != nil || r.d.goesSoon(machine) }},
		heeds:       func(*inventory.Machine) bool { return false },
		drainWithin: r.drainWithin,
	}
	var now, pools, static []*inventory.Machine
	for _, machine := range candidates {
		switch refused := r.refusal(machine); {
		case !refused.OK():
			r.d.setReason(machine, refused)
		case r.faults[machine].grace == 0 || !machine.IsInitialized() || !r.d.halted(machine).OK():
			now = append(now, machine)
		case r.d.budgets[machine.Pool()].Rules.Pool.Spec.Replicas != nil:
			static = append(static, machine)
		default:
			pools = append(pools, machine)
		}
	}
	r.remove(now, m)
	r.d.replaceStatic(static, m)
	r.d.removeNow(pools, m)
	r.remove(slices.DeleteFunc(slices.Concat(static, pools), func(machine *inventory.Machine) bool { // no replacement can be started
		return r.d.taken[machine] || r.d.why[machine].Code == engine.BudgetExhausted
	}), m)
}

// remove removes machines without waiting for anything. The launches for their pods are planned later, as for the pods of any leaving machine.
func (r *repairer) remove(hosts []*inventory.Machine, m method) {
	hosts = slices.DeleteFunc(hosts, func(machine *inventory.Machine) bool {
		refused := r.spend(machine)
		if !refused.OK() {
			r.d.setReason(machine, refused)
		}
		return !refused.OK()
	})
	if len(hosts) == 0 {
		return
	}
	t := r.d.try(hosts, m.trial)
	launches := t.plan.Launches
	t.plan.Launches = nil
	parts := make([]provisioning.Group, len(hosts))
	for i, machine := range hosts {
		parts[i].Machines = []*inventory.Machine{machine}
	}
	t.fill(parts)
	first := len(r.d.plan.Disruptions)
	for _, p := range parts {
		r.d.add(p, m)
	}
	for _, l := range launches {
		if i := slices.IndexFunc(hosts, func(machine *inventory.Machine) bool { return machine == t.leaves(l.Pods[0]) }); i >= 0 {
			r.d.plan.Disruptions[first+i].SavingPerHour -= l.Price
		}
	}
	r.d.remember(hosts, t.moved())
}

// spend takes the machine's place in the budgets for repairs. A machine that was never ready needs none.
func (r *repairer) spend(m *inventory.Machine) engine.Reason {
	if !m.IsInitialized() {
		return engine.Reason{}
	}
	b := r.d.budgets[m.Pool()]
	if refused := b.WayRefusal(v1.Unhealthy, false, 1); !refused.OK() {
		return refused
	}
	if refused := b.Take(v1.Unhealthy); !refused.OK() {
		return refused
	}
	b.UseWay(false, 1)
	return engine.Reason{}
}

// refusal returns why the broken machine is not repaired now. It ignores protection of the node or its pods from disruption, because the node is
// broken.
func (r *repairer) refusal(m *inventory.Machine) engine.Reason {
	pool := m.Pool()
	switch mark, _ := inventory.MarkOf(m.Claim); {
	case m.IsRebooting():
		return engine.Reason{Code: engine.Rebooting, NodePool: pool}
	case m.Leaving:
		return engine.Reason{Code: engine.AlreadyLeaving, NodePool: pool}
	case !m.IsRegistered():
		return engine.Reason{Code: engine.NotInitialized, NodePool: pool}
	case mark.Reason == v1.Unhealthy:
		return engine.Reason{Code: engine.BeingReplaced, NodePool: pool}
	}
	if refused := r.d.ineligibleByPool(m); !refused.OK() {
		return refused
	}
	if m.Node.Annotations[v1.DoNotRepairAnnotationKey] == "true" {
		return engine.Reason{Code: engine.DoNotRepair, NodePool: pool}
	}
	if class := kube.FindClass(r.d.s, m.Claim.Spec.NodeClassRef); class != nil && slices.Contains(class.Tended, m.Claim.Name) {
		return engine.Reason{Code: engine.RepairedElsewhere, NodePool: pool}
	}
	if most := (mostUnhealthy*r.all[pool] + 99) / 100; r.sick[pool] > most {
		return engine.Reason{Code: engine.TooManyUnhealthy, NodePool: pool, Have: fmt.Sprintf("%d of %d", r.sick[pool], r.all[pool]), Need: fmt.Sprint(most)}
	}
	return engine.Reason{}
}

// drainWithin returns how long the drain may take: the shorter of the times that the policies and the claim set.
func (r *repairer) drainWithin(m *inventory.Machine) *time.Duration {
	within := r.faults[m].grace
	if hasDeadline(m) {
		within = min(within, m.Claim.Spec.TerminationGracePeriod.Duration)
	}
	return &within
}
