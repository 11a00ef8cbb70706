// Package workload draws the clusters for Tenon's measurements: the seven workloads whose bill is compared with the cheapest possible one
// (Cost), the mix of constraints that takes a scheduler longest (Diverse), pods with many preferences (Preference), few pods that may use all
// types (Flexible), and a large cluster that is running (Running). The same arguments, which include a seed, give the same snapshot
// everywhere.
//
// The package only makes snapshots. Package engine plans them, and the benchmarks and tenon bench measure and print. Small random clusters
// with all features come from package scenario.
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

// The names of the only pool and of its node class.
const (
	poolName  = "general"
	className = "default"
)

// now is the time of all snapshots of this package. Pods and nodes are older.
func now() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// newSnapshot returns a cluster with one pool, which may buy the types that its requirements allow.
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

// A shape has the common properties of one workload's pods. They share its maps and slices.
type shape struct {
	labels     map[string]string
	containers []corev1.Container
	affinity   *corev1.Affinity
	spread     []corev1.TopologySpreadConstraint
}

// newShape returns a shape with requests in thousandths of a core, MiB of memory and GPUs.
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

// pod returns a pod of this shape for which kube-scheduler found no node.
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

// selecting returns a selector for one label.
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

// numbered returns a name with a number: web-00042.
func numbered(prefix string, n int) string { return fmt.Sprintf("%s-%05d", prefix, n) }
