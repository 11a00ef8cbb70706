package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// ResizeRecord is a resize in place that the kubelet has not granted.
type ResizeRecord struct {
	// Reason and Message are the kubelet's: Deferred, or Infeasible if the node can never grant it.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Given are the pod's current requests, Asked the requested ones.
	Given map[string]string `json:"given"`
	Asked map[string]string `json:"asked"`
	// Lacks is the amount of the node's allocatable that other pods must free first.
	Lacks map[string]string `json:"lacks,omitempty"`
}

// pendingResize returns the pod's pending resize. It returns nil if there is none.
func (e *podExplainer) pendingResize() *ResizeRecord {
	c := kube.ResizePending(e.pod)
	if c == nil || e.pod.Spec.NodeName == "" {
		return nil
	}
	given, asked := kube.GivenRequests(e.pod), kube.PodRequests(&corev1.Pod{Spec: e.pod.Spec})
	r := &ResizeRecord{Reason: c.Reason, Message: c.Message, Given: map[string]string{}, Asked: map[string]string{}, Lacks: map[string]string{}}
	i := slices.IndexFunc(e.s.Nodes, func(n *corev1.Node) bool { return n.Name == e.pod.Spec.NodeName })
	others := corev1.ResourceList{} // granted requests; the kubelet does not count pending resizes of other pods
	for _, p := range e.s.Pods {
		if p != e.pod && p.Spec.NodeName == e.pod.Spec.NodeName && !kube.IsTerminal(p) {
			kube.AddList(others, kube.GivenRequests(p))
		}
	}
	for name, want := range asked {
		has := given[name]
		if want.Cmp(has) == 0 {
			continue
		}
		r.Given[string(name)], r.Asked[string(name)] = has.String(), want.String()
		if i < 0 {
			continue
		}
		lack := want.DeepCopy()
		lack.Add(others[name])
		lack.Sub(e.s.Nodes[i].Status.Allocatable[name])
		if want.Cmp(has) > 0 && lack.Sign() > 0 {
			r.Lacks[string(name)] = lack.String()
		}
	}
	return r
}

// sentence returns a text with the reason why the resize waits, and a possible remedy.
func (r *ResizeRecord) sentence(node string) string {
	text := fmt.Sprintf("its resize to %s is %s", amounts(r.Asked), r.Reason)
	if r.Reason == corev1.PodReasonInfeasible {
		return text + prefixed(": ", r.Message) + "; what it has counts. Take the resize back, or have its owner make another pod that requests this"
	}
	if len(r.Lacks) > 0 {
		text += fmt.Sprintf(": node %s lacks %s for it", node, amounts(r.Lacks))
	} else {
		text += prefixed(": ", r.Message)
	}
	return text + "; room is kept for it there. It comes when other pods leave the node or shrink. Where that takes too long, evict the pod: its owner makes another"
}

func amounts(list map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		parts = append(parts, list[name]+" "+name)
	}
	return strings.Join(parts, " and ")
}
