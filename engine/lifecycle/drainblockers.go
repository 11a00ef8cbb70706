package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/kube"
)

// mostHolds is the number of blockers that a message names.
const mostHolds = 3

// drainBlocker is a reason why a drain cannot continue.
type drainBlocker struct{ pod, text string }

// tellDrain reports why a drain waits, on the claim's condition and in events: after tellAfter if there is a blocker, otherwise after
// quietDrain.
func (term *termination) tellDrain(waiting int, tier []*corev1.Pod) {
	since := term.drainingSince()
	age := term.Now.Sub(since)
	if age < tellAfter {
		term.step.by(tellAfter - age)
		return
	}
	var holds []drainBlocker
	for _, p := range tier {
		if text := term.blockerOf(p); text != "" {
			holds = append(holds, drainBlocker{kube.PodID(p).String(), text})
		}
	}
	text := blockerText(holds)
	term.condition(v1.ConditionDrained, metav1.ConditionUnknown, "Draining", text)
	if text == "" {
		if age < quietDrain {
			return
		}
		text = "no pod is protected; they are being evicted or are ending"
	}
	event := engine.Event{Warning: true, Reason: eventDraining, Message: fmt.Sprintf("%s waiting to be evicted: %s", pluralAre(waiting, "pod"), text)}
	if len(holds) > 0 {
		event.Key = holds[0].pod
	}
	for _, n := range term.nodes {
		event.Object = n
		term.step.Events = append(term.step.Events, event)
	}
	if term.claim != nil && len(holds) > 0 {
		event.Object = term.Claim
		term.step.Events = append(term.step.Events, event)
	}
}

func pluralAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return engine.Plural(n, noun) + " are"
}

func (term *termination) drainingSince() time.Time {
	if term.claim != nil {
		return v1.GetCondition(term.claim, v1.ConditionDrained).LastTransitionTime.Time
	}
	return term.nodes[0].DeletionTimestamp.Time
}

func blockerText(holds []drainBlocker) string {
	var texts []string
	for _, h := range holds[:min(len(holds), mostHolds)] {
		texts = append(texts, h.text)
	}
	if len(holds) > mostHolds {
		texts = append(texts, "and more")
	}
	return strings.Join(texts, "; ")
}

// blockerOf describes why the pod is still on its node. It returns "" if nothing blocks its eviction.
func (term *termination) blockerOf(p *corev1.Pod) string {
	name := kube.PodID(p).String()
	protection := kube.ProtectionOf(p, term.Now)
	switch {
	case kube.IsTerminating(p):
		return term.endOf(p)
	case protection.Active && protection.Until.IsZero():
		return fmt.Sprintf("pod %s carries the annotation %s", name, v1.DoNotDisruptAnnotationKey)
	case protection.Active:
		return fmt.Sprintf("pod %s carries the annotation %s until %s", name, v1.DoNotDisruptAnnotationKey, engine.ClockText(protection.Until))
	}
	if term.Now.Sub(term.drainingSince()) >= quietDrain { // most workloads are ready again by then
		if text := term.waitsFor(p); text != "" {
			return text
		}
	}
	var covering []string
	evictable := true
	for _, b := range term.Budgets {
		if budget.Selects(b, p) {
			covering = append(covering, b.Namespace+"/"+b.Name)
			evictable = b.Status.DisruptionsAllowed > 0 || budget.EvictsUnready(b) && !budget.IsReady(p)
		}
	}
	slices.Sort(covering)
	switch {
	case len(covering) > 1:
		return fmt.Sprintf("pod %s is covered by PodDisruptionBudgets %s, and the eviction API refuses pods that more than one covers", name, strings.Join(covering, ", "))
	case len(covering) == 1 && !evictable:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction of pod %s now", covering[0], name)
	}
	return ""
}

// endOf describes the state of a pod that is being deleted.
func (term *termination) endOf(p *corev1.Pod) string {
	name := kube.PodID(p).String()
	switch {
	case p.DeletionTimestamp.After(term.Now):
		return fmt.Sprintf("pod %s is ending and has until %s", name, engine.ClockText(p.DeletionTimestamp.Time))
	case len(p.Finalizers) > 0:
		return fmt.Sprintf("pod %s has ended but is held by finalizers %s", name, strings.Join(p.Finalizers, ", "))
	}
	return fmt.Sprintf("pod %s should have ended at %s", name, engine.ClockText(p.DeletionTimestamp.Time))
}

// tellHeldNodes reports on the claim the nodes that remain without their machine, because finalizers of other programs hold them.
func (term *termination) tellHeldNodes() {
	var texts []string
	for _, n := range term.nodes {
		if n.DeletionTimestamp != nil && !ours(n) && len(n.Finalizers) > 0 {
			texts = append(texts, fmt.Sprintf("Node %s is held by finalizers %s", n.Name, strings.Join(n.Finalizers, ", ")))
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		term.condition(v1.ConditionInstanceTerminating, metav1.ConditionTrue, "", "the machine is gone; "+strings.Join(texts, "; "))
	}
}
