package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// OtherGroup is a group of nodes that no NodePool owns: somebody else starts and removes them.
type OtherGroup struct {
	Name  string
	Nodes []*corev1.Node // by name
	// Taints are those that all its nodes have and that keep pods off, by key.
	Taints []corev1.Taint
}

// OtherGroups are the groups by name, less the control plane and nodes that carry no group's name.
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

// Admits reports whether some node of the group has what the pod asks of labels, and the pod tolerates the group's taints. Room, and
// what else keeps pods off a single node, are left aside.
func (g OtherGroup) Admits(pod *corev1.Pod) bool {
	if kube.Untolerated(pod.Spec.Tolerations, g.Taints) != nil {
		return false
	}
	return slices.ContainsFunc(g.Nodes, func(n *corev1.Node) bool { return kube.SelectsNode(&pod.Spec, n) })
}

// OtherGroupsSentence says of a pod that nothing can run which groups it is for.
func OtherGroupsSentence(names []string) string {
	return "nodes of group " + engine.AtMost(names, 3) + ", which no NodePool owns, admit it by their labels and taints, and have no room for it now"
}

// NotManaged says of a node, nil if there is none, why nobody here removes it: it has no NodeClaim.
func NotManaged(node *corev1.Node) engine.Reason {
	if node == nil {
		return engine.Reason{Code: engine.NotManaged}
	}
	return engine.Reason{Code: engine.NotManaged, Have: foreign(node)}
}

// foreign says whose a node without a NodeClaim is, and what becomes of it, as far as that is known.
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
