package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/limits"
	"tenon.sh/engine/provisioning"
)

// Resizing is the change that brings a static pool to its size.
type Resizing struct {
	NodePool string
	// Create lists the missing machines. All are equal, and none is for certain pods.
	Create []engine.Launch
	// Names are the names of the claims to create, in the order of Create. The names follow from the existing claims. So two processes that see the same
	// claims use the same names, and create nothing twice.
	Names []string
	// Remove lists the surplus claims, in the order in which they should be removed.
	Remove []string
	// Why is the reason why missing machines are not created; the zero Reason if nothing prevents that.
	Why engine.Reason
}

// Resize returns the changes that static pools need, in order of name. A machine that is being replaced and its replacement are counted as one.
func Resize(s *engine.Snapshot, opt engine.Options) []Resizing {
	var out []Resizing
	var x *resizer
	for _, pool := range s.NodePools {
		if pool.Spec.Replicas == nil || pool.DeletionTimestamp != nil {
			continue
		}
		if x == nil {
			x = newResizer(s, opt)
		}
		if r := x.resize(pool); len(r.Create) > 0 || len(r.Remove) > 0 || !r.Why.OK() {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Resizing) int { return cmp.Compare(a.NodePool, b.NodePool) })
	return out
}

// resizer holds the state of one call of Resize.
type resizer struct {
	s        *engine.Snapshot
	opt      engine.Options
	machines map[string][]*inventory.Machine // machines with a claim, by pool and in order of name
	usage    *limits.Usage
}

func newResizer(s *engine.Snapshot, opt engine.Options) *resizer {
	x := &resizer{s: s, opt: opt, machines: map[string][]*inventory.Machine{}}
	pods := (*inventory.Cache)(nil).Take(s, 1)
	all := inventory.MachinesOf(s, pods)
	x.usage = limits.NewUsage(s, pods, all)
	for _, m := range all {
		if m.Claim != nil {
			pool := m.Claim.Labels[v1.NodePoolLabelKey]
			x.machines[pool] = append(x.machines[pool], m)
		}
	}
	return x
}

func (x *resizer) resize(pool *v1.NodePool) Resizing {
	r := Resizing{NodePool: pool.Name}
	var stay []*inventory.Machine
	coming := 0
	for _, m := range x.machines[pool.Name] {
		if m.Leaving {
			continue
		}
		stay = append(stay, m)
		if m.Replaces {
			coming++
		}
	}
	want := int(*pool.Spec.Replicas)
	switch have := len(stay) - coming; {
	case have > want:
		r.Remove = x.surplus(stay, have-want)
	case have < want:
		x.fill(&r, pool, want-have)
	}
	return r
}

// fill adds the missing machines, as far as the pool's limits allow. Leaving machines use up the limit on nodes, because they still exist.
func (x *resizer) fill(r *Resizing, pool *v1.NodePool, missing int) {
	n := missing
	if limit, ok := pool.Spec.Limits[v1.ResourceNodes]; ok {
		left := int(max(0, limit.Value()-int64(len(x.machines[pool.Name]))))
		if left < missing {
			n = left
			r.Why = engine.Reason{Code: engine.LimitReached, NodePool: pool.Name, Key: string(v1.ResourceNodes),
				Need: fmt.Sprintf("%d more", missing), Have: "the limit is " + limit.String()}
		}
	}
	if n == 0 {
		return
	}
	launch, why := stampLaunch(x.s, x.opt, pool)
	if !why.OK() {
		r.Why = why
		return
	}
	seen := []string{string(pool.UID)}
	for _, m := range x.machines[pool.Name] {
		seen = append(seen, string(m.Claim.UID))
	}
	slices.Sort(seen)
	for i := range n {
		if why := x.usage.Take(launch, pool); !why.OK() {
			r.Why = why
			return
		}
		launch.Name = fmt.Sprintf("%s-%d", pool.Name, i+1)
		r.Create = append(r.Create, launch)
		r.Names = append(r.Names, inventory.DerivedName(pool.Name, append(slices.Clone(seen), strconv.Itoa(i))...))
	}
}

// surplus chooses the machines to remove: first those that have not started, then those without pods, then those whose pods are cheapest to move,
// then protected ones, and last those that have a part in a replacement. Of each kind it prefers drifted machines, because they would have to be
// replaced. Without this rule, if waiting pods took a drifted machine's replacement, replacements would be started and removed for ever.
func (x *resizer) surplus(hosts []*inventory.Machine, n int) []string {
	type ranked struct {
		h    *inventory.Machine
		tier int
		good int // 0 for those that have drifted
		cost float64
	}
	list := make([]ranked, 0, len(hosts))
	for _, m := range hosts {
		r := ranked{h: m, good: 1}
		if isDrifted(m) {
			r.good = 0
		}
		r.tier, r.cost = x.scaleDownCost(m)
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.good, b.good), cmp.Compare(a.cost, b.cost), kube.CompareNaturally(a.h.Claim.Name, b.h.Claim.Name))
	})
	var out []string
	for _, r := range list[:min(n, len(list))] {
		out = append(out, r.h.Claim.Name)
	}
	return out
}

func (x *resizer) scaleDownCost(m *inventory.Machine) (tier int, cost float64) {
	moving := false
	protected := kube.IsProtected(m.Node)
	for _, p := range m.Bound {
		protected = protected || kube.ProtectionOf(p, x.s.Now).Active
		moving = moving || kube.IsReschedulable(p)
		cost += kube.EvictionCost(p)
	}
	cost *= m.LifetimeLeft(x.s)
	switch {
	case m.Ordered || m.Replaces:
		return 4, cost
	case m.Claim.Status.ProviderID == "":
		return 0, 0
	case protected:
		return 3, cost
	case !moving:
		return 1, 0
	}
	return 2, cost
}

// stampLaunch returns a machine from the pool's template alone: the cheapest offerings that meet its requirements and hold the pods of
// DaemonSets.
func stampLaunch(s *engine.Snapshot, opt engine.Options, pool *v1.NodePool) (engine.Launch, engine.Reason) {
	open := pool.DeepCopy()
	open.Spec.Replicas, open.Spec.Limits, open.Spec.Weight = nil, nil, nil
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "any", "any"
	// The pod requests a little, because a pod without requests would fit on a machine that DaemonSets fill.
	next := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Ki")}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: next}}}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	alone := &engine.Snapshot{
		Now: s.Now, Pods: []*corev1.Pod{pod}, DaemonSets: s.DaemonSets, LimitRanges: s.LimitRanges, RuntimeClasses: s.RuntimeClasses, NodePools: []*v1.NodePool{open},
		Namespaces: s.Namespaces, Classes: s.Classes, NodeOverheadPrice: s.NodeOverheadPrice,
	}
	opt.DefaultConstraints, opt.Profiles = nil, nil
	plan := provisioning.Plan(alone, opt, nil)
	if len(plan.Launches) == 1 {
		launch := plan.Launches[0]
		launch.Pods = nil
		launch.Requests = lessOf(launch.Requests, kube.PodRequests(pod))
		return launch, engine.Reason{}
	}
	if len(plan.Unplaced) == 1 && len(plan.Unplaced[0].Reasons) > 0 {
		return engine.Launch{}, plan.Unplaced[0].Reasons[0]
	}
	return engine.Launch{}, engine.Reason{Code: engine.NoInstanceTypes, NodePool: pool.Name}
}

// lessOf returns the list minus the others, without the resources of which nothing remains.
func lessOf(list, others corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		q = q.DeepCopy()
		q.Sub(others[name])
		if q.Sign() > 0 {
			out[name] = q
		}
	}
	return out
}
