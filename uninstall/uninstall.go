// Package uninstall decides the next step of removing the autoscaler from a cluster, so that no finalizer is left, and no machine unless machines
// are to stay. It reads the cluster's objects and returns the next step, until there is none. A removal that was interrupted can therefore be
// continued by calling it again. Its callers carry the steps out, and the controllers of claims drain the machines.
package uninstall

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
)

// Inventory holds the objects and machines of an installation.
type Inventory struct {
	// Kinds are the node class kinds of the provider. Objects of other kinds of class belong to other providers.
	Kinds   []schema.GroupVersionKind
	Pools   []*v1.NodePool
	Claims  []*v1.NodeClaim
	Nodes   []*corev1.Node
	Classes []provider.Class
	// Machines are the machines that the cloud lists. They are not needed before all claims are gone. Asked is true if the cloud has been asked.
	Machines []engine.Machine
	Asked    bool
}

// Verb says what to do with an object.
type Verb int

const (
	// Delete deletes an object. Finalizers keep the object until its machine or other resources are gone.
	Delete Verb = iota
	// Confirm removes our finalizer from a node if the cloud says that its machine is gone.
	Confirm
	// LetGo removes the ownership marks of a claim's nodes and machine, and removes the claim.
	LetGo
	// Free removes the ownership marks of a node.
	Free
	// Release removes the ownership marks of a machine.
	Release
	// LetGoClass removes a class and the objects that were made for it, except objects that running machines need.
	LetGoClass
	// AskMachines lists the cloud's machines.
	AskMachines
)

// Action is one step.
type Action struct {
	Verb    Verb
	Object  provider.Object // nil for Release and AskMachines
	Nodes   []*corev1.Node  // the nodes of a claim for LetGo
	Machine engine.MachineID
	Class   provider.Class
}

// Held is an object with finalizers of other programs, or of another provider.
type Held struct {
	Kind, Name string
	// By lists the finalizers; none for a claim that belongs to another provider.
	By []string
}

// Serves reports whether claims and pools with this class reference belong to the installation.
func (inv *Inventory) Serves(ref *v1.NodeClassReference) bool {
	return ref != nil && slices.ContainsFunc(inv.Kinds, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
}

// Next returns the next actions. Pools go first, so that no controller starts machines. Then claims go with their machines, then nodes without a
// claim. Classes go last, because machines depend on them. If keep is true, the machines stay. Then pools go after claims, because the deletion
// of a pool deletes its claims. If Next returns nothing, objects may still be left: see Left.
func Next(inv *Inventory, keep bool) []Action {
	if keep {
		return keepAll(inv)
	}
	var out []Action
	for _, pool := range inv.Pools {
		if inv.Serves(pool.Spec.Template.Spec.NodeClassRef) && pool.DeletionTimestamp == nil {
			out = append(out, Action{Verb: Delete, Object: pool})
		}
	}
	claims := inv.claims()
	for _, c := range claims {
		if c.DeletionTimestamp == nil {
			out = append(out, Action{Verb: Delete, Object: c})
		}
	}
	if len(out) > 0 || len(claims) > 0 {
		return out
	}
	nodes := inv.nodes()
	for _, n := range nodes {
		switch {
		case !inv.managed(n):
			out = append(out, Action{Verb: Confirm, Object: n, Machine: engine.MachineID(n.Spec.ProviderID)})
		case n.DeletionTimestamp == nil:
			out = append(out, Action{Verb: Delete, Object: n})
		}
	}
	if len(nodes) > 0 {
		return out
	}
	for _, c := range inv.Classes {
		if c.Object.GetDeletionTimestamp() == nil {
			out = append(out, Action{Verb: Delete, Object: c.Object})
		}
	}
	if !slices.ContainsFunc(inv.Classes, isOpen) && (!inv.Asked || len(inv.Machines) > 0) {
		out = append(out, Action{Verb: AskMachines})
	}
	return out
}

// keepAll returns the next actions if machines stay. No other program may act on claims meanwhile.
func keepAll(inv *Inventory) (out []Action) {
	for _, c := range inv.claims() {
		out = append(out, Action{Verb: LetGo, Object: c, Nodes: inv.nodesOf(c), Machine: engine.MachineID(c.Status.ProviderID)})
	}
	if len(out) > 0 {
		return out
	}
	for _, n := range inv.nodes() {
		out = append(out, Action{Verb: Free, Object: n, Machine: engine.MachineID(n.Spec.ProviderID)})
	}
	for _, m := range inv.Machines {
		out = append(out, Action{Verb: Release, Machine: m.ID})
	}
	switch {
	case len(out) > 0:
		return out
	case !inv.Asked:
		return []Action{{Verb: AskMachines}}
	}
	for _, pool := range inv.Pools {
		if inv.Serves(pool.Spec.Template.Spec.NodeClassRef) && pool.DeletionTimestamp == nil {
			out = append(out, Action{Verb: Delete, Object: pool})
		}
	}
	for _, c := range inv.Classes {
		if isOpen(c) {
			out = append(out, Action{Verb: LetGoClass, Object: c.Object, Class: c})
		}
	}
	return out
}

// claims returns the claims of the installation, sorted by name. It leaves out claims that are being deleted and that only finalizers of other
// programs hold.
func (inv *Inventory) claims() (out []*v1.NodeClaim) {
	for _, c := range inv.Claims {
		if inv.Serves(c.Spec.NodeClassRef) && (c.DeletionTimestamp == nil || ours(c)) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *v1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// nodes returns the nodes with our finalizer and without a claim, sorted by name.
func (inv *Inventory) nodes() (out []*corev1.Node) {
	owned, foreign := map[string]bool{}, map[types.UID]bool{}
	for _, c := range inv.Claims {
		owned[c.Status.ProviderID] = true
		foreign[c.UID] = !inv.Serves(c.Spec.NodeClassRef)
	}
	for _, n := range inv.Nodes {
		theirs := slices.ContainsFunc(n.OwnerReferences, func(o metav1.OwnerReference) bool { return foreign[o.UID] })
		if ours(n) && !theirs && (n.Spec.ProviderID == "" || !owned[n.Spec.ProviderID]) && !inv.strange(n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// strange reports whether a node was made from a class of another provider.
func (inv *Inventory) strange(n *corev1.Node) bool {
	if inv.managed(n) {
		return false
	}
	for key := range n.Labels {
		_, kind, _ := strings.Cut(key, "/")
		own := slices.ContainsFunc(inv.Kinds, func(k schema.GroupVersionKind) bool {
			ref := v1.NodeClassReference{Group: k.Group, Kind: k.Kind}
			return ref.LabelKey() == key
		})
		if strings.HasSuffix(kind, "nodeclass") && !own {
			return true
		}
	}
	return false
}

// managed reports whether a controller of the provider handles the node although it has no claim.
func (inv *Inventory) managed(n *corev1.Node) bool {
	return slices.ContainsFunc(inv.Kinds, func(k schema.GroupVersionKind) bool {
		ref := v1.NodeClassReference{Group: k.Group, Kind: k.Kind}
		return n.Labels[ref.LabelKey()] != "" && n.Spec.ProviderID != ""
	})
}

// Joining returns the claims whose machine runs and has no registered node yet, sorted by name. A controller that is still running completes the
// labels and taints of such a node. Without a controller, the node stays closed for pods.
func Joining(inv *Inventory) (out []*v1.NodeClaim) {
	for _, c := range inv.claims() {
		if c.DeletionTimestamp == nil && c.Status.ProviderID != "" && !v1.IsTrue(c, v1.ConditionRegistered) {
			out = append(out, c)
		}
	}
	return out
}

// Joined reports whether a machine has a node.
func Joined(inv *Inventory, id engine.MachineID) bool {
	return slices.ContainsFunc(inv.Nodes, func(n *corev1.Node) bool { return n.Spec.ProviderID == string(id) })
}

func (inv *Inventory) nodesOf(c *v1.NodeClaim) (out []*corev1.Node) {
	for _, n := range inv.Nodes {
		owns := slices.ContainsFunc(n.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == c.UID })
		if owns || c.Status.ProviderID != "" && n.Spec.ProviderID == c.Status.ProviderID {
			out = append(out, n)
		}
	}
	return out
}

func ours(o metav1.Object) bool { return slices.Contains(o.GetFinalizers(), v1.TerminationFinalizer) }

// Left reports whether objects or machines are left, apart from objects that only other programs hold.
func Left(inv *Inventory) bool {
	pools := slices.ContainsFunc(inv.Pools, func(p *v1.NodePool) bool {
		return inv.Serves(p.Spec.Template.Spec.NodeClassRef) && !heldByOthers(p)
	})
	return pools || len(inv.claims()) > 0 || len(inv.nodes()) > 0 || !inv.Asked || len(inv.Machines) > 0 ||
		slices.ContainsFunc(inv.Classes, isOpen)
}

// isOpen reports whether a class is still to be removed.
func isOpen(c provider.Class) bool { return !heldByOthers(c.Object) }

// classFinalizer is the end of the finalizer of node classes, after their group.
const classFinalizer = "/termination"

// heldByOthers reports whether an object is being deleted, and only finalizers of other programs hold it.
func heldByOthers(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 && !slices.ContainsFunc(o.GetFinalizers(), isOurs)
}

func isOurs(finalizer string) bool {
	return finalizer == v1.TerminationFinalizer || strings.HasPrefix(finalizer, "karpenter.") && strings.HasSuffix(finalizer, classFinalizer)
}

// Shared reports whether another provider has pools or claims. They would be deleted with the CRDs.
func Shared(inv *Inventory) bool {
	return slices.ContainsFunc(inv.Claims, func(c *v1.NodeClaim) bool { return !inv.Serves(c.Spec.NodeClassRef) }) ||
		slices.ContainsFunc(inv.Pools, func(p *v1.NodePool) bool { return !inv.Serves(p.Spec.Template.Spec.NodeClassRef) })
}

// Strangers lists the objects that stay untouched: objects that other programs hold, and claims of another provider.
func Strangers(inv *Inventory) (out []Held) {
	add := func(kind string, o metav1.Object) {
		if heldByOthers(o) {
			out = append(out, Held{kind, o.GetName(), o.GetFinalizers()})
		}
	}
	for _, p := range inv.Pools {
		add("NodePool", p)
	}
	for _, c := range inv.Claims {
		if !inv.Serves(c.Spec.NodeClassRef) {
			out = append(out, Held{Kind: "NodeClaim", Name: c.Name})
			continue
		}
		add("NodeClaim", c)
	}
	for _, n := range inv.Nodes {
		if n.Labels[v1.NodePoolLabelKey] != "" {
			add("Node", n)
		}
	}
	for _, c := range inv.Classes {
		add(c.Ref.Kind, c.Object)
	}
	return out
}

// Others counts the machines of other providers that have a claim or a node in the cluster. They stay untouched.
func Others(inv *Inventory) (n int) {
	claimed, owners := map[string]bool{}, map[types.UID]bool{}
	for _, c := range inv.Claims {
		if !inv.Serves(c.Spec.NodeClassRef) {
			n++
			owners[c.UID] = true
			claimed[c.Status.ProviderID] = c.Status.ProviderID != ""
		}
	}
	for _, node := range inv.Nodes {
		owned := slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return owners[o.UID] })
		if inv.strange(node) && !owned && !claimed[node.Spec.ProviderID] {
			n++
		}
	}
	return n
}

// Freed returns the node as it should be to stay without the autoscaler: without our finalizer, without a NodeClaim as its owner, because its
// deletion would delete the node, and open for pods.
func Freed(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == v1.TerminationFinalizer })
	n.OwnerReferences = slices.DeleteFunc(n.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodeClaim" })
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains([]string{v1.DisruptedTaintKey, v1.UnregisteredTaintKey, v1.LeavingSoonTaintKey, kube.OpeningTaint().Key}, t.Key)
	})
	if n.Labels[v1.ExcludeBalancersLabelKey] == v1.ExcludeBalancersValue {
		delete(n.Labels, v1.ExcludeBalancersLabelKey)
	}
	return n
}
