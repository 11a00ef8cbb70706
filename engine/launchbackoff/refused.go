package launchbackoff

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// bindPatience is the time for which a pod is expected on a node with room for it. kube-scheduler tries each pod again after at most five
// minutes. So by then it has refused the node twice, for a reason that Tenon does not know.
const bindPatience = 12 * time.Minute

// refused lists, in order, the nodes on which plans have expected the pod for bindPatience without kube-scheduler binding it.
func (j *Judge) refused(pod *corev1.Pod, byName map[string]*inventory.Machine) []string {
	e := j.Snapshot.ExpectedPods[string(pod.UID)]
	out := slices.DeleteFunc(slices.Clone(e.Refused), func(name string) bool { return byName[name] == nil })
	m := byName[e.Node]
	if m == nil || j.Snapshot.Now.Sub(e.Since) < bindPatience || slices.ContainsFunc(m.Bound, kube.IsTerminating) || slices.Contains(out, e.Node) {
		return out
	}
	out = append(out, e.Node)
	slices.Sort(out)
	return out
}

// addRefused lists the refused nodes of each pod. If a machine was started for the pod and refused by kube-scheduler, addRefused reports it by
// calling unfit.
func (j *Judge) addRefused(unfit func(m *inventory.Machine, pod *corev1.Pod, why string)) map[*corev1.Pod][]string {
	if len(j.Snapshot.ExpectedPods) == 0 {
		return nil
	}
	byName, out := map[string]*inventory.Machine{}, map[*corev1.Pod][]string{}
	for _, m := range j.Machines {
		if m.Node != nil && !m.Goes {
			byName[m.Node.Name] = m
		}
	}
	for _, pod := range j.Pods.Unbound {
		if !kube.IsPending(pod) || !j.Options.IsKubeScheduler(pod.Spec.SchedulerName) { // other schedulers may wait for something else
			continue
		}
		nodes := j.refused(pod, byName)
		if len(nodes) == 0 {
			continue
		}
		out[pod] = nodes
		for _, name := range nodes {
			if m := byName[name]; m.Claim != nil && slices.Contains(m.Planned, string(pod.UID)) {
				unfit(m, pod, fmt.Sprintf("machine %s (%s) was started for such a pod, has room for it, and kube-scheduler does not bind it there: %s",
					m.Claim.Name, m.Labels[corev1.LabelInstanceTypeStable], kube.SchedulerWords(pod)))
			}
		}
	}
	return out
}

// Expected sets plan.ExpectedPods, which becomes Snapshot.ExpectedPods of the next plan. It contains the waiting pods that the plan expects on
// existing nodes, and the nodes that kube-scheduler has refused for each pod. Expected adds a note for each pod with refused nodes.
func (j *Judge) Expected(plan *engine.Plan, refused map[*corev1.Pod][]string) {
	on := map[engine.PodID]string{}
	for _, p := range plan.Placements {
		on[p.Pod] = p.Node
	}
	open := map[string]bool{}
	for _, m := range j.Machines {
		open[m.Name()] = m.Node != nil && m.Ready && !m.Node.Spec.Unschedulable && (m.Claim == nil || m.IsInitialized())
	}
	plan.ExpectedPods = map[string]engine.ExpectedPod{}
	for _, pod := range j.Pods.Unbound {
		if !kube.IsPending(pod) || kube.IsBufferPod(pod) {
			continue
		}
		e := engine.ExpectedPod{Refused: refused[pod]}
		if name := on[kube.PodID(pod)]; open[name] {
			e.Node, e.Since = name, j.Snapshot.Now
			if before := j.Snapshot.ExpectedPods[string(pod.UID)]; before.Node == name {
				e.Since = before.Since
			}
		}
		if e.Node != "" || len(e.Refused) > 0 {
			plan.ExpectedPods[string(pod.UID)] = e
		}
		if len(e.Refused) > 0 {
			plan.Notes = append(plan.Notes, engine.Note{Object: "Pod " + kube.PodID(pod).String(), Reason: engine.Reason{
				Code: engine.NotBound, Key: engine.AtMost(e.Refused, 3), Have: kube.SchedulerWords(pod)}.Bounded()})
		}
	}
}
