package clusterautoscaler_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What Cluster Autoscaler writes.
const (
	removalTaint   = "ToBeDeletedByClusterAutoscaler"
	candidateTaint = "DeletionCandidateOfClusterAutoscaler"
	keepAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	groupLabel = "eks.amazonaws.com/nodegroup"
)

// group is a node group of the stand-in for Cluster Autoscaler. It acts when the test says so, in the order in which that acts.
type group struct {
	*world
	name    string
	serves  string // the label app of its pods
	labels  map[string]string
	taint   *corev1.Taint
	has     corev1.ResourceList
	most    int // nodes
	started int // nodes so far, for their names
	due     int // nodes that are asked for and do not run yet
}

// look is one scan: it says of pods that wait and that the group is for that it grows, as long as it may. It returns these pods.
func (g *group) look() (served []string) {
	g.Helper()
	free := (g.most - len(g.nodes()) - g.due) * g.holds()
	var pods corev1.PodList
	g.must(g.List(g, &pods, client.InNamespace("default"), client.MatchingLabels{"app": g.serves}))
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || !unschedulable(pod) || len(served) >= free {
			continue
		}
		g.say(pod)
		served = append(served, pod.Name)
	}
	g.due += (len(served) + g.holds() - 1) / g.holds()
	return served
}

// holds is how many pods a node takes.
func (g *group) holds() int {
	if _, device := g.has["nvidia.com/gpu"]; device {
		return 1
	}
	return 2
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// say writes the event by which the group's growing is known.
func (g *group) say(pod *corev1.Pod) {
	now := metav1.Now()
	g.must(g.Create(g, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + ".scaleup." + strconv.FormatInt(now.UnixNano(), 16)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:         "TriggeredScaleUp", Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "cluster-autoscaler"},
		Message:        fmt.Sprintf("pod triggered scale-up: [{%s %d->%d (max: %d)}]", g.name, len(g.nodes()), len(g.nodes())+1, g.most),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}))
}

// boot has the nodes join that were asked for.
func (g *group) boot() {
	g.Helper()
	for ; g.due > 0; g.due-- {
		g.started++
		name := fmt.Sprintf("%s-%d", g.name, g.started)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", keepAnnotation: "false"}, Labels: map[string]string{
				groupLabel: g.name, corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: "m5.xlarge", corev1.LabelTopologyZone: "us-east-1a",
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			}},
			Spec:   corev1.NodeSpec{ProviderID: "group:///" + name},
			Status: corev1.NodeStatus{Capacity: g.has, Allocatable: g.has},
		}
		for key, value := range g.labels {
			node.Labels[key] = value
		}
		if g.taint != nil {
			node.Spec.Taints = []corev1.Taint{*g.taint}
		}
		g.must(g.Create(g, node))
	}
}

// nodes are the group's, by name.
func (g *group) nodes() []corev1.Node {
	var list corev1.NodeList
	g.must(g.List(g, &list, client.MatchingLabels{groupLabel: g.name}))
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// mark puts a taint on the node, with the time that it carries as its value.
func (g *group) mark(node, taint string, at time.Time) {
	effect := corev1.TaintEffectNoSchedule
	if taint == candidateTaint {
		effect = corev1.TaintEffectPreferNoSchedule
	}
	g.change(node, func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint, Value: strconv.FormatInt(at.Unix(), 10), Effect: effect})
	})
}

// unmark takes its taints off, as it does with all nodes when it is started.
func (g *group) unmark(node string) {
	g.change(node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == removalTaint || t.Key == candidateTaint })
	})
}

func (g *group) change(name string, change func(*corev1.Node)) {
	g.Helper()
	node := &corev1.Node{}
	g.must(g.Get(g, client.ObjectKey{Name: name}, node))
	before := node.DeepCopy()
	change(node)
	g.must(g.Patch(g, node, client.MergeFrom(before)))
}

// remove drains the node and removes it.
func (g *group) remove(node string) {
	g.Helper()
	g.mark(node, removalTaint, time.Now())
	for _, pod := range g.podsOn(node) {
		g.must(client.IgnoreNotFound(g.SubResource("eviction").Create(g, &pod, &policyv1.Eviction{})))
	}
	g.until(time.Minute, func() (bool, string) {
		n := len(g.podsOn(node))
		return n == 0, fmt.Sprintf("%d pods are left on %s", n, node)
	})
	g.must(g.Delete(g, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
}

func (g *group) podsOn(node string) (out []corev1.Pod) {
	var pods corev1.PodList
	g.must(g.List(g, &pods, client.InNamespace("default")))
	for _, p := range pods.Items {
		if p.Spec.NodeName == node {
			out = append(out, p)
		}
	}
	return out
}

func size(cpu, memory string, more ...string) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("58")}
	for _, name := range more {
		out[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	return out
}
