package explore

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// workloads are the controllers of ReplicaSets, StatefulSets and DaemonSets.
func workloads(w *world, add func(action)) {
	pods := map[types.UID][]*corev1.Pod{}
	for _, pod := range all[*corev1.Pod](w.api) {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			pods[owner.UID] = append(pods[owner.UID], pod)
		}
	}
	for _, rs := range all[*appsv1.ReplicaSet](w.api) {
		alive := slices.DeleteFunc(slices.Clone(pods[rs.UID]), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		switch want := int(*rs.Spec.Replicas); {
		case len(alive) < want:
			add(action{kind: "workload", name: "adds a pod of ", object: rs.Name, weight: 6, do: func() { w.newPod(rs, "ReplicaSet", "", rs.Spec.Template, "") }})
		case len(alive) > want:
			add(action{kind: "workload", name: "removes a pod of ", object: rs.Name, weight: 6, do: func() { w.deletePod(alive[w.draw(len(alive))]) }})
		}
	}
	for _, sts := range all[*appsv1.StatefulSet](w.api) {
		for i := range int(*sts.Spec.Replicas) {
			name := fmt.Sprintf("%s-%d", sts.Name, i)
			if find[*corev1.Pod](w.api, "default/"+name) == nil {
				add(action{kind: "workload", name: "adds ", object: name, weight: 6, do: func() { w.newPod(sts, "StatefulSet", name, sts.Spec.Template, "") }})
			}
		}
	}
	for _, ds := range all[*appsv1.DaemonSet](w.api) {
		daemons(w, ds, pods[ds.UID], add)
	}
}

// daemons keeps one pod on each node that takes it.
func daemons(w *world, ds *appsv1.DaemonSet, pods []*corev1.Pod, add func(action)) {
	for _, node := range all[*corev1.Node](w.api) {
		taken := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key != corev1.TaintNodeNotReady })
		there := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node.Name })
		if !taken && !there && node.DeletionTimestamp == nil && holds(w.api, node, &corev1.Pod{Spec: ds.Spec.Template.Spec}) {
			add(action{kind: "workload", name: "adds a pod of " + ds.Name + " on " + node.Name, weight: 6, do: func() { w.newPod(ds, "DaemonSet", "", ds.Spec.Template, node.Name) }})
		}
	}
}

// newPod creates a pod for an owner.
func (w *world) newPod(owner client.Object, kind, name string, t corev1.PodTemplateSpec, node string) {
	yes := true
	pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.GenerateName = "default", name, owner.GetName()+"-"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
	pod.Status.Phase = corev1.PodPending
	pod.Spec.NodeName = node
	if node != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: w.api.now()}}
	}
	stored, err := w.api.create(pod)
	if err == nil && node != "" {
		w.kube.bound[stored.GetUID()] = w.api.version
	}
}

func (w *world) deletePod(pod *corev1.Pod) {
	_ = w.api.remove(w.api.shelfOf(pod), keyOf(pod), deletion{uid: pod.UID})
}

// budgets is the controller of PodDisruptionBudgets.
func budgets(w *world, add func(action)) {
	for _, b := range all[*policyv1.PodDisruptionBudget](w.api) {
		want := w.allowed(b)
		if b.Status.DisruptionsAllowed == want && b.Status.ObservedGeneration == b.Generation {
			continue
		}
		add(action{kind: "budget", name: b.Name, weight: 4, do: func() {
			update(w.api, b, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = want, b.Generation
			})
		}})
	}
}

// allowed returns the number of evictions that a budget allows now.
func (w *world) allowed(b *policyv1.PodDisruptionBudget) int32 {
	expected, healthy := 0, 0
	for _, pod := range w.covered(b) {
		expected++
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			healthy++
		}
	}
	return max(0, int32(healthy-(expected-b.Spec.MaxUnavailable.IntValue())))
}

// covered lists the pods of a budget.
func (w *world) covered(b *policyv1.PodDisruptionBudget) []*corev1.Pod {
	selector := w.kube.selectors[b.UID]
	if selector == nil {
		selector, _ = metav1.LabelSelectorAsSelector(b.Spec.Selector)
		w.kube.selectors[b.UID] = selector
	}
	return slices.DeleteFunc(slices.Clone(all[*corev1.Pod](w.api)), func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
}

func evictionOf(body client.Object) *metav1.DeleteOptions {
	if e, ok := body.(*policyv1.Eviction); ok {
		return e.DeleteOptions
	}
	return nil
}

// evict simulates the eviction API.
func (w *world) evict(key string, uid types.UID) error {
	pod := find[*corev1.Pod](w.api, key)
	if pod == nil {
		return w.api.shelfOf(pod).notFound(key)
	}
	if uid != "" && uid != pod.UID {
		return w.api.shelfOf(pod).conflict(key, "the UID in the precondition is another one")
	}
	w.laws.evicting(w.actor, pod)
	var covering []*policyv1.PodDisruptionBudget
	for _, b := range all[*policyv1.PodDisruptionBudget](w.api) {
		if slices.Contains(w.covered(b), pod) {
			covering = append(covering, b)
		}
	}
	switch {
	case len(covering) > 1:
		return apierrors.NewInternalError(fmt.Errorf("pod %s has more than one PodDisruptionBudget, which the eviction subresource does not support", pod.Name))
	case len(covering) == 1 && covering[0].Status.DisruptionsAllowed <= 0 && pod.Status.Phase == corev1.PodRunning:
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	case len(covering) == 1 && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
		update(w.api, covering[0], func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed-- })
	}
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		w.laws.evicted(pod)
	}
	return w.api.remove(w.api.shelfOf(pod), key, deletion{uid: uid})
}

// garbage is the garbage collector: it deletes objects whose owner is gone.
func garbage(w *world, add func(action)) {
	for _, claim := range all[*v1.NodeClaim](w.api) {
		for _, o := range claim.OwnerReferences {
			if pool := find[*v1.NodePool](w.api, "/"+o.Name); o.Kind == "NodePool" && claim.DeletionTimestamp == nil && (pool == nil || pool.UID != o.UID) {
				add(action{kind: "garbage collector", name: keyOf(claim), weight: 3, do: func() { _ = w.api.remove(w.api.shelfOf(claim), keyOf(claim), deletion{uid: claim.UID}) }})
			}
		}
	}
	for _, node := range all[*corev1.Node](w.api) {
		for _, o := range node.OwnerReferences {
			if claim := find[*v1.NodeClaim](w.api, "/"+o.Name); o.Kind == "NodeClaim" && node.DeletionTimestamp == nil && (claim == nil || claim.UID != o.UID) {
				add(action{kind: "garbage collector", name: keyOf(node), weight: 3, do: func() { _ = w.api.remove(w.api.shelfOf(node), keyOf(node), deletion{uid: node.UID}) }})
			}
		}
	}
	for _, csi := range all[*storagev1.CSINode](w.api) {
		if node := find[*corev1.Node](w.api, "/"+csi.Name); node == nil || node.UID != csi.OwnerReferences[0].UID {
			add(action{kind: "garbage collector", name: "volumes of ", object: csi.Name, weight: 3, do: func() { _ = w.api.remove(w.api.shelfOf(csi), keyOf(csi), deletion{uid: csi.UID}) }})
		}
	}
	for _, pod := range all[*corev1.Pod](w.api) {
		if pod.Spec.NodeName == "" || find[*corev1.Node](w.api, "/"+pod.Spec.NodeName) != nil {
			continue
		}
		add(action{kind: "pod collector", name: keyOf(pod), weight: 3, at: w.kube.nodeGone[pod.Spec.NodeName].Add(40 * time.Second), do: func() {
			zero := int64(0)
			_ = w.api.remove(w.api.shelfOf(pod), keyOf(pod), deletion{uid: pod.UID, grace: &zero})
		}})
	}
}
