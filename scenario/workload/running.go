package workload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Running returns the snapshot s with further nodes of its pool and running pods. It does not change s. The nodes have up to 40 of the pool's
// types with 4 to 32 cores, in all zones, and have been initialized for an hour. Nine in ten are nearly full, the others between 40 and 95 %.
// One pod in four has the labels of a pending pod, so that the constraints of the pending pods count it.
//
// All nodes have the same number of pods, but no node has more than its type's limit. So there may be fewer pods than given.
func Running(s *engine.Snapshot, nodes, pods int, seed uint64) *engine.Snapshot {
	r := &runner{Rand: rand.New(rand.NewPCG(seed, 0x5e)), pool: s.NodePools[0], total: pods}
	r.sold(s)
	for _, pod := range s.Pods {
		r.labels = append(r.labels, pod.Labels)
	}
	out := *s
	out.Pods = slices.Clip(s.Pods)
	out.Nodes, out.NodeClaims = slices.Clip(s.Nodes), slices.Clip(s.NodeClaims)
	for i := range nodes {
		name := numbered("node", i)
		sale := r.sales[r.IntN(len(r.sales))]
		out.Nodes = append(out.Nodes, r.node(name, sale))
		out.NodeClaims = append(out.NodeClaims, r.claim(name, sale))
		out.Pods = append(out.Pods, r.fill(name, sale, pods/nodes)...)
	}
	return &out
}

// runner draws nodes and their pods.
type runner struct {
	*rand.Rand
	pool   *v1.NodePool
	sales  []sale
	labels []map[string]string // of the pending pods
	pods   int                 // number of pods so far
	total  int
}

// A sale is one offering that the pool may buy.
type sale struct {
	kind     *engine.InstanceType
	offering engine.Offering
}

// sold draws the types of the nodes.
func (r *runner) sold(s *engine.Snapshot) {
	byType := map[string][]sale{}
	for i := range s.Classes[0].InstanceTypes {
		kind := &s.Classes[0].InstanceTypes[i]
		cores := kind.Capacity.Cpu().Value()
		for _, o := range kind.Offerings {
			if x := (sale{kind, o}); cores >= 4 && cores <= 32 && r.allows(x.labels()) {
				byType[kind.Name] = append(byType[kind.Name], x)
			}
		}
	}
	names := slices.Sorted(maps.Keys(byType))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(40, len(names))] {
		r.sales = append(r.sales, byType[name]...)
	}
}

// allows reports whether the pool's requirements, all of which are In, allow these labels.
func (r *runner) allows(labels map[string]string) bool {
	for _, q := range r.pool.Spec.Template.Spec.Requirements {
		if !slices.Contains(q.Values, labels[q.Key]) {
			return false
		}
	}
	return true
}

// labels returns the labels of a machine of this offering.
func (x sale) labels() map[string]string {
	out := map[string]string{
		corev1.LabelInstanceTypeStable: x.kind.Name,
		corev1.LabelTopologyZone:       x.offering.Zone,
		v1.CapacityTypeLabelKey:        x.offering.CapacityType,
	}
	for key := range x.kind.Labels {
		if value := first(x.kind, key); value != "" {
			out[key] = value
		}
	}
	return out
}

func (r *runner) node(name string, x sale) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta("", name, "node-"+name)}
	n.Finalizers = []string{v1.TerminationFinalizer}
	n.Labels = r.machineLabels(x)
	n.Labels[corev1.LabelHostname] = name
	n.Labels[v1.RegisteredLabelKey], n.Labels[v1.InitializedLabelKey] = "true", "true"
	n.Spec.ProviderID = "kwok://" + name
	n.Status.Capacity, n.Status.Allocatable = x.kind.Capacity, x.kind.Allocatable()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: n.CreationTimestamp}}
	return n
}

func (r *runner) machineLabels(x sale) map[string]string {
	labels := x.labels()
	ref := r.pool.Spec.Template.Spec.NodeClassRef
	labels[v1.NodePoolLabelKey], labels[ref.LabelKey()] = r.pool.Name, ref.Name
	return labels
}

func (r *runner) claim(name string, x sale) *v1.NodeClaim {
	c := &v1.NodeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim"},
		ObjectMeta: meta("", name, "claim-"+name),
		Spec: v1.NodeClaimSpec{
			NodeClassRef: r.pool.Spec.Template.Spec.NodeClassRef,
			ExpireAfter:  r.pool.Spec.Template.Spec.ExpireAfter,
			Requirements: append(slices.Clone(r.pool.Spec.Template.Spec.Requirements),
				v1.Requirement{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{x.kind.Name}}),
		},
	}
	c.Labels = r.machineLabels(x)
	c.Generation = 1
	c.Annotations = map[string]string{
		v1.NodePoolHashAnnotationKey: r.pool.Hash(), v1.NodePoolHashVersionAnnotationKey: v1.HashVersion,
	}
	c.Finalizers = []string{v1.TerminationFinalizer}
	c.Status.ProviderID, c.Status.NodeName = "kwok://"+name, name
	c.Status.Capacity, c.Status.Allocatable = x.kind.Capacity, x.kind.Allocatable()
	c.Status.LastPodEventTime = c.CreationTimestamp
	for _, condition := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized} {
		v1.SetCondition(c, condition, metav1.ConditionTrue, "", "", c.CreationTimestamp.Time)
	}
	return c
}

// fill draws the pods of one node.
func (r *runner) fill(node string, x sale, count int) []*corev1.Pod {
	allocatable := x.kind.Allocatable()
	count = min(count, int(allocatable.Pods().Value()))
	full := func() float64 { return 0.97 + 0.03*r.Float64() }
	if r.IntN(10) == 0 {
		full = func() float64 { return 0.4 + 0.55*r.Float64() }
	}
	cpu := r.parts(allocatable.Cpu().MilliValue()/10, full(), count)
	memory := r.parts(allocatable.Memory().Value()>>24, full(), count)
	var out []*corev1.Pod
	for i := range count {
		s := newShape(r.podLabels(), 10*cpu[i], 16*memory[i], 0)
		pod := s.pod(numbered("running", r.pods), numbered("running", r.pods))
		pod.Spec.NodeName = node
		pod.OwnerReferences = replicaSet(r.pods % max(1, r.total/20))
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &pod.CreationTimestamp
		pod.Status.Conditions[0] = corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp,
		}
		r.pods++
		out = append(out, pod)
	}
	return out
}

// parts divides a share of the whole into unequal parts, none of which is 0.
func (r *runner) parts(whole int64, share float64, count int) []int64 {
	weights, sum := make([]float64, count), 0.0
	for i := range weights {
		weights[i] = 0.5 + r.Float64()
		sum += weights[i]
	}
	out := make([]int64, count)
	for i, w := range weights {
		out[i] = max(1, int64(float64(whole)*share*w/sum))
	}
	return out
}

// podLabels returns the labels of a pending pod, or of another workload.
func (r *runner) podLabels() map[string]string {
	if len(r.labels) > 0 && r.IntN(4) == 0 {
		return r.labels[r.IntN(len(r.labels))]
	}
	return map[string]string{"app": fmt.Sprintf("running-%d", r.pods/20)}
}

func replicaSet(n int) []metav1.OwnerReference {
	name, controller := fmt.Sprintf("running-%d", n), true
	return []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID("owner-" + name), Controller: &controller,
	}}
}
