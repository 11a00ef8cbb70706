package uninstall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/uninstall"
)

func deleted() *metav1.Time {
	at := metav1.NewTime(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	return &at
}

func ref() *v1.NodeClassReference {
	return &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
}

func pool(name string) *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = ref()
	return p
}

func claim(name string) *v1.NodeClaim {
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Finalizers: []string{v1.TerminationFinalizer}}}
	c.Spec.NodeClassRef, c.Status.ProviderID = ref(), "kwok://"+name
	return c
}

func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1.TerminationFinalizer}, Labels: map[string]string{
		"karpenter.kwok.sh/kwoknodeclass": "default", v1.NodePoolLabelKey: "general",
	}}}
	n.Spec.ProviderID = "kwok://" + name
	return n
}

func class() provider.Class {
	return provider.Class{Ref: *ref(), Object: &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
}

func inventory() *uninstall.Inventory {
	return &uninstall.Inventory{Kinds: []schema.GroupVersionKind{{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"}}}
}

// said returns the next actions as text.
func said(inv *uninstall.Inventory, keep bool) string {
	var out []string
	for _, a := range uninstall.Next(inv, keep) {
		verb := []string{"delete", "confirm", "let go", "free", "release", "let go class", "ask"}[a.Verb]
		name := string(a.Machine)
		if a.Object != nil {
			name = a.Object.GetName()
		}
		out = append(out, strings.TrimSpace(fmt.Sprint(verb, " ", name)))
	}
	return strings.Join(out, ", ")
}

func TestPoolsGoFirstAndClassesLast(t *testing.T) {
	t.Parallel()
	inv := inventory()
	inv.Pools, inv.Claims, inv.Nodes, inv.Classes = []*v1.NodePool{pool("p")}, []*v1.NodeClaim{claim("b"), claim("a")}, []*corev1.Node{node("a"), node("z")}, []provider.Class{class()}
	steps := []struct {
		then func()
		want string
	}{
		{func() {}, "delete p, delete a, delete b"},
		{func() {
			inv.Pools = nil
			inv.Claims[0].DeletionTimestamp = deleted()
			inv.Claims[1].DeletionTimestamp = deleted()
		}, ""},
		{func() { inv.Claims = nil; inv.Nodes = inv.Nodes[1:] }, "delete z"},
		{func() { inv.Nodes[0].DeletionTimestamp = deleted() }, ""},
		{func() { inv.Nodes = nil }, "delete default"},
		{func() { inv.Classes = nil }, "ask"},
		{func() { inv.Asked, inv.Machines = true, []engine.Machine{{ID: "kwok://q"}} }, "ask"},
	}
	for i, s := range steps {
		s.then()
		if got := said(inv, false); got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
		if !uninstall.Left(inv) {
			t.Errorf("step %d: nothing is left", i)
		}
	}
	inv.Machines = nil
	if got := said(inv, false); got != "" || uninstall.Left(inv) {
		t.Errorf("at the end: %q", got)
	}
}

func TestMachinesThatStayAreLetGoBeforeTheirPools(t *testing.T) {
	t.Parallel()
	inv := inventory()
	inv.Pools, inv.Claims, inv.Nodes, inv.Classes = []*v1.NodePool{pool("p")}, []*v1.NodeClaim{claim("a")}, []*corev1.Node{node("a"), node("z")}, []provider.Class{class()}
	if got := said(inv, true); got != "let go a" {
		t.Errorf("first %q", got)
	}
	if a := uninstall.Next(inv, true)[0]; len(a.Nodes) != 1 || a.Nodes[0].Name != "a" || a.Machine != "kwok://a" {
		t.Errorf("%+v", a)
	}
	inv.Claims = nil
	inv.Nodes = inv.Nodes[1:]
	if got := said(inv, true); got != "free z" {
		t.Errorf("then %q", got)
	}
	inv.Nodes[0] = uninstall.Freed(inv.Nodes[0])
	if got := said(inv, true); got != "ask" {
		t.Errorf("then %q", got)
	}
	inv.Asked, inv.Machines = true, []engine.Machine{{ID: "kwok://q"}}
	if got := said(inv, true); got != "release kwok://q" {
		t.Errorf("then %q", got)
	}
	inv.Machines = nil
	if got := said(inv, true); got != "delete p, let go class default" {
		t.Errorf("at last %q", got)
	}
}

func TestAFreedNodeHasNoTieToTheAutoscaler(t *testing.T) {
	t.Parallel()
	n := node("a")
	n.Finalizers = append(n.Finalizers, "example.com/mine")
	n.OwnerReferences = []metav1.OwnerReference{{Kind: "NodeClaim", Name: "a"}, {Kind: "Machine", Name: "m"}}
	n.Spec.Taints = []corev1.Taint{v1.DisruptedTaint(), kube.OpeningTaint(), {Key: "mine"}}
	n.Labels[v1.ExcludeBalancersLabelKey] = v1.ExcludeBalancersValue
	got := uninstall.Freed(n)
	if !slices.Equal(got.Finalizers, []string{"example.com/mine"}) || len(got.OwnerReferences) != 1 || len(got.Spec.Taints) != 1 || got.Labels[v1.ExcludeBalancersLabelKey] != "" {
		t.Errorf("%+v", got)
	}
	if len(n.Finalizers) != 2 || len(n.Spec.Taints) != 3 {
		t.Error("the node that was handed in has changed")
	}
}

func TestWhatOthersHoldIsNamedAndNotTouched(t *testing.T) {
	t.Parallel()
	inv := inventory()
	held, foreign, strange := claim("held"), claim("foreign"), node("strange")
	held.DeletionTimestamp, held.Finalizers = deleted(), []string{"example.com/hold"}
	foreign.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "x"}
	strange.Labels = map[string]string{"karpenter.azure.com/aksnodeclass": "x"}
	auto := node("auto")
	auto.Labels = map[string]string{"eks.amazonaws.com/nodeclass": "default"}
	inv.Claims, inv.Nodes, inv.Asked = []*v1.NodeClaim{held, foreign}, []*corev1.Node{strange, auto}, true
	for _, keep := range []bool{false, true} {
		if got := said(inv, keep); got != "" || uninstall.Left(inv) {
			t.Errorf("%q", got)
		}
	}
	if got := fmt.Sprint(uninstall.Strangers(inv)); got != "[{NodeClaim held [example.com/hold]} {NodeClaim foreign []}]" {
		t.Error(got)
	}
}

// A class with finalizers of other programs does not keep either mode from its end. The machines are listed nevertheless.
func TestAClassThatOthersHoldIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inv, held := inventory(), class()
	held.Object.SetDeletionTimestamp(deleted())
	held.Object.SetFinalizers([]string{"example.com/hold"})
	inv.Classes = []provider.Class{held}
	for _, keep := range []bool{false, true} {
		inv.Asked = false
		if got := said(inv, keep); got != "ask" {
			t.Errorf("%q, want ask", got)
		}
		inv.Asked = true
		if got := said(inv, keep); got != "" || uninstall.Left(inv) {
			t.Errorf("then %q", got)
		}
	}
}

func TestKindsAreSharedWithAnotherProvider(t *testing.T) {
	t.Parallel()
	inv := inventory()
	inv.Pools, inv.Claims = []*v1.NodePool{pool("ours")}, []*v1.NodeClaim{claim("ours")}
	if uninstall.Shared(inv) {
		t.Error("only our own are there")
	}
	theirs := pool("theirs")
	theirs.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	inv.Pools = append(inv.Pools, theirs)
	if !uninstall.Shared(inv) {
		t.Error("the pool of another provider is overlooked")
	}
}

func TestANodeOfNobodyIsLetGoOnlyIfItsMachineIsGone(t *testing.T) {
	t.Parallel()
	inv, n := inventory(), node("a")
	n.Labels = nil
	inv.Nodes = []*corev1.Node{n}
	if got := uninstall.Next(inv, false); len(got) != 1 || got[0].Verb != uninstall.Confirm || got[0].Machine != "kwok://a" {
		t.Errorf("%+v", got)
	}
}

// If machines start while machines are to be kept, a controller that is stopped too early leaves their nodes closed for pods.
func TestMachinesThatAreStillJoiningAreSeen(t *testing.T) {
	t.Parallel()
	inv := inventory()
	started, registered, starting, ending, foreign := claim("started"), claim("registered"), claim("starting"), claim("ending"), claim("foreign")
	v1.SetCondition(registered, v1.ConditionRegistered, metav1.ConditionTrue, "", "", deleted().Time)
	starting.Status.ProviderID = ""
	ending.DeletionTimestamp = deleted()
	foreign.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "x"}
	inv.Claims = []*v1.NodeClaim{started, registered, starting, ending, foreign}
	if got := uninstall.Joining(inv); len(got) != 1 || got[0] != started {
		t.Errorf("%d claims", len(got))
	}
}

// The node has no claim, and the cloud cannot be asked about it, so only its finalizer can be removed.
func TestANodeWithoutAProviderIDLosesItsFinalizer(t *testing.T) {
	t.Parallel()
	inv, n, theirs := inventory(), node("a"), node("b")
	n.Spec.ProviderID, theirs.Spec.ProviderID = "", ""
	foreign := claim("foreign")
	foreign.Spec.NodeClassRef, foreign.Status.ProviderID = &v1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "x"}, ""
	theirs.Labels, theirs.OwnerReferences = nil, []metav1.OwnerReference{{Kind: "NodeClaim", Name: foreign.Name, UID: foreign.UID}}
	inv.Nodes, inv.Claims = []*corev1.Node{n, theirs}, []*v1.NodeClaim{foreign}
	for keep, want := range map[bool]string{false: "confirm", true: "free"} {
		if got := said(inv, keep); got != want+" a" {
			t.Errorf("keep %v: %q, want %s", keep, got, want)
		}
		if got := uninstall.Next(inv, keep); len(got) != 1 || got[0].Object.GetName() != "a" || !uninstall.Left(inv) {
			t.Errorf("keep %v: %d actions", keep, len(got))
		}
	}
}
