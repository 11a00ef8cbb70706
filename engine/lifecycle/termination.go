package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// settle is the least age of a node's taint before the node is treated as drained: kube-scheduler may have chosen the node just before it saw the
// taint. Other autoscalers wait five seconds and trust their cache; Tenon lists the pods from the API server itself after the wait and directly
// before the end of the machine, so the wait only has to outlast the scheduler's watch. Conditions keep whole seconds, so the real wait is between
// half a second and one and a half.
const settle = 1500 * time.Millisecond

// termination is one claim's removal in progress.
type termination struct {
	Life
	claim    *v1.NodeClaim // the claim as it should be; nil if there is none
	nodes    []*corev1.Node
	deadline time.Time // the deadline of the pods, zero for none
	// mayBeAway is the number of further pods of each workload that may be evicted, filled on demand.
	mayBeAway map[types.UID]int
	step      Step
}

// terminate returns the step of a claim, or of a node without one, that is being removed: close the node, evict its pods, wait for the
// detachment of volumes, stop the machine, and only then release the objects.
func terminate(l Life) Step {
	t := &termination{Life: l}
	if l.Claim != nil {
		t.claim = draftOf(l.Claim)
		restamp(t.claim, l.Now)
	}
	t.nodes = nodesInUse(l)
	t.setDeadline()
	t.run()
	if t.step.Ask != AskNothing {
		return Step{Ask: t.step.Ask}
	}
	if t.claim != nil {
		t.step.Claim = changed(l.Claim, t.claim)
	}
	return t.step
}

// nodesInUse returns the nodes on which pods may run. A machine's first node that still has the unregistered taint is left to the cloud
// controller, because Tenon has nothing on it. A later node of the same name has the pods of the earlier one.
func nodesInUse(l Life) []*corev1.Node {
	if l.Claim == nil || kube.HasJoined(l.Claim) {
		return l.Nodes
	}
	var out []*corev1.Node
	for _, n := range l.Nodes {
		if inUse(n) {
			out = append(out, n)
		}
	}
	return out
}

// inUse reports whether pods may run on the node.
func inUse(n *corev1.Node) bool {
	return n.Labels[v1.RegisteredLabelKey] == "true" || !kube.HasTaint(n, v1.UnregisteredTaint())
}

// setDeadline reads the deadline of the pods, or writes it on the claim.
func (term *termination) setDeadline() {
	if term.claim == nil {
		return
	}
	text, ok := term.claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]
	if ok {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			term.tell(term.Claim, true, eventDraining, fmt.Sprintf("annotation %s is %q, which is no RFC 3339 time: draining without a deadline; correct or remove it",
				v1.NodeClaimTerminationTimestampAnnotationKey, text))
			return
		}
		term.deadline = t
		return
	}
	if period := term.claim.Spec.TerminationGracePeriod; period != nil {
		term.deadline = term.claim.DeletionTimestamp.Add(period.Duration)
		term.claim.Annotations = kube.With(term.claim.Annotations, v1.NodeClaimTerminationTimestampAnnotationKey, term.deadline.UTC().Format(time.RFC3339))
		term.tell(term.Claim, true, eventDeadline, term.deadlineMessage())
	}
}

// DrainDeadline returns the deadline to write on a claim that is to be deleted now and whose drain may take `within`. ok is false if within is
// nil, which leaves the time to the claim, or if the claim has an earlier deadline.
func DrainDeadline(claim *v1.NodeClaim, within *time.Duration, now time.Time) (text string, ok bool) {
	if within == nil {
		return "", false
	}
	at := now.Add(*within).UTC()
	said, err := time.Parse(time.RFC3339, claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey])
	return at.Format(time.RFC3339), err != nil || at.Before(said)
}

func (term *termination) deadlineMessage() string {
	return fmt.Sprintf("all pods will be deleted by %s", term.deadline.UTC().Format(time.RFC3339))
}

func (term *termination) run() {
	if !term.terminating() {
		if len(term.nodes) == 0 && term.claim != nil && kube.HasJoined(term.claim) && !term.Sought {
			term.step.Ask = AskNode // pods may run on a node that the cache does not show
			return
		}
		if !term.dropDead() || !term.closeNodes() || !term.drain() || !term.detach() {
			return
		}
	}
	switch term.Machine {
	case MachineUnknown, MachinePresent:
		term.step.Ask = AskTerminate
	case MachineLeaving:
		term.condition(v1.ConditionInstanceTerminating, metav1.ConditionTrue, "", "")
		term.step.by(term.pollMachine())
	case MachineGone:
		term.release()
	}
}

// terminating reports whether the cloud has accepted to stop the machine: then no earlier part of the removal matters.
func (term *termination) terminating() bool {
	return term.claim != nil && v1.IsTrue(term.claim, v1.ConditionInstanceTerminating)
}

// dropDead releases nodes that are not Ready and whose machine is gone, because no kubelet there can end pods or detach volumes. It reports
// whether to continue.
func (term *termination) dropDead() bool {
	dead := 0
	for _, n := range term.nodes {
		if kube.NodeReady(n) || n.DeletionTimestamp == nil {
			continue
		}
		if term.Machine == MachineUnknown {
			term.step.Ask = AskMachine
			return false
		}
		if term.Machine == MachineGone && ours(n) {
			term.step.ReleaseNodes = append(term.step.ReleaseNodes, n.Name)
			dead++
		}
	}
	return dead == 0
}

// closeNodes taints the nodes and then deletes them; our finalizer keeps them. It reports whether all had been closed before.
func (term *termination) closeNodes() bool {
	done := true
	for _, n := range term.nodes {
		closed := closedNode(n)
		if closed != n {
			term.step.Nodes = append(term.step.Nodes, closed)
		}
		if n.DeletionTimestamp == nil {
			term.step.DeleteNodes = append(term.step.DeleteNodes, n.Name)
		}
		if closed != n || n.DeletionTimestamp == nil {
			done = false
			if term.Nominating {
				term.step.Withdraw = append(term.step.Withdraw, n.Name)
			}
			if !term.deadline.IsZero() {
				term.tell(n, true, eventDeadline, term.deadlineMessage())
			}
		}
	}
	if len(term.nodes) > 0 && term.claim != nil && v1.GetCondition(term.claim, v1.ConditionDrained) == nil {
		term.condition(v1.ConditionDrained, metav1.ConditionUnknown, "Draining", "")
		if notice := term.nodes[0].Annotations[v1.NoticeAnnotationKey]; notice != "" {
			term.condition(v1.ConditionDisruptionReason, metav1.ConditionTrue, notice, notice)
		}
	}
	return done
}

// closedNode returns the node as it should be during its removal, n itself if nothing changes.
func closedNode(n *corev1.Node) *corev1.Node {
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == v1.DisruptedTaintKey && t.Effect != corev1.TaintEffectNoSchedule
	})
	tainted := kube.HasTaint(n, v1.DisruptedTaint()) && len(taints) == len(n.Spec.Taints)
	held := ours(n) || n.DeletionTimestamp != nil // finalizers cannot be added once an object is being deleted
	if _, excluded := n.Labels[v1.ExcludeBalancersLabelKey]; tainted && held && excluded {
		return n
	}
	closed := n.DeepCopy()
	if !held {
		closed.Finalizers = append(closed.Finalizers, v1.TerminationFinalizer)
	}
	if !kube.HasTaint(n, v1.DisruptedTaint()) {
		taints = append(taints, v1.DisruptedTaint())
	}
	closed.Spec.Taints = taints
	if _, excluded := n.Labels[v1.ExcludeBalancersLabelKey]; !excluded {
		closed.Labels = kube.With(closed.Labels, v1.ExcludeBalancersLabelKey, v1.ExcludeBalancersValue)
	}
	return closed
}

// pollMachine returns the time until the cloud is asked again whether the machine is gone.
func (term *termination) pollMachine() time.Duration {
	since := term.Now
	if term.claim != nil {
		since = v1.GetCondition(term.claim, v1.ConditionInstanceTerminating).LastTransitionTime.Time
	} else if len(term.nodes) > 0 {
		since = term.nodes[0].DeletionTimestamp.Time
	}
	return min(max(term.Now.Sub(since)/2, time.Second), 5*time.Second)
}

// release releases the nodes, and the claim once they are gone. A node that is not being deleted joined again while its machine was stopping.
func (term *termination) release() {
	for _, n := range term.nodes {
		if n.DeletionTimestamp == nil {
			term.step.DeleteNodes = append(term.step.DeleteNodes, n.Name)
		}
		if ours(n) {
			term.step.ReleaseNodes = append(term.step.ReleaseNodes, n.Name)
		}
	}
	term.tellHeldNodes()
	term.step.Release = term.claim != nil && len(term.nodes) == 0
}

func ours(n *corev1.Node) bool { return slices.Contains(n.Finalizers, v1.TerminationFinalizer) }

// condition sets a condition on the claim, if there is one.
func (term *termination) condition(t string, status metav1.ConditionStatus, reason, message string) {
	if term.claim != nil {
		kube.SetCondition(term.claim, t, status, reason, message, term.Now)
	}
}

func (term *termination) tell(object engine.Object, warning bool, reason, message string) {
	term.step.Events = append(term.step.Events, engine.Event{Object: object, Warning: warning, Reason: reason, Message: message})
}
