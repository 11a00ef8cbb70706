package scenario

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

// This file applies admission to pods that were never in a cluster: it changes some pods, and refuses others.

// noteRuntimeClass adds a note if a RuntimeClass is not in the files.
func (m *manifest) noteRuntimeClass(what string, spec *corev1.PodSpec) {
	if name := spec.RuntimeClassName; name != nil && !slices.ContainsFunc(m.snapshot.RuntimeClasses, func(c *nodev1.RuntimeClass) bool { return c.Name == *name }) {
		m.note("%s: its RuntimeClass %s is not in the files: taken to ask for nothing", what, *name)
	}
}

// admit drops the pods that were never in a cluster and that the API server would refuse.
func (m *manifest) admit() {
	quotas := m.readQuotas()
	var kept []*corev1.Pod
	type refusal struct{ what, why string }
	var order []refusal
	pods, all := map[refusal]int{}, map[string]int{}
	for _, p := range m.snapshot.Pods {
		if !m.asksToEnter(p) {
			kept = append(kept, p)
			continue
		}
		what := m.makerOf(p)
		all[what]++
		why := m.refusedBy[p]
		if m.isEnding(p.Namespace) {
			why = "its namespace is being deleted"
		}
		if why == "" {
			why = m.rangeRefusal(p)
		}
		if why == "" {
			why = quotas.take(p)
		}
		if why == "" {
			kept = append(kept, p)
			continue
		}
		r := refusal{what, why}
		if pods[r] == 0 {
			order = append(order, r)
		}
		pods[r]++
	}
	for _, r := range order {
		if all[r.what] == 1 {
			m.note("%s is left out, since the API server would not take its pod: %s", r.what, r.why)
			continue
		}
		m.note("%s: %d of %d pods are left out, since the API server would not take them: %s", r.what, pods[r], all[r.what], r.why)
	}
	m.snapshot.Pods = kept
}

// asksToEnter reports whether a pod was never admitted to a cluster. A pod with a node already runs there.
func (m *manifest) asksToEnter(p *corev1.Pod) bool { return m.fresh[p] && p.Spec.NodeName == "" }

// makerOf names the object in the files that the pod comes from.
func (m *manifest) makerOf(p *corev1.Pod) string {
	if maker := m.makers[p]; maker != "" {
		return maker
	}
	return fmt.Sprintf("Pod %s/%s", p.Namespace, p.Name)
}

func (m *manifest) isEnding(namespace string) bool {
	return slices.ContainsFunc(m.snapshot.Namespaces, func(n *corev1.Namespace) bool {
		return n.Name == namespace && (n.DeletionTimestamp != nil || n.Status.Phase == corev1.NamespaceTerminating)
	})
}
