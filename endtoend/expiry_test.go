package endtoend_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// softExpiry lets a node come near its end. When exactly it may be replaced follows from its UID, so nodes are made until
// there is one that leaves time enough.
func softExpiry(w *world) {
	const life, margin = 80 * time.Second, 5 * time.Second
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(life) })
	w.workload(2, "1", nil)
	for {
		soft, _ := kube.SoftExpiry(w.only())
		if w.only().CreationTimestamp.Add(life).Sub(soft) >= margin {
			break
		}
		claim := w.only()
		w.must(w.Delete(w, claim))
		w.goes(claim, time.Minute)
		w.running(2, time.Minute)
		w.quiet(time.Second, time.Minute)
	}
	claims, claim := w.openLedger(), w.only()
	ends := claim.CreationTimestamp.Add(life)
	soft, _ := kube.SoftExpiry(claim)
	w.until(time.Until(soft), func() (bool, string) { // a change of the pool is what makes the controller look just then
		return time.Now().After(soft.Add(-100 * time.Millisecond)), "it is not the time yet"
	})
	weight := int32(1)
	w.until(2*life, func() (bool, string) {
		if claims.of(claim.UID).DeletionTimestamp != nil {
			return true, ""
		}
		weight = weight%100 + 1
		w.changePool(func(p *v1.NodePool) { p.Spec.Weight = &weight })
		return false, "the node does not go"
	})
	was := claims.of(claim.UID)
	mark, marked := inventory.MarkOf(was)
	if !marked || mark.Reason != v1.Expired {
		w.Errorf("the node went at %v (its end: %v, softly from %v) and was not replaced before: %v", was.DeletionTimestamp, ends, soft, was.Annotations)
	}
	if was.DeletionTimestamp.Add(time.Second).Before(soft) {
		w.Errorf("the node went at %v, and could from %v on", was.DeletionTimestamp, soft)
	}
	w.goes(claim, time.Minute)
	w.running(2, time.Minute)
	claims.check(w.TB)
}

// forcefulExpiry lets a node reach its end though its pod may not be disrupted. Its grace period is what the pod gets.
func forcefulExpiry(w *world) {
	const life, grace = 30 * time.Second, 5 * time.Second
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(life)
		p.Spec.Template.Spec.TerminationGracePeriod = durationOf(grace)
	})
	w.workload(1, "1", func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	})
	claims, claim, pod := w.openLedger(), w.only(), w.pods()[0]
	w.goes(claim, 2*time.Minute)
	was := claims.of(claim.UID)
	if age := was.DeletionTimestamp.Sub(was.CreationTimestamp.Time); age < life || age > life+15*time.Second {
		w.Errorf("the node went %v after it came, want %v", age, life)
	}
	w.until(time.Minute, func() (bool, string) {
		pods := w.pods()
		return len(pods) == 1 && pods[0].UID != pod.UID && pods[0].Status.Phase == corev1.PodRunning, fmt.Sprintf("the pod does not run elsewhere: %s", w.waiting(1))
	})
}
