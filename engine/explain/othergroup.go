package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// OtherGroup is a group of nodes that no NodePool owns: another program starts and removes them.
type OtherGroup struct {
	Name  string
	Nodes []*corev1.Node // sorted by name
	// Taints are the taints that all its nodes share and that keep pods off, by key.
	Taints []corev1.Taint
}

// OtherGroups returns the groups by name, without the control plane and without nodes of no group.
func OtherGroups(s *engine.Snapshot) []OtherGroup {
	claimed := make(map[string]bool, len(s.NodeClaims))
	for _, c := range s.NodeClaims {
		claimed[c.Status.ProviderID] = true
	}
	var out []OtherGroup
	for _, n := range kube.ByName(s.Nodes) {
		name := kube.GroupOf(n)
		if name == "" || isControlPlane(n) || n.Spec.ProviderID != "" && claimed[n.Spec.ProviderID] {
			continue
		}
		i := slices.IndexFunc(out, func(g OtherGroup) bool { return g.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, OtherGroup{Name: name})
		}
		out[i].Nodes = append(out[i].Nodes, n)
	}
	for i := range out {
		out[i].Taints = slices.DeleteFunc(commonTaints(out[i].Nodes), func(t corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectPreferNoSchedule
		})
	}
	slices.SortFunc(out, func(a, b OtherGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Admits reports whether the labels of some node of the group match the pod, and the pod tolerates the group's taints. Free resources, and other
// rules that keep pods off a single node, do not count.
func (g OtherGroup) Admits(pod *corev1.Pod) bool {
	if kube.Untolerated(pod.Spec.Tolerations, g.Taints) != nil {
		return false
	}
	return slices.ContainsFunc(g.Nodes, func(n *corev1.Node) bool { return kube.SelectsNode(&pod.Spec, n) })
}

// OtherGroupsSentence names the groups that admit a pod that nothing can run.
func OtherGroupsSentence(names []string) string {
	return "nodes of group " + engine.AtMost(names, 3) + ", which no NodePool owns, admit it by their labels and taints, and have no room for it now"
}

// NotManaged returns the reason why Tenon does not remove a node without a NodeClaim; the node may be nil.
func NotManaged(node *corev1.Node) engine.Reason {
	if node == nil {
		return engine.Reason{Code: engine.NotManaged}
	}
	return engine.Reason{Code: engine.NotManaged, Have: foreign(node)}
}

// foreign returns words about a node without a NodeClaim: its group, and whether Cluster Autoscaler removes it now or will if it stays unneeded.
func foreign(n *corev1.Node) string {
	text := ""
	if group := kube.GroupOf(n); group != "" {
		text = ", of group " + group
	}
	switch {
	case kube.IsRemovedElsewhere(n):
		text += ", which Cluster Autoscaler is removing"
		if since := kube.RemovedElsewhereSince(n); !since.IsZero() {
			text += ", since " + engine.ClockText(since)
		}
	case kube.IsCandidateElsewhere(n):
		text += ", which Cluster Autoscaler removes if it stays unneeded"
	}
	return text
}
