package endtoend_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// softExpiry lets a node come near its end. The time between the moment from which it may be replaced and its end is a tenth of its life
// at most: on a machine that is too busy to decide within that, a longer life is tried.
func softExpiry(w *world) {
	life := 80 * time.Second
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(life) })
	w.workload(2, "1", nil)
	for !w.replacedBeforeItsEnd(life) {
		if life *= 2; life > 8*time.Minute {
			w.Fatal("no node was replaced before its end")
		}
		before := w.only()
		w.changePool(func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(life) })
		w.anotherFor(before)
	}
}

// anotherFor has the node of a claim replaced by one that is made by the pool as it is now.
func (w *world) anotherFor(claim *v1.NodeClaim) {
	w.Helper()
	w.must(client.IgnoreNotFound(w.Delete(w, claim)))
	w.goes(claim, time.Minute)
	w.running(2, time.Minute)
	w.quiet(time.Second, time.Minute)
}

// replacedBeforeItsEnd reports whether the corner's node, which lives for so long, is replaced before its end. When exactly it may be
// follows from its UID, so nodes are made until there is one that leaves time enough.
func (w *world) replacedBeforeItsEnd(life time.Duration) bool {
	w.Helper()
	for {
		claim := w.only()
		if soft, _ := kube.SoftExpiry(claim); claim.CreationTimestamp.Add(life).Sub(soft) >= life/16 {
			break
		}
		w.anotherFor(claim)
	}
	claims, claim := w.openLedger(), w.only()
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
	if was.DeletionTimestamp.Add(time.Second).Before(soft) {
		w.Errorf("the node went at %v, and could from %v on", was.DeletionTimestamp, soft)
	}
	w.goes(claim, time.Minute)
	w.running(2, time.Minute)
	w.quiet(time.Second, time.Minute)
	// A node that reaches its expireAfter is removed even if its replacement is not ready.
	atItsEnd := !was.DeletionTimestamp.Time.Before(was.CreationTimestamp.Add(life))
	if mark, marked := inventory.MarkOf(was); !marked || mark.Reason != v1.Expired || atItsEnd {
		return false
	}
	claims.check(w.TB)
	return true
}

// forcefulExpiry lets a node reach its end though its pod may not be disrupted. Its grace period is what the pod gets. A busy machine may
// take longer than the node's life to see the pod run, so the first node is looked for in the ledger.
func forcefulExpiry(w *world) {
	const life, grace = 30 * time.Second, 5 * time.Second
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(life)
		p.Spec.Template.Spec.TerminationGracePeriod = durationOf(grace)
	})
	claims := w.openLedger()
	w.workload(1, "1", func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	})
	claim := claims.first(w.TB)
	w.goes(claim, 2*time.Minute)
	was := claims.of(claim.UID)
	if age := was.DeletionTimestamp.Sub(was.CreationTimestamp.Time); age < life || age > life+15*time.Second {
		w.Errorf("the node went %v after it came, want %v", age, life)
	}
	w.until(time.Minute, func() (bool, string) {
		pods := w.pods()
		return len(pods) == 1 && pods[0].Spec.NodeName != was.Status.NodeName && pods[0].Status.Phase == corev1.PodRunning,
			fmt.Sprintf("the pod does not run elsewhere: %s", w.waiting(1))
	})
}
