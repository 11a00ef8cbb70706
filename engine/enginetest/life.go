// Package enginetest builds the objects from which tests of the engine start, and chooses the number of their random inputs. It imports no package
// above engine, so that all packages of the engine may use it. Package scenario/scenariotest reads the notation of scenarios.
package enginetest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// What the tests of one claim's life start from; every test changes what its rule is about.

var LifeStart = time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)

func LifeClaim(change ...func(*v1.NodeClaim)) *v1.NodeClaim {
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "general-1", UID: "claim-uid", Generation: 1, CreationTimestamp: metav1.NewTime(LifeStart),
			Finalizers: []string{v1.TerminationFinalizer},
			Labels:     map[string]string{v1.NodePoolLabelKey: "general", "karpenter.kwok.sh/kwoknodeclass": "default", "team": "a"},
		},
		Spec: v1.NodeClaimSpec{
			NodeClassRef:  &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
			Taints:        []v1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints: []v1.Taint{{Key: "booting", Effect: corev1.TaintEffectNoExecute}},
			Resources:     v1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		},
	}
	v1.InitializeConditions(claim, LifeStart)
	for _, f := range change {
		f(claim)
	}
	return claim
}

func LifeLaunched(c *v1.NodeClaim) {
	c.Labels["zone"] = "a"
	c.Status.ProviderID, c.Status.ImageID = "sim://1", "image-1"
	c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4")}
	LifeTrue(v1.ConditionLaunched)(c)
	v1.SetCondition(c, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", "the machine has not joined the cluster yet", LifeStart)
}

func LifeTrue(conditions ...string) func(*v1.NodeClaim) {
	return func(c *v1.NodeClaim) {
		for _, t := range conditions {
			v1.SetCondition(c, t, metav1.ConditionTrue, "", "", LifeStart)
		}
	}
}

func LifeRunning(c *v1.NodeClaim) {
	LifeLaunched(c)
	LifeTrue(v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionConsistentStateFound)(c)
	c.Status.NodeName = "node-1"
}

func LifeDeleted(c *v1.NodeClaim) {
	at := metav1.NewTime(LifeStart)
	c.DeletionTimestamp = &at
}

// LifeNode is a node that has just joined.
func LifeNode(change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid", Labels: map[string]string{"kubernetes.io/hostname": "node-1", "zone": "z"}},
		Spec:       corev1.NodeSpec{ProviderID: "sim://1", Taints: []corev1.Taint{v1.UnregisteredTaint()}},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"cpu": resource.MustParse("4")},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

func LifeNotReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }

func LifeOpen(n *corev1.Node) {
	n.Finalizers = []string{v1.TerminationFinalizer}
	n.Labels[v1.RegisteredLabelKey] = "true"
	n.Labels["karpenter.kwok.sh/kwoknodeclass"] = "default"
	n.Spec.Taints = nil
}

func LifePod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(LifeStart.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "node-1", TerminationGracePeriodSeconds: &grace},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func LifePool(consolidateAfter time.Duration) *v1.NodePool {
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Disruption.ConsolidateAfter = v1.DurationOf(consolidateAfter)
	return pool
}

func ConditionText(claim *v1.NodeClaim, t string) string {
	c := v1.GetCondition(claim, t)
	if c == nil {
		return "absent"
	}
	if c.Status == metav1.ConditionTrue && c.Reason == t {
		return "True"
	}
	return string(c.Status) + " " + c.Reason
}

func LifePlanned(c *v1.NodeClaim) {
	c.Annotations = map[string]string{v1.PlannedPodsAnnotationKey: "uid-1,uid-2"}
}
