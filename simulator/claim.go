package simulator

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

// stepsAtOnce bounds the steps that a claim takes in one instant.
const stepsAtOnce = 20

// stepClaim takes the steps of a claim until there is nothing more to do now.
func (w *World) stepClaim(ctx context.Context, name string) {
	life := lifecycle.Life{Fresh: true, Sought: true, Nominating: !w.cfg.Options.NoNominations, Published: w.cluster.devices.published()}
	w.pending.stepping = name
	defer func() { w.pending.stepping = "" }()
	for range stepsAtOnce {
		if !w.read(&life, name) {
			return
		}
		step := lifecycle.Next(life)
		if step.Ask != lifecycle.AskNothing {
			if !w.answer(ctx, name, &life, step.Ask) {
				return
			}
			continue
		}
		more, retry := w.apply(ctx, name, step)
		if !more {
			w.claims.wake(name, retry)
			w.lookAgain(name, step.After)
			return
		}
	}
	w.claims.wake(name, time.Second)
}

// read collects the input for the next step of a claim, or of a node without a claim. It reports false if there is nothing to do.
func (w *World) read(life *lifecycle.Life, name string) bool {
	life.Now, life.Claim, life.Pool, life.Nodes, life.Pods = w.agenda.now, nil, nil, nil, nil
	claim, ok := w.cluster.claims.get(name)
	var s *seat
	if ok {
		life.Claim, life.Pool = claim, w.cluster.pool(claim.Labels[v1.NodePoolLabelKey])
		s = w.cluster.seatOf(claim)
	} else if s = w.cluster.seats[name]; s == nil || s.node.DeletionTimestamp == nil || w.cluster.claimOf(s) != nil {
		return false
	}
	if s != nil {
		life.Nodes, life.Pods, life.PodLeft = append(life.Nodes, s.node), s.pods(), s.left
		second := w.cluster.seats[s.node.Name+simulated.SecondSuffix]
		if second != nil && second.node.Spec.ProviderID == s.node.Spec.ProviderID {
			life.Nodes, life.Pods = append(life.Nodes, second.node), append(life.Pods, second.pods()...)
		}
	}
	if life.Workloads = nil; life.Claim == nil || life.Claim.DeletionTimestamp != nil {
		life.Workloads = w.workloadsOf(life.Pods)
	}
	return true
}

// answer asks the cloud for the data that a step needs. It reports false if the cloud must be asked again later.
func (w *World) answer(ctx context.Context, name string, life *lifecycle.Life, ask lifecycle.Ask) bool {
	id := engine.MachineID("")
	if life.Claim != nil {
		id = engine.MachineID(life.Claim.Status.ProviderID)
	} else {
		id = engine.MachineID(life.Nodes[0].Spec.ProviderID)
	}
	m := w.markets.seller(id)
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
			w.machines.stir(m)
		}
	}
	if err == nil || errors.Is(err, provider.ErrGone) {
		return true
	}
	w.claims.wake(name, retryOf(err))
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
func (w *World) apply(ctx context.Context, name string, step lifecycle.Step) (more bool, retry time.Duration) {
	claim, _ := w.cluster.claims.get(name)
	switch {
	case step.Delete != nil:
		w.claims.delete(name, step.Delete.Cause)
		return true, 0
	case step.Launch:
		return w.machines.launch(ctx, claim)
	}
	if step.Nominate != "" {
		if wait := w.siblings(claim); wait > 0 {
			return false, wait
		}
		w.nominate(claim, step.Nominate)
	}
	for _, node := range step.Nodes {
		w.nodes.set(w.cluster.seats[node.Name], node)
	}
	if step.Pool != nil {
		w.cluster.annotatePool(step.Pool.Name, v1.LearnedTaintsAnnotationKey, step.Pool.Annotations[v1.LearnedTaintsAnnotationKey])
	}
	if step.Claim != nil {
		if !v1.IsTrue(claim, v1.ConditionInitialized) && v1.IsTrue(step.Claim, v1.ConditionInitialized) {
			w.planAgainLater() // for pods that do not get their planned places
		}
		w.claims.set(step.Claim)
	}
	for _, name := range step.DeleteNodes {
		w.nodes.delete(w.cluster.seats[name])
	}
	if len(step.Withdraw) > 0 {
		for _, u := range w.cluster.unbound.list {
			if slices.Contains(step.Withdraw, u.pod.Status.NominatedNodeName) {
				w.pods.point(u, "")
			}
		}
	}
	retry = w.sendAway(name, step.Evict)
	for _, name := range step.ReleaseNodes {
		w.nodes.release(w.cluster.seats[name])
	}
	if step.Release {
		claim, _ = w.cluster.claims.get(name)
		gone := claim.DeepCopy()
		gone.Finalizers = slices.DeleteFunc(gone.Finalizers, func(f string) bool { return f == v1.TerminationFinalizer })
		w.claims.set(gone)
		return false, 0
	}
	return step.Nominate != "" || len(step.Nodes) > 0 || step.Claim != nil || len(step.DeleteNodes) > 0 || len(step.ReleaseNodes) > 0, retry
}

// siblings returns how long a node that could open still waits for nodes of machines that were launched at about the same time, because
// nodes that open together get the pods that were planned for them.
func (w *World) siblings(claim *v1.NodeClaim) time.Duration {
	const least, most = 5 * time.Second, 10 * time.Second
	ripe, known := w.claims.ripe[claim.Name]
	if !known {
		ripe = w.agenda.now
		w.claims.ripe[claim.Name] = ripe
	}
	patience := min(least+ripe.Sub(claim.CreationTimestamp.Time)/4, most)
	left := ripe.Add(patience).Sub(w.agenda.now)
	if left <= 0 {
		return 0
	}
	coming := slices.ContainsFunc(w.cluster.claims.list, func(c *v1.NodeClaim) bool {
		if c.DeletionTimestamp != nil || c.CreationTimestamp.Sub(claim.CreationTimestamp.Time).Abs() >= most {
			return false
		}
		_, too := w.claims.ripe[c.Name]
		return !too && c.Annotations[kube.PlannedPodsAnnotation] != "" && !v1.IsTrue(c, v1.ConditionInitialized)
	})
	if !coming {
		return 0
	}
	return min(left, time.Second)
}

// nominate nominates the planned pods of a claim to its node.
func (w *World) nominate(claim *v1.NodeClaim, node string) {
	delete(w.claims.ripe, claim.Name)
	for _, uid := range kube.PlannedPods(claim) {
		if u, ok := w.cluster.unbound.get(uid); ok && u.tried {
			w.pods.point(u, node)
		}
	}
	w.planAgainLater()
}

// planAgainLater asks for a plan after openingPatience, if pods need machines then.
func (w *World) planAgainLater() {
	w.agenda.after(openingPatience, func() {
		if w.cluster.anyUnplanned() || w.cluster.anyToMove() {
			w.timetable.wantMachines()
		}
	})
}

// openingPatience is the time after a node opens in which its pods find their places. Then pods without a node are planned anew.
const openingPatience = 20 * time.Second
