package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const namesInLine = 5 // the most names in a log line

// PodNominated returns an event for a pod: the node or claim where it is expected to run ("node/a" or "nodeclaim/general-x2k9q").
func PodNominated(pod *corev1.Pod, target string) Event {
	return Event{Object: pod, Reason: Nominated, Message: "Pod should schedule on: " + target}
}

// PodPlanned returns an event for a pod: the requested machine; `why` explains the choice of the machine.
func PodPlanned(pod *corev1.Pod, claim, why string) Event {
	e := PodNominated(pod, "nodeclaim/"+claim)
	e.Message += " (" + why + ")"
	return e
}

// PoolWithoutTypes returns an event for a pool: no instance type meets the pool's own requirements.
func PoolWithoutTypes(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{
		Object: pool, Warning: true, Reason: NoCompatibleInstanceTypes, Every: time.Minute,
		Message: "NodePool requirements filtered out all compatible available instance types: " + reason.Message(),
	}
}

// DevicesForgotten returns an event for a pool: the devices of some machines are known only while machines of this kind exist.
func DevicesForgotten(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{Object: pool, Warning: true, Reason: string(reason.Code), Key: reason.Need, Every: time.Hour, Message: reason.Message()}
}

// UnknownLimit returns an event for a pool: one of its limits has no effect.
func UnknownLimit(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{Object: pool, Warning: true, Reason: string(reason.Code), Key: reason.Key, Every: time.Hour, Message: reason.Message()}
}

// LittleMemory returns an event for a pool: pods without a memory request get little memory.
func LittleMemory(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{Object: pool, Warning: true, Reason: string(reason.Code), Key: reason.Key, Every: time.Hour, Message: reason.Message()}
}

// PodsNotTaken returns an event for a claim: its machine cannot run pods that it was started for. The reason for which the pods wait describes the
// next step, and so does a condition of the pool.
func PodsNotTaken(f engine.LaunchFinding) Event {
	return Event{Object: f.Claim, Warning: true, Reason: PodsDidNotFit, Message: fmt.Sprintf("%s (pod %s)", f.Why, f.Pods[0])}
}

// NotBound returns an event for a pod that kube-scheduler does not bind to a node with room for it.
func NotBound(pod *corev1.Pod, reason engine.Reason) Event {
	return Event{Object: pod, Warning: true, Reason: string(reason.Code), Key: reason.Key, Every: 10 * time.Minute, Message: reason.Message()}
}

// PassIsSlow returns an event for the Lease of the leader: one of its loops takes longer than a minute for a pass.
func PassIsSlow(lease *coordinationv1.Lease, loop string) Event {
	return Event{
		Object: lease, Warning: true, Reason: SlowPass, Key: loop,
		Message: "A pass of the loop " + loop + " takes longer than a minute; what is new waits for it",
	}
}

// CommitmentsAreRefused returns an event for the Lease of the leader: the file of commitments is wrong.
func CommitmentsAreRefused(lease *coordinationv1.Lease, err error) Event {
	return Event{Object: lease, Warning: true, Reason: CommitmentsRefused, Key: err.Error(), Message: err.Error()}
}

// PlanLine returns the log line of a plan: its actions and its cost.
func PlanLine(plan *engine.Plan) []any {
	pods := 0
	for _, l := range plan.Launches {
		pods += len(l.Pods)
	}
	line := []any{
		"launches", len(plan.Launches), "pods", pods,
		"on-existing", len(plan.Placements), "unplaced", len(plan.Unplaced),
		"price-per-hour", engine.Dollars(plan.Cost.LaunchesPerHour),
	}
	if plan.Cost.Bound > 0 {
		line = append(line, "above-lower-bound", fmt.Sprintf("%.1f%%", 100*plan.Cost.Gap))
	}
	return line
}

// LaunchLine returns the log line of a claim that was created for a launch: the number of pods, the possible machines, and the reason.
func LaunchLine(claim *v1.NodeClaim, launch engine.Launch) []any {
	line := []any{
		"NodeClaim", claim.Name, "NodePool", launch.NodePool, "pods", len(launch.Pods),
		"instance-types", some(launch.InstanceTypes), "price-per-hour", engine.Dollars(launch.Price),
		"considered", launch.Why.Considered,
	}
	for _, b := range launch.Buffers {
		line = append(line, "room-for-buffer", engine.Plural(b.Pods, "pod")+" of "+b.Namespace+"/"+b.Name)
	}
	for _, b := range launch.ProvisioningRequests {
		line = append(line, "room-for-request", engine.Plural(b.Pods, "pod")+" of "+b.Namespace+"/"+b.Name)
	}
	if launch.Why.RunnerUp != (engine.OfferingID{}) {
		line = append(line, "runner-up", launch.Why.RunnerUp.String(), "runner-up-costs-more", engine.Dollars(launch.Why.PriceDifference))
	}
	if launch.Why.FilledBy != "" {
		line = append(line, "filled", fmt.Sprintf("%.0f%% %s", 100*launch.Why.Filled, launch.Why.FilledBy))
	}
	return line
}

// UnplacedLine returns the log line of pods that nothing can run, with the reasons of the first few. It names the namespaces whose pods
// have more rules than one plan has room for, with the number of rules, the most first.
func UnplacedLine(unplaced []engine.Unplaced) []any {
	var pods []string
	for _, u := range unplaced[:min(len(unplaced), namesInLine)] {
		pods = append(pods, u.Pod.String()+": "+engine.Sentence(u.Reasons))
	}
	line := []any{"count", len(unplaced), "pods", pods}
	if asking := askingTooMuch(unplaced); len(asking) > 0 {
		line = append(line, "namespacesAskingTooMuch", some(asking))
	}
	return line
}

func askingTooMuch(unplaced []engine.Unplaced) []string {
	pods, rules := map[string]int{}, map[string]string{}
	for _, u := range unplaced {
		for _, r := range u.Reasons {
			if r.Code == engine.TooComplex {
				pods[u.Pod.Namespace]++
				rules[u.Pod.Namespace] = r.Have
			}
		}
	}
	out := slices.SortedFunc(maps.Keys(pods), func(a, b string) int { return cmp.Or(cmp.Compare(pods[b], pods[a]), cmp.Compare(a, b)) })
	for i, namespace := range out {
		out[i] = fmt.Sprintf("%s: %d pods, %s rules", namespace, pods[namespace], rules[namespace])
	}
	return out
}

func some(names []string) []string {
	if len(names) <= namesInLine {
		return names
	}
	return append(slices.Clone(names[:namesInLine]), fmt.Sprintf("and %d more", len(names)-namesInLine))
}
