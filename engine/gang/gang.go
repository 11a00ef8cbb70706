package gang

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Gang is a PodGroup with its pods that have not ended.
type Gang struct {
	Group *schedulingv1alpha3.PodGroup
	// Order is the gang's index among all gangs that compete for too little room: gangs of higher priority are first, then older ones.
	Order int
	// Running are the gang's pods that have a node. Waiting are those that have none and wait only for the rest of the gang.
	Running, Waiting []*corev1.Pod
	refused          bool  // kube-scheduler found no place for one of them
	priority         int32 // the group's own, or the highest of its pods
}

// Name returns the group's namespace and name.
func (g *Gang) Name() string { return g.Group.Namespace + "/" + g.Group.Name }

// Priority returns the group's own priority or, if it has none, the highest priority of its pods.
func (g *Gang) Priority() int32 { return g.priority }

// Exist returns the number of the gang's pods that run or wait to start.
func (g *Gang) Exist() int { return len(g.Running) + len(g.Waiting) }

// Suffices reports whether the gang starts if this number of its waiting pods can start, or has started already.
func (g *Gang) Suffices(waiting int) bool { return len(g.Running)+waiting >= g.Group.MinCount() }

// Missing returns the number of further pods that have to run for the gang to start.
func (g *Gang) Missing() int { return max(g.Group.MinCount()-len(g.Running), 0) }

// Asks reports whether pods of the gang need machines: enough of them exist for kube-scheduler to try them, and it has found no places.
func (g *Gang) Asks() bool { return g.refused && g.Suffices(len(g.Waiting)) }

// TooSmall returns the reason that fewer of the gang's pods exist than have to start together.
func (g *Gang) TooSmall() engine.Reason {
	return engine.Reason{Code: engine.GangTooSmall, Key: g.Name(), Need: strconv.Itoa(g.Group.MinCount()), Have: strconv.Itoa(g.Exist())}
}

// Breaks reports whether the gang cannot continue without this number of its running pods, or moves only as a whole.
func (g *Gang) Breaks(running int) bool {
	return g.Group.MovesWhole() || len(g.Running)-running < g.Group.MinCount()
}

func (g *Gang) readPriority() {
	if p := g.Group.Spec.Priority; p != nil {
		g.priority = *p
		return
	}
	for i, pod := range slices.Concat(g.Running, g.Waiting) {
		p := int32(0)
		if pod.Spec.Priority != nil {
			p = *pod.Spec.Priority
		}
		if i == 0 || p > g.priority {
			g.priority = p
		}
	}
}

// Gangs holds all gangs of a snapshot. The nil value holds none.
type Gangs struct {
	List   []*Gang                        // in the order of the snapshot's PodGroups
	groups map[types.NamespacedName]*Gang // nil for groups whose pods start one by one
}

// Of returns the gang of the pod. It returns nil for a pod that starts alone.
func (g *Gangs) Of(pod *corev1.Pod) *Gang {
	if name := groupOf(pod); g != nil && name != "" {
		return g.groups[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	}
	return nil
}

// Lacks reports whether the pod names a group that does not exist. If kube-scheduler supports groups, it holds the pod until the group exists.
func (g *Gangs) Lacks(pod *corev1.Pod) bool {
	name := groupOf(pod)
	if g == nil || name == "" {
		return name != ""
	}
	_, there := g.groups[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	return !there
}

func groupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// Read returns the gangs of the snapshot and their pods. It returns nil if there are no groups.
func Read(s *engine.Snapshot) *Gangs {
	if len(s.PodGroups) == 0 {
		return nil
	}
	out := &Gangs{groups: make(map[types.NamespacedName]*Gang, len(s.PodGroups))}
	for _, group := range s.PodGroups {
		var g *Gang
		if group.Spec.SchedulingPolicy.Gang != nil {
			g = &Gang{Group: group}
			out.List = append(out.List, g)
		}
		out.groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = g
	}
	for _, pod := range s.Pods {
		g := out.Of(pod)
		switch {
		case g == nil || !kube.IsActive(pod):
			continue
		case pod.Spec.NodeName != "":
			g.Running = append(g.Running, pod)
		case len(pod.Spec.SchedulingGates) == 0:
			g.Waiting = append(g.Waiting, pod)
			g.refused = g.refused || kube.IsPending(pod)
		}
	}
	for _, g := range out.List {
		g.readPriority()
	}
	slices.SortFunc(out.List, func(a, b *Gang) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.Group.CreationTimestamp.Compare(b.Group.CreationTimestamp.Time), strings.Compare(a.Name(), b.Name()))
	})
	for i, g := range out.List {
		g.Order = i
	}
	return out
}
