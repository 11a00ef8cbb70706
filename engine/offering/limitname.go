package offering

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// UnknownLimits returns notes on limits without effect, because no machine of the pool has the resource: usually a misspelt name.
func (p *Pool) UnknownLimits() []engine.Note {
	limits := p.NodePool.Spec.Limits
	if len(limits) == 0 {
		return nil
	}
	known := p.limitable()
	var notes []engine.Note
	for _, name := range kube.SortedKeys(limits) {
		if known[name] {
			continue
		}
		notes = append(notes, engine.Note{Object: "NodePool " + p.NodePool.Name, Reason: engine.Reason{
			Code: engine.UnknownLimit, NodePool: p.NodePool.Name, Key: string(name), Need: suggestedLimit(string(name), known), Have: limitText(known),
		}})
	}
	return notes
}

// limitable returns the resources that machines of the pool have, or may have.
func (p *Pool) limitable() map[corev1.ResourceName]bool {
	known := map[corev1.ResourceName]bool{v1.ResourceNodes: true}
	for i := range p.Class.InstanceTypes {
		for name := range p.Class.InstanceTypes[i].Capacity {
			known[name] = true
		}
	}
	for name := range p.used {
		known[name] = true
	}
	return known
}

// suggestedLimit returns a suggestion for a misspelt name, such as cpus or mem. It returns "" if no name is close.
func suggestedLimit(name string, known map[corev1.ResourceName]bool) string {
	written := strings.ToLower(name)
	plain := !strings.Contains(name, "/")
	for _, other := range kube.SortedKeys(known) {
		candidate := strings.ToLower(string(other))
		if plain && strings.Contains(written, candidate) || strings.HasPrefix(candidate, written) || strings.HasSuffix(candidate, "/"+written) {
			return "; write " + string(other) + " if that is meant"
		}
	}
	return ""
}

func limitText(known map[corev1.ResourceName]bool) string {
	var names []string
	for name := range known {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return engine.AtMost(names, 8)
}
