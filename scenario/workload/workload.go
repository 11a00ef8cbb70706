// Package workload draws the clusters that Tenon is measured with: the seven workloads whose bill is compared with the
// cheapest possible one (Cost), the mix of constraints that takes a scheduler longest (Diverse), pods full of wishes
// (Preference), few pods that may use every type there is (Flexible), and a large cluster that runs already (Running). A seed decides everything: the same arguments give the
// same snapshot everywhere.
//
// It only makes snapshots. Planning them is left to package engine, measuring and printing to the benchmarks and to
// tenon bench; small random clusters that try every feature come from package scenario.
package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// The names of the one pool and of its node class.
const (
	poolName  = "general"
	className = "default"
)

// now is the instant of every snapshot of this package; pods and nodes have been there for a while.
func now() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// newSnapshot is a cluster with one pool, which may start machines of the types as far as the requirements allow.
func newSnapshot(kinds []engine.InstanceType, requirements []v1.Requirement) *engine.Snapshot {
	ref := v1.NodeClassReference{Group: kwokv1alpha1.GroupVersion.Group, Kind: "KWOKNodeClass", Name: className}
	nodes := int64(0)
	pool := &v1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "NodePool"},
		ObjectMeta: meta("", poolName, "pool-"+poolName),
	}
	pool.Generation = 1
	pool.Status.Nodes = &nodes
	pool.Spec.Template.Spec.NodeClassRef = &ref
	pool.Spec.Template.Spec.Requirements = append([]v1.Requirement{}, requirements...)
	pool.Spec.Template.Spec.ExpireAfter = v1.DurationOf(720 * time.Hour)
	pool.Spec.Disruption = v1.Disruption{
		ConsolidateAfter:    v1.DurationOf(0),
		ConsolidationPolicy: v1.WhenEmptyOrUnderutilized,
		Budgets:             []v1.Budget{{Nodes: "10%"}},
	}
	v1.SetCondition(pool, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", now())
	v1.SetCondition(pool, v1.ConditionNodeClassReady, metav1.ConditionTrue, "", "", now())
	return &engine.Snapshot{
		Now:       now(),
		NodePools: []*v1.NodePool{pool},
		Classes:   []engine.Class{{Ref: ref, InstanceTypes: kinds}},
	}
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(now().Add(-time.Hour)),
	}
}

// A shape is what all pods of one workload have in common. Its maps and slices are shared by all of them.
type shape struct {
	labels     map[string]string
	containers []corev1.Container
	affinity   *corev1.Affinity
	spread     []corev1.TopologySpreadConstraint
}

// newShape asks for thousandths of a core, MiB of memory and GPUs.
func newShape(labels map[string]string, milliCPU, mebibytes, gpus int64) shape {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mebibytes<<20, resource.BinarySI),
	}
	var limits corev1.ResourceList
	if gpus > 0 {
		q := *resource.NewQuantity(gpus, resource.DecimalSI)
		requests[gpuResource], limits = q, corev1.ResourceList{gpuResource: q}
	}
	return shape{labels: labels, containers: []corev1.Container{{
		Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
	}}}
}

// pod is a pod of this shape that kube-scheduler found no node for.
func (s shape) pod(name, uid string) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta(metav1.NamespaceDefault, name, uid),
		Spec:       corev1.PodSpec{Containers: s.containers, Affinity: s.affinity, TopologySpreadConstraints: s.spread},
	}
	pod.Labels = s.labels
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: pod.CreationTimestamp,
	}}
	return pod
}

// selecting is a selector for one label.
func selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func spreadOver(topologyKey string, skew int32, selector *metav1.LabelSelector) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: skew, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
	}}
}

func apartOn(topologyKey string, selector *metav1.LabelSelector) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: topologyKey}},
	}}
}

// numbered is the name of one of many: web-00042.
func numbered(prefix string, n int) string { return fmt.Sprintf("%s-%05d", prefix, n) }
