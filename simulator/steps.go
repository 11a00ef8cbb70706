package simulator

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

// stepsAtOnce bounds the steps that a claim takes in one instant.
const stepsAtOnce = 20

// steps takes the steps of claims that package lifecycle decides.
type steps struct {
	cfg       *Config
	agenda    *agenda
	pending   *pending
	timetable *timetable
	markets   *markets
	meter     *meter
	cluster   *cluster
	pods      *pods
	nodes     *nodes
	claims    *claims
	machines  *machines
	due       map[string]time.Time // by claim of a node in use, the time of its next step without a change
}

// take takes the steps of a claim until there is nothing more to do now.
func (x *steps) take(ctx context.Context, name string) {
	life := lifecycle.Life{Fresh: true, Sought: true, Nominating: !x.cfg.Options.NoNominations, Published: x.cluster.devices.published()}
	x.pending.stepping = name
	defer func() { x.pending.stepping = "" }()
	for range stepsAtOnce {
		if !x.read(&life, name) {
			return
		}
		step := lifecycle.Next(life)
		if step.Ask != lifecycle.AskNothing {
			if !x.answer(ctx, name, &life, step.Ask) {
				return
			}
			continue
		}
		more, retry := x.apply(ctx, name, step)
		if !more {
			x.claims.wake(name, retry)
			x.lookAgain(name, step.After)
			return
		}
	}
	x.claims.wake(name, time.Second)
}

// read collects the input for the next step of a claim, or of a node without a claim. It reports false if there is nothing to do.
func (x *steps) read(life *lifecycle.Life, name string) bool {
	life.Now, life.Claim, life.Pool, life.Nodes, life.Pods = x.agenda.now, nil, nil, nil, nil
	claim, ok := x.cluster.claims.get(name)
	var s *seat
	if ok {
		life.Claim, life.Pool = claim, x.cluster.pool(claim.Labels[v1.NodePoolLabelKey])
		s = x.cluster.seatOf(claim)
	} else if s = x.cluster.seats[name]; s == nil || s.node.DeletionTimestamp == nil || x.cluster.claimOf(s) != nil {
		return false
	}
	if s != nil {
		life.Nodes, life.Pods, life.PodLeft = append(life.Nodes, s.node), s.pods(), s.left
		second := x.cluster.seats[s.node.Name+simulated.SecondSuffix]
		if second != nil && second.node.Spec.ProviderID == s.node.Spec.ProviderID {
			life.Nodes, life.Pods = append(life.Nodes, second.node), append(life.Pods, second.pods()...)
		}
	}
	if life.Workloads = nil; life.Claim == nil || life.Claim.DeletionTimestamp != nil {
		life.Workloads = x.workloadsOf(life.Pods)
	}
	return true
}

// answer asks the cloud for the data that a step needs. It reports false if the cloud must be asked again later.
func (x *steps) answer(ctx context.Context, name string, life *lifecycle.Life, ask lifecycle.Ask) bool {
	id := engine.MachineID("")
	if life.Claim != nil {
		id = engine.MachineID(life.Claim.Status.ProviderID)
	} else {
		id = engine.MachineID(life.Nodes[0].Spec.ProviderID)
	}
	m := x.markets.seller(id)
	life.Machine = lifecycle.MachineGone
	if m == nil || id == "" {
		return true
	}
	var err error
	switch ask {
	case lifecycle.AskMachine:
		if _, err = m.provider.Machine(ctx, id); err == nil {
			life.Machine = lifecycle.MachinePresent
		}
	case lifecycle.AskTerminate:
		if err = m.provider.Terminate(ctx, id); err == nil {
			life.Machine = lifecycle.MachineLeaving
			x.machines.stir(m)
		}
	}
	if err == nil || errors.Is(err, provider.ErrGone) {
		return true
	}
	x.claims.wake(name, retryOf(err))
	return false
}

// retryOf returns the time until the next try after an error of the cloud.
func retryOf(err error) time.Duration {
	if throttled := (*provider.ThrottledError)(nil); errors.As(err, &throttled) {
		return max(throttled.RetryAfter, time.Second)
	}
	return 10 * time.Second
}

// apply carries out one step. It reports whether another step may follow at once, and the time until a failed part is tried again.
func (x *steps) apply(ctx context.Context, name string, step lifecycle.Step) (more bool, retry time.Duration) {
	claim, _ := x.cluster.claims.get(name)
	switch {
	case step.Delete != nil:
		x.claims.delete(name, step.Delete.Cause)
		return true, 0
	case step.Launch:
		return x.machines.launch(ctx, claim)
	}
	if step.Nominate != "" {
		if wait := x.siblings(claim); wait > 0 {
			return false, wait
		}
		x.nominate(claim, step.Nominate)
	}
	for _, node := range step.Nodes {
		x.nodes.set(x.cluster.seats[node.Name], node)
	}
	if step.Pool != nil {
		x.cluster.annotatePool(step.Pool.Name, v1.LearnedTaintsAnnotationKey, step.Pool.Annotations[v1.LearnedTaintsAnnotationKey])
	}
	if step.Claim != nil {
		if !v1.IsTrue(claim, v1.ConditionInitialized) && v1.IsTrue(step.Claim, v1.ConditionInitialized) {
			x.planAgainLater() // for pods that do not get their planned places
		}
		x.claims.set(step.Claim)
	}
	for _, name := range step.DeleteNodes {
		x.nodes.delete(x.cluster.seats[name])
	}
	x.withdraw(step.Withdraw)
	retry = x.sendAway(name, step.Evict)
	for _, name := range step.ReleaseNodes {
		x.nodes.release(x.cluster.seats[name])
	}
	if step.Release {
		x.claims.release(name)
		return false, 0
	}
	return step.Nominate != "" || len(step.Nodes) > 0 || step.Claim != nil || len(step.DeleteNodes) > 0 || len(step.ReleaseNodes) > 0, retry
}

// withdraw removes the nominations of pods to these nodes.
func (x *steps) withdraw(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	for _, u := range x.cluster.unbound.list {
		if slices.Contains(nodes, u.pod.Status.NominatedNodeName) {
			x.pods.point(u, "")
		}
	}
}

// siblings returns how long a node that could open still waits for nodes of machines that were launched at about the same time, because
// nodes that open together get the pods that were planned for them.
func (x *steps) siblings(claim *v1.NodeClaim) time.Duration {
	const least, most = 5 * time.Second, 10 * time.Second
	ripe := x.claims.ripeSince(claim.Name)
	patience := min(least+ripe.Sub(claim.CreationTimestamp.Time)/4, most)
	left := ripe.Add(patience).Sub(x.agenda.now)
	if left <= 0 {
		return 0
	}
	coming := slices.ContainsFunc(x.cluster.claims.list, func(c *v1.NodeClaim) bool {
		if c.DeletionTimestamp != nil || c.CreationTimestamp.Sub(claim.CreationTimestamp.Time).Abs() >= most {
			return false
		}
		return !x.claims.isRipe(c.Name) && c.Annotations[kube.PlannedPodsAnnotation] != "" && !v1.IsTrue(c, v1.ConditionInitialized)
	})
	if !coming {
		return 0
	}
	return min(left, time.Second)
}

// nominate nominates the planned pods of a claim to its node.
func (x *steps) nominate(claim *v1.NodeClaim, node string) {
	x.claims.opened(claim.Name)
	for _, uid := range kube.PlannedPods(claim) {
		if u, ok := x.cluster.unbound.get(uid); ok && u.tried {
			x.pods.point(u, node)
		}
	}
	x.planAgainLater()
}

// planAgainLater asks for a plan after openingPatience, if pods need machines then.
func (x *steps) planAgainLater() {
	x.agenda.after(openingPatience, func() {
		if x.cluster.anyUnplanned() || x.cluster.anyToMove() {
			x.timetable.wantMachines()
		}
	})
}

// openingPatience is the time after a node opens in which its pods find their places. Then pods without a node are planned anew.
const openingPatience = 20 * time.Second

// workloadsOf returns the workloads of a leaving node's pods. Baseline has none: it evicts all pods of a node at once, as far as
// PodDisruptionBudgets allow.
func (x *steps) workloadsOf(pods []*corev1.Pod) map[types.UID]*lifecycle.Workload {
	if x.cfg.Policy == Baseline {
		return nil
	}
	out := map[types.UID]*lifecycle.Workload{}
	for _, pod := range pods {
		u, known := x.cluster.units.get(string(pod.UID))
		uid := kube.WorkloadOf(pod)
		if !known || u.load == nil || uid == "" || out[uid] != nil {
			continue
		}
		of := &lifecycle.Workload{Kind: pod.OwnerReferences[0].Kind, Name: pod.OwnerReferences[0].Name, Replicas: u.load.replicas()}
		for _, other := range u.load.units.list {
			if kube.WorkloadOf(other.pod) == uid {
				of.Pods = append(of.Pods, other.pod)
			}
		}
		out[uid] = of
	}
	return out
}

// sendAway carries out the evictions of a step. It returns the time after which refused evictions are tried again.
func (x *steps) sendAway(claim string, evictions []lifecycle.Eviction) (retry time.Duration) {
	for _, e := range evictions {
		u, ok := x.cluster.units.get(string(e.Pod.UID))
		switch {
		case !ok:
		case e.Force:
			x.meter.evicted(x.claims.causeOf(claim))
			x.pods.end(u, time.Duration(e.Grace)*time.Second)
		case !x.pods.evict(u, x.claims.causeOf(claim)):
			retry = 10 * time.Second
		}
	}
	return retry
}

// observe takes the steps in which claims record that pods left, or that nodes have been quiet for long enough, if a decision may depend on these
// records. For pods that are still on a node, the engine knows when they were bound.
func (x *steps) observe(ctx context.Context) {
	for _, name := range x.pending.observed.take() {
		claim, ok := x.cluster.claims.get(name)
		if !ok {
			delete(x.due, name)
			continue
		}
		s, due := x.cluster.seatOf(claim), x.due[name]
		switch {
		case s != nil && s.left.After(claim.Status.LastPodEventTime.Time), v1.IsTrue(claim, v1.ConditionConsolidatable),
			!due.IsZero() && !x.agenda.now.Before(due):
			delete(x.due, name)
			x.take(ctx, name)
		case !due.IsZero():
			x.pending.observed.add(name)
			x.cluster.noteChange()
		}
	}
}

// lookAgain schedules the next look at a claim without a change; 0 means never. A node in use waits until the next disruption pass.
func (x *steps) lookAgain(name string, after time.Duration) {
	claim, ok := x.cluster.claims.get(name)
	if ok && after > 0 && after < time.Hour && claim.DeletionTimestamp == nil && v1.IsTrue(claim, v1.ConditionInitialized) {
		x.due[name] = x.agenda.now.Add(after)
		x.pending.observed.add(name)
		x.cluster.noteChange()
		return
	}
	x.claims.wake(name, after)
}
