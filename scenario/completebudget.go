package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"tenon.sh/engine/budget"
	"tenon.sh/engine/kube"
)

// addBudget reads a PodDisruptionBudget. If its status has no counts, they are computed once all pods are read.
func (m *manifest) addBudget(u *unstructured.Unstructured) error {
	if err := decode(m, u, &m.snapshot.PodDisruptionBudgets); err != nil {
		return err
	}
	if status, _, _ := unstructured.NestedMap(u.Object, "status"); isUncounted(status) {
		m.uncounted = append(m.uncounted, m.snapshot.PodDisruptionBudgets[len(m.snapshot.PodDisruptionBudgets)-1])
	}
	return nil
}

// isUncounted reports whether the status is missing, or all zero as in the output of kubectl create --dry-run.
func isUncounted(status map[string]any) bool {
	for _, key := range []string{"currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"} {
		if len(status) > 0 && fmt.Sprint(status[key]) != "0" {
			return false
		}
	}
	return len(status) == 0 || len(status) == 4
}

// completeBudget computes the status like the disruption controller. In a snapshot of a cluster it leaves the status alone: the budget allows
// no eviction until the cluster's controller has written one.
func (m *manifest) completeBudget(b *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || m.catalog != nil {
		return // the engine reports a wrong selector
	}
	status := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation}
	var covered []*corev1.Pod
	for _, p := range m.snapshot.Pods {
		if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		covered = append(covered, p)
		if !kube.IsTerminating(p) && (budget.IsReady(p) || p.Status.Phase == corev1.PodRunning && len(p.Status.Conditions) == 0) {
			status.CurrentHealthy++
		}
	}
	expected, desired, wrong := m.desiredHealthy(b, covered)
	if wrong != "" {
		m.note("PodDisruptionBudget %s/%s: it allows no eviction: %s", b.Namespace, b.Name, wrong)
	} else if expected > 0 {
		status.DisruptionsAllowed = max(0, status.CurrentHealthy-desired)
	}
	status.ExpectedPods, status.DesiredHealthy = expected, desired
	b.Status = status
}

// desiredHealthy returns the number of pods that the budget covers and the number that must stay healthy, or the reason why the disruption
// controller cannot compute them.
func (m *manifest) desiredHealthy(b *policyv1.PodDisruptionBudget, covered []*corev1.Pod) (expected, desired int32, wrong string) {
	atLeast, without := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	if atLeast != nil && atLeast.Type == intstr.Int {
		return int32(len(covered)), atLeast.IntVal, ""
	}
	if atLeast == nil && without == nil {
		return 0, 0, ""
	}
	if expected, wrong = m.wantedBy(b, covered); wrong != "" {
		return expected, expected, wrong
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(cmp.Or(without, atLeast), int(expected), true)
	if err != nil {
		return expected, expected, err.Error()
	}
	if without != nil {
		return expected, max(0, expected-int32(n)), ""
	}
	return expected, int32(n), ""
}

// wantedBy returns the number of pods that the controllers of the covered pods want. Pods without a controller do not count.
func (m *manifest) wantedBy(b *policyv1.PodDisruptionBudget, covered []*corev1.Pod) (wanted int32, wrong string) {
	seen := map[string]bool{}
	for _, p := range covered {
		owner := metav1.GetControllerOfNoCopy(p)
		if owner == nil {
			continue
		}
		switch owner.Kind {
		case "Job", "DaemonSet":
			return 0, fmt.Sprintf("%s belongs to a %s, which has no scale; a budget over such pods needs minAvailable with a number", p.Name, owner.Kind)
		}
		name, replicas, found := m.scaleOf(p, owner)
		if seen[name] {
			continue
		}
		if seen[name] = true; !found {
			m.note("PodDisruptionBudget %s/%s: %s is not in the files: taken to want the pods that are there", b.Namespace, b.Name, name)
			replicas = int32(len(slices.DeleteFunc(slices.Clone(covered), func(o *corev1.Pod) bool {
				return !kube.IsActive(o) || !ownedBy(o.OwnerReferences, *owner)
			})))
		}
		wanted += replicas
	}
	return wanted, ""
}

// scaleOf returns the name of the pod's controller, or of the Deployment of its ReplicaSet, and the number of pods that it wants.
func (m *manifest) scaleOf(p *corev1.Pod, owner *metav1.OwnerReference) (name string, replicas int32, found bool) {
	s, deployment := &m.snapshot, ""
	is := func(o metav1.Object, name string) bool { return o.GetNamespace() == p.Namespace && o.GetName() == name }
	name = fmt.Sprintf("%s %s/%s", owner.Kind, p.Namespace, owner.Name)
	switch owner.Kind {
	case "ReplicaSet":
		deployment, _ = strings.CutSuffix(owner.Name, "-"+p.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
		for _, o := range s.ReplicaSets {
			if !is(o, owner.Name) {
				continue
			}
			by := metav1.GetControllerOfNoCopy(o)
			if by == nil || by.Kind != "Deployment" {
				return name, ptr.Deref(o.Spec.Replicas, 1), true
			}
			deployment = by.Name
		}
		for _, o := range s.Deployments {
			if is(o, deployment) {
				return "Deployment " + p.Namespace + "/" + deployment, ptr.Deref(o.Spec.Replicas, 1), true
			}
		}
	case "StatefulSet":
		for _, o := range s.StatefulSets {
			if is(o, owner.Name) {
				return name, ptr.Deref(o.Spec.Replicas, 1), true
			}
		}
	case "ReplicationController":
		for _, o := range s.ReplicationControllers {
			if is(o, owner.Name) {
				return name, ptr.Deref(o.Spec.Replicas, 1), true
			}
		}
	}
	return name, 0, false
}
