package explore

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// schedulerLag is the longest delay until kube-scheduler sees a node's change. The engine's settling time after a taint relies on a bound
// like this one, because kube-scheduler does not read the API server before it binds.
const schedulerLag = 400 * time.Millisecond

// kubernetes simulates the parts of Kubernetes beside the API server.
type kubernetes struct {
	w          *world
	views      []*view // kube-scheduler's views of nodes
	nodes      *view
	room       int                           // counts changes that may have made room
	tried      map[types.UID][3]int          // kube-scheduler's knowledge when it found no node for a pod
	ends       map[types.UID]time.Time       // the time at which a pod ends
	registered map[engine.MachineID]bool     // machines whose kubelet has made a Node
	nodeGone   map[string]time.Time          // when a Node vanished
	bound      map[types.UID]uint64          // the version of the store at which a pod was bound
	selectors  map[types.UID]labels.Selector // of PodDisruptionBudgets
}

func newKube(w *world) *kubernetes {
	k := &kubernetes{
		w: w, room: 1, tried: map[types.UID][3]int{}, ends: map[types.UID]time.Time{}, registered: map[engine.MachineID]bool{},
		nodeGone: map[string]time.Time{}, bound: map[types.UID]uint64{}, selectors: map[types.UID]labels.Selector{},
	}
	k.nodes = newView(w.api.shelves[reflect.TypeFor[*corev1.Node]()], 0, nil)
	k.views = []*view{k.nodes}
	return k
}

// catchUp delivers all pending changes to kube-scheduler.
func (k *kubernetes) catchUp() {
	for _, v := range k.views {
		for v.behind() > 0 {
			v.deliver()
		}
	}
}

// actor lists the possible actions of one participant.
type actor struct {
	list func(w *world, add func(action))
	// objects means that the actions depend only on the objects of the API server.
	objects bool
}

// actors lists the participants, the autoscaler and others, in the order in which they act when there are no faults.
func actors() []actor {
	return []actor{
		{list: tasks}, {list: watches}, {list: passes}, {list: kubelets}, {list: nodeControllers},
		{list: workloads, objects: true}, {list: deviceClaims, objects: true}, {list: budgets, objects: true}, {list: garbage, objects: true},
		{list: scheduler}, {list: users}, {list: troubles}, {list: deviceUsers},
	}
}

// scheduler is a simple kube-scheduler. It binds a pod to a node that fits as far as it knows, preferably to the nominated node.
func scheduler(w *world, add func(action)) {
	k := w.kube
	if k.nodes.behind() > 0 {
		weight := 8
		if w.switches.SchedulerLag > 0 {
			weight = 0 // as late as possible
		}
		add(action{kind: "kube-scheduler hears of", name: "Node", weight: weight, do: k.nodes.deliver})
	}
	for _, pod := range all[*corev1.Pod](w.api) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || k.tried[pod.UID] == k.knows(pod) {
			continue
		}
		if len(pod.Spec.ResourceClaims) > 0 && claimOf(w.api, pod) == nil {
			continue // the pod is not in the queue before its claim exists
		}
		add(action{kind: "kube-scheduler", name: keyOf(pod), weight: 6, do: func() { k.schedule(pod) }})
	}
}

// knows returns the knowledge on which an attempt to place the pod depends.
func (k *kubernetes) knows(pod *corev1.Pod) [3]int {
	nominated := 0
	for _, c := range pod.Status.NominatedNodeName {
		nominated = nominated*31 + int(c)
	}
	return [3]int{k.nodes.at, k.room, nominated}
}

func (k *kubernetes) schedule(pod *corev1.Pod) {
	var fitting []string
	for _, key := range k.nodes.keys {
		if node := k.nodes.objects[key].(*corev1.Node); k.fits(pod, node) {
			fitting = append(fitting, node.Name)
		}
	}
	now := k.w.api.now()
	if len(fitting) == 0 {
		update(k.w.api, pod, func(p *corev1.Pod) {
			p.Status.NominatedNodeName = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: now}}
			k.tried[pod.UID] = k.knows(p)
		})
		return
	}
	target := pick(k.w, fitting...)
	if slices.Contains(fitting, pod.Status.NominatedNodeName) {
		target = pod.Status.NominatedNodeName
	}
	k.reserve(pod, k.nodes.objects["/"+target].(*corev1.Node))
	update(k.w.api, pod, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.NominatedNodeName = target, ""
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	})
	k.bound[pod.UID] = k.w.api.version
}

// fits reports whether the node takes the pod.
func (k *kubernetes) fits(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return false
		}
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	return holds(k.w.api, node, pod) && k.devicesFit(pod, node)
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.MatchToleration(&corev1.Toleration{Operator: corev1.TolerationOpExists}) || t.Key == taint.Key
	})
}

// holds reports whether the node has room for the pod beside its bound pods.
func holds(s *store, node *corev1.Node, pod *corev1.Pod) bool {
	left := node.Status.Allocatable.DeepCopy()
	count := left[corev1.ResourcePods]
	for _, other := range all[*corev1.Pod](s) {
		if other.Spec.NodeName != node.Name || kube.IsTerminal(other) {
			continue
		}
		count.Sub(*resource.NewQuantity(1, resource.DecimalSI))
		for name, quantity := range kube.PodRequests(other) {
			have := left[name]
			have.Sub(quantity)
			left[name] = have
		}
	}
	if count.Sign() <= 0 {
		return false
	}
	for name, want := range kube.PodRequests(pod) {
		if have := left[name]; name != corev1.ResourcePods && want.Cmp(have) > 0 {
			return false
		}
	}
	return true
}

// newNode returns the Node that a machine's kubelet registers.
func (k *kubernetes) newNode(m engine.Machine, allocatable corev1.ResourceList) *corev1.Node {
	name := k.nodeName(m.ID)
	given := maps.Clone(m.Labels)
	given[corev1.LabelHostname] = name
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: given},
		Spec: corev1.NodeSpec{ProviderID: string(m.ID), Taints: []corev1.Taint{
			v1.UnregisteredTaint(), {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Capacity: m.Capacity, Allocatable: allocatable},
	}
}

func (k *kubernetes) nodeName(id engine.MachineID) string {
	return strings.TrimPrefix(string(id), k.w.cloud.IDPrefix())
}
