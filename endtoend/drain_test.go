package endtoend_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

func durationOf(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// blockedDrain deletes the claim of a node whose pods a PodDisruptionBudget holds.
func blockedDrain(w *world) {
	w.cornerPool(nil)
	w.workload(2, "1", nil)
	w.budget(0)
	claim, pod := w.only(), w.pods()[0].Name
	if other := w.pods()[1].Name; other < pod {
		pod = other
	}
	w.must(w.Delete(w, claim))
	names := []string{metav1.NamespaceDefault + "/" + pod, metav1.NamespaceDefault + "/" + w.corner}
	w.until(time.Minute, func() (bool, string) {
		c := v1.GetCondition(w.only(), v1.ConditionDrained)
		return c != nil && strings.Contains(c.Message, names[0]) && strings.Contains(c.Message, names[1]), fmt.Sprintf("the claim says %+v, want %q", c, names)
	})
	w.event(time.Minute, claim.Name, "FailedDraining", names...)
	w.event(time.Minute, claim.Status.NodeName, "FailedDraining", names...)
	for _, p := range w.pods() {
		if p.DeletionTimestamp != nil || p.Spec.NodeName != claim.Status.NodeName && p.Spec.NodeName != "" {
			w.Errorf("pod %s left its node against the budget", p.Name)
		}
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: inDefault(w.corner)}
	w.must(w.Get(w, client.ObjectKeyFromObject(b), b))
	before := client.MergeFrom(b.DeepCopy())
	one := intstr.FromInt(1)
	b.Spec.MaxUnavailable = &one
	pods := w.watchPods(w.corner)
	w.must(w.Patch(w, b, before))
	w.goes(claim, time.Minute)
	w.running(2, time.Minute)
	w.quiet(time.Second, time.Minute)
	w.whole()
	pods.atLeast(w.TB, 1)
}

// terminationGracePeriod deletes the claim of a node whose pod a PodDisruptionBudget holds for good.
func terminationGracePeriod(w *world) {
	const grace = 12 * time.Second
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Template.Spec.TerminationGracePeriod = durationOf(grace) })
	w.workload(1, "1", nil)
	w.budget(0)
	claims, claim, pods := w.openLedger(), w.only(), w.watchPods(w.corner)
	w.must(w.Delete(w, claim))
	w.until(time.Minute, func() (bool, string) {
		return claims.of(claim.UID).DeletionTimestamp != nil, "the claim is not being deleted"
	})
	ends := claims.of(claim.UID).DeletionTimestamp.Add(grace)
	w.until(time.Minute, func() (bool, string) {
		if time.Until(ends) < 2*time.Second {
			return true, ""
		}
		pods.atLeast(w.TB, 1)
		return false, "the period is not over yet"
	})
	w.goes(claim, time.Until(ends)+20*time.Second)
	w.running(1, time.Minute)
	w.quiet(time.Second, time.Minute)
	w.whole()
}

// doNotDisrupt lets a node drift whose pod may not be disrupted.
func doNotDisrupt(w *world) {
	w.cornerPool(nil)
	w.workload(1, "1", nil)
	pod := &w.pods()[0]
	w.annotate(pod, v1.DoNotDisruptAnnotationKey, "true")
	claims, claim := w.openLedger(), w.only()
	w.drift("two")
	w.event(time.Minute, claim.Name, "DisruptionBlocked", pod.Name)
	w.quiet(12*time.Second, time.Minute) // more than the longest time between two looks
	if w.only().UID != claim.UID {
		w.Fatal("the node did not stay")
	}
	w.annotate(pod, v1.DoNotDisruptAnnotationKey, "")
	w.goes(claim, time.Minute)
	w.running(1, time.Minute)
	w.quiet(time.Second, time.Minute)
	w.whole()
	claims.check(w.TB)
}

// annotate sets an annotation of a pod, or removes it if the value is empty.
func (w *world) annotate(pod *corev1.Pod, key, value string) {
	w.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	delete(pod.Annotations, key)
	if value != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	w.must(w.Patch(w, pod, before))
}
