package deviceplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Need holds the demands of a pod's claims on its machine. The zero value is the need of a pod without claims.
type Need struct {
	// Problem says why nothing can be planned for the pod.
	Problem engine.Reason
	// Within lists, for each allocated claim, its alternatives. The node has to meet one alternative of each claim.
	Within [][][]requirement.Expression
	// Requests holds the resources that the pod's devices are counted as.
	Requests corev1.ResourceList
	// Shared names a claim that other pods wait for too. All these pods run on one machine, where the first pod takes Requests for all of them.
	Shared string
	kind   *kind // nil if nothing is to be allocated
	// names holds the names of the claims to be allocated.
	names []string
}

// Drivers lists, in order, the drivers whose devices the pod may get.
func (n *Need) Drivers() []string {
	if n.kind == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.kind.drivers))
}

// Asks reports whether the pod claims anything.
func (n *Need) Asks() bool { return n.kind != nil || len(n.Within) > 0 || !n.Problem.OK() }

// Kind returns the index of the pod's kind. It returns -1 if nothing is to be allocated.
func (n *Need) Kind() int {
	if n.kind == nil {
		return -1
	}
	return n.kind.number
}

// Of returns the need of the pod's claims. With a nil plan, all claims are unsupported.
func (p *Plan) Of(pod *corev1.Pod) Need {
	if p == nil {
		return Need{Problem: kube.UnsupportedOf(&pod.Spec)}
	}
	has, reason := p.claimsOf(pod)
	if reason != nil {
		name := reason.What
		if name == "" || reason.Code == dra.TemplateMissing {
			name = reason.Claim
		}
		return Need{Problem: problemOf(reason, name)}
	}
	out := Need{}
	for _, selector := range has.Within {
		var alternatives [][]requirement.Expression
		for _, term := range selector.NodeSelectorTerms {
			if all := kube.ExpressionsOf(term, v1.NormalizeLabel); len(all) > 0 {
				alternatives = append(alternatives, all)
			}
		}
		if len(alternatives) == 0 {
			return Need{Problem: notModelled(pod.Spec.ResourceClaims[0].Name + " whose devices no node reaches")}
		}
		out.Within = append(out.Within, alternatives)
	}
	if len(has.Open) == 0 {
		return out
	}
	k := p.byText[p.textOf(has.Open)]
	if k == nil { // the pod is not in the snapshot
		return Need{Problem: notModelled(has.Open[0].Name)}
	}
	if out.kind, out.Requests = k, k.requests; !k.problem.OK() {
		return Need{Problem: k.problem}
	}
	if node := k.failsOn(&pod.Spec); node != "" {
		return Need{Problem: engine.Reason{Code: engine.SelectorFails, Key: has.Open[0].Name, Need: k.failed.expression, Have: "device " + k.failed.device + " of node " + node}}
	}
	for _, c := range has.Open {
		out.names = append(out.names, c.Name)
		if p.users[c] < 2 {
			continue
		}
		if len(has.Open) > 1 {
			return Need{Problem: notModelled(c.Name + ", which several pods wait for, beside other claims")}
		}
		out.Shared = c.Namespace + "/" + c.Name
	}
	return out
}

// failsOn returns a node that the pod may run on and that has a device for which a selector fails. It returns "" if there is none.
func (k *kind) failsOn(spec *corev1.PodSpec) string {
	if k.failed == nil {
		return ""
	}
	asks := kube.NodeConstraintsOf(spec)
	for _, node := range k.failed.nodes {
		if kube.Untolerated(asks.Tolerations, node.Spec.Taints) == nil && meetsOne(asks.Told, node) {
			return node.Name
		}
	}
	return ""
}

// meetsOne reports whether the node meets one of the terms.
func meetsOne(terms [][]requirement.Expression, node *corev1.Node) bool {
	return slices.ContainsFunc(terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			value, there := node.Labels[e.Key]
			if e.Key == kube.NodeNameKey {
				value, there = node.Name, true
			}
			return !e.Admits(value, there)
		})
	})
}

// Key returns a text that differs for needs that differ.
func (n *Need) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %q %q", n.Kind(), n.Shared, n.Problem.Key+n.Problem.Have)
	for _, alternatives := range n.Within {
		for _, term := range alternatives {
			b.WriteString("\n" + kube.TermText(term))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Kinds returns the number of kinds. A nil plan has none.
func (p *Plan) Kinds() int {
	if p == nil {
		return 0
	}
	return len(p.kinds)
}

// Rivals lists the kinds whose pods may not run beside pods of kind i on a machine before kube-scheduler has chosen devices.
func (p *Plan) Rivals(i int) []int {
	var out []int
	k := p.kinds[i]
	for _, other := range p.kinds {
		if other == k || k.counts && other.counts {
			continue
		}
		for driver := range k.drivers {
			if other.drivers[driver] {
				out = append(out, other.number)
				break
			}
		}
	}
	return out
}
