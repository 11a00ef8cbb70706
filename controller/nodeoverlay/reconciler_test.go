package nodeoverlay_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/nodeclass"
	"tenon.sh/controller/nodeoverlay"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
)

func overlayNamed(name, price string) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "overlay"}, Spec: v1alpha1.NodeOverlaySpec{Requirements: []v1alpha1.Requirement{}}}
	if price != "" {
		o.Spec.Price = &price
	}
	return o
}

// newWorld is a cluster in memory in which NodeOverlays act.
func newWorld(t *testing.T, objects ...client.Object) (*clustertest.World, *nodeoverlay.Reconciler) {
	t.Helper()
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	w := clustertest.New(t, interceptor.Funcs{}, append(objects, pool)...)
	config := w.Cluster.Config
	config.Overlays = true
	w.Cluster = cluster.New(config)
	return w, nodeoverlay.New(nodeoverlay.Config{Cluster: w.Cluster, Recorder: w.Recorder})
}

func TestConditionsSayWhetherAnOverlayIsInForce(t *testing.T) {
	t.Parallel()
	said := overlayNamed("a-second", "2")
	v1.SetCondition(said, v1.ConditionNotSupported, metav1.ConditionTrue, "", "no effect", metav1.Now().Time)
	wrong := overlayNamed("wrong", "-4")
	w, r := newWorld(t, said, overlayNamed("b-first", "1"), wrong)
	for range 2 {
		w.Must(r.Reconcile(w))
	}
	for name, want := range map[string]struct {
		status       metav1.ConditionStatus
		reason, says string
	}{
		"a-second": {metav1.ConditionFalse, "Conflict", "conflict with NodeOverlay b-first, which has the same weight (0)"},
		"b-first":  {metav1.ConditionTrue, "ValidationSucceeded", "in 1 NodePool: general"},
		"wrong":    {metav1.ConditionFalse, "RuntimeValidation", `spec.price is "-4": write a price`},
	} {
		var o v1alpha1.NodeOverlay
		w.Must(w.Client.Get(w, client.ObjectKey{Name: name}, &o))
		valid, ready := v1.GetCondition(&o, v1.ConditionValidationSucceeded), v1.GetCondition(&o, v1.ConditionReady)
		if valid == nil || ready == nil || valid.Status != want.status || valid.Reason != want.reason || ready.Status != want.status || !strings.Contains(valid.Message, want.says) {
			t.Errorf("%s: %+v", name, o.Status.Conditions)
		}
		if v1.GetCondition(&o, v1.ConditionNotSupported) != nil {
			t.Errorf("%s: that it has no effect is still said", name)
		}
	}
}

func TestAConflictEndsWhenOneOfTheTwoGoes(t *testing.T) {
	t.Parallel()
	first := overlayNamed("b-first", "1")
	w, r := newWorld(t, overlayNamed("a-second", "2"), first)
	w.Must(r.Reconcile(w))
	w.Must(w.Client.Delete(w, first))
	w.Must(r.Reconcile(w))
	var o v1alpha1.NodeOverlay
	w.Must(w.Client.Get(w, client.ObjectKey{Name: "a-second"}, &o))
	if !v1.IsTrue(&o, v1.ConditionReady) {
		t.Errorf("%+v", o.Status.Conditions)
	}
}

func TestSnapshotsAndLaunchesAreCorrected(t *testing.T) {
	t.Parallel()
	o := overlayNamed("fuse", "0.001")
	o.Spec.Capacity = corev1.ResourceList{"smarter-devices/fuse": resource.MustParse("20")}
	o.Spec.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m-4x-amd64-linux"}}}
	w, _ := newWorld(t, o)
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{v1.NodePoolLabelKey: "general"}}}
	correct, err := w.Cluster.Correction(w, claim) // before any snapshot was made
	w.Must(err)
	s, err := w.Cluster.Snapshot(w)
	w.Must(err)
	listed := kube.FindClass(s, s.NodePools[0].Spec.Template.Spec.NodeClassRef)
	for name, types := range map[string][]engine.InstanceType{"snapshot": kube.ClassOf(s, s.NodePools[0]).InstanceTypes, "launch": correct(listed.InstanceTypes)} {
		for _, kind := range types {
			fuse := kind.Capacity["smarter-devices/fuse"]
			if is := kind.Name == "m-4x-amd64-linux"; is != (fuse.Value() == 20) || is != (kind.Offerings[0].Price == 0.001) {
				t.Errorf("%s: %s has %s, costs %v", name, kind.Name, fuse.String(), kind.Offerings[0].Price)
			}
		}
	}
	m := w.Cluster.Complete(listed.Ref, correct, engine.Machine{Labels: map[string]string{corev1.LabelInstanceTypeStable: "m-4x-amd64-linux"}})
	if fuse := m.Allocatable["smarter-devices/fuse"]; fuse.Value() != 20 {
		t.Errorf("the machine is said to have %v", m.Allocatable)
	}
	again, err := w.Cluster.Snapshot(w)
	w.Must(err)
	if &kube.ClassOf(again, again.NodePools[0]).InstanceTypes[0] != &kube.ClassOf(s, s.NodePools[0]).InstanceTypes[0] {
		t.Error("nothing has changed, and the catalog is another one")
	}
	document, err := w.Cluster.CatalogDocument(w, engine.Options{})
	w.Must(err)
	if len(document.Classes) != 1 || document.IgnoresOverlays {
		t.Errorf("%d classes are written", len(document.Classes))
	}
}

// unpriced sells one type of which nobody knows the price.
type unpriced struct{ provider.Provider }

func (u unpriced) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	types, err := u.Provider.Catalog(ctx, class)
	types = slices.Clone(types)
	for i := range types {
		if types[i].Name == "m-4x-amd64-linux" {
			types[i].Offerings = []engine.Offering{{Zone: "test-zone-a", CapacityType: "on-demand", SoldOut: true, Unpriced: true}}
		}
	}
	return types, err
}

func TestWhatHasNoPriceIsSoldAtAnOverlaysUnlessItIsSoldOut(t *testing.T) {
	t.Parallel()
	o := overlayNamed("preview", "0.001")
	o.Spec.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m-4x-amd64-linux"}}}
	w, _ := newWorld(t, o)
	config := w.Cluster.Config
	config.Provider = unpriced{config.Provider}
	w.Cluster = cluster.New(config)
	offered := func() engine.Offering {
		s, err := w.Cluster.Snapshot(w)
		w.Must(err)
		types := kube.ClassOf(s, s.NodePools[0]).InstanceTypes
		return types[slices.IndexFunc(types, func(t engine.InstanceType) bool { return t.Name == "m-4x-amd64-linux" })].Offerings[0]
	}
	if got := offered(); got.SoldOut || got.Price != 0.001 {
		t.Errorf("%+v", got)
	}
	w.Cluster.MarkSoldOut(v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
		[]engine.OfferingID{{InstanceType: "m-4x-amd64-linux", Zone: "test-zone-a", CapacityType: "on-demand"}})
	if got := offered(); !got.SoldOut {
		t.Errorf("%+v", got)
	}
}

func TestWithoutTheGateOverlaysAreNotRead(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t, overlayNamed("cheap", "0.001"))
	config := w.Cluster.Config
	config.Overlays = false
	w.Cluster = cluster.New(config)
	s, err := w.Cluster.Snapshot(w)
	w.Must(err)
	document, err := w.Cluster.CatalogDocument(w, engine.Options{})
	w.Must(err)
	if len(s.NodeOverlays) > 0 || len(s.Classes) != 1 || !document.IgnoresOverlays {
		t.Errorf("%d overlays, %d classes, ignored: %t", len(s.NodeOverlays), len(s.Classes), document.IgnoresOverlays)
	}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.NodePoolLabelKey: s.NodePools[0].Name}}}
	correct, err := w.Cluster.Correction(w, claim)
	w.Must(err)
	if listed := s.Classes[0].InstanceTypes; !reflect.DeepEqual(correct(listed), listed) {
		t.Error("launches are corrected")
	}
}

// What nodes show against an overlay is said once, however often anybody looks and whichever node shows it, and again once it is
// something else. Machines are planned with what the nodes show.
func TestNodesThatShowSomethingElseAreToldOnce(t *testing.T) {
	t.Parallel()
	const gpu = "nvidia.com/gpu"
	o := overlayNamed("shared", "")
	o.Spec.Capacity = corev1.ResourceList{gpu: resource.MustParse("4")}
	w, r := newWorld(t, o)
	pool := clustertest.Pool("general")
	show := func(name, amount string) {
		claim, node := clustertest.Machine(pool, name, w.Clock.Now())
		claim.Status.Capacity, node.Status.Capacity = claim.Status.Capacity.DeepCopy(), node.Status.Capacity.DeepCopy()
		claim.Status.Capacity[gpu], node.Status.Capacity[gpu] = resource.MustParse("4"), resource.MustParse(amount)
		if err := w.Client.Create(w, node); apierrors.IsAlreadyExists(err) {
			w.Must(w.Client.Status().Update(w, node))
			return
		}
		w.Must(w.Client.Create(w, claim))
	}
	for _, step := range []struct {
		does, node, shows string
		told              int // times in all
		planned           string
	}{
		{"a node shows what the overlay says", "m", "4", 0, "4"},
		{"it shows less", "m", "1", 1, "1"},
		{"another one, which comes first by name, shows the same", "a", "1", 1, "1"},
		{"it shows something else", "a", "2", 2, "2"},
	} {
		show(step.node, step.shows)
		for range 4 {
			w.Must(r.Reconcile(w))
			w.Clock.Step(time.Hour)
		}
		if told := w.Events()["NodeOverlay NodesDiffer"]; told != step.told {
			t.Errorf("%s: told %d times, want %d", step.does, told, step.told)
		}
		s, err := w.Cluster.Snapshot(w)
		w.Must(err)
		types := kube.ClassOf(s, s.NodePools[0]).InstanceTypes
		planned := types[slices.IndexFunc(types, func(t engine.InstanceType) bool { return t.Name == "c-4x-amd64-linux" })].Capacity[gpu]
		if planned.String() != step.planned {
			t.Errorf("%s: machines are planned with %s, want %s", step.does, planned.String(), step.planned)
		}
	}
}

// A class whose catalog cannot be had takes no overlay from the pools of others. Overlays are laid over what it sells as soon as
// whoever looks after classes gets it.
func TestOverlaysActBesideAClassThatFails(t *testing.T) {
	t.Parallel()
	other := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
	v1.SetCondition(other, v1.ConditionReady, metav1.ConditionTrue, "", "", time.Time{})
	lost := clustertest.Pool("lost")
	lost.Spec.Template.Spec.NodeClassRef.Name = "other"
	w, _ := newWorld(t, overlayNamed("all", "7"), other, lost)
	fails := true
	config := w.Cluster.Config
	config.Provider = failing{config.Provider, &fails}
	w.Cluster = cluster.New(config)
	r, classes := nodeoverlay.New(nodeoverlay.Config{Cluster: w.Cluster, Recorder: w.Recorder}), &nodeclass.Reconciler{Cluster: w.Cluster}
	woken := 0
	w.Cluster.OnCatalogChange(func() { woken++ })

	look := func(says string, sells map[string]bool) {
		t.Helper()
		w.Must(r.Reconcile(w))
		var o v1alpha1.NodeOverlay
		w.Must(w.Client.Get(w, client.ObjectKey{Name: "all"}, &o))
		if valid := v1.GetCondition(&o, v1.ConditionValidationSucceeded); valid.Status != metav1.ConditionTrue || !strings.Contains(valid.Message, says) {
			t.Errorf("the overlay says %+v, want %q", valid, says)
		}
		s, err := w.Cluster.Snapshot(w)
		w.Must(err)
		for _, p := range s.NodePools {
			class := kube.ClassOf(s, p)
			if sells[p.Name] != (len(class.InstanceTypes) > 0) || sells[p.Name] != (class.Problem == "") {
				t.Errorf("pool %s: %d types, problem %q", p.Name, len(class.InstanceTypes), class.Problem)
			}
			for _, kind := range class.InstanceTypes {
				if price := kind.Offerings[0].Price; price != 7 {
					t.Errorf("pool %s: %s costs %v", p.Name, kind.Name, price)
				}
			}
		}
	}
	look("in 1 NodePool: general", map[string]bool{"general": true})
	if err := classes.Reconcile(w); err != nil && !strings.Contains(err.Error(), "no subnets") {
		t.Fatal(err)
	}
	fails, woken = false, 0
	w.Clock.Step(time.Minute)
	w.Must(classes.Reconcile(w))
	if woken == 0 {
		t.Error("nobody is told that the class sells now")
	}
	look("in 2 NodePools: general, lost", map[string]bool{"general": true, "lost": true})
}

// failing cannot say what the class "other" sells.
type failing struct {
	provider.Provider
	fails *bool
}

func (f failing) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	if class.Ref.Name == "other" && *f.fails {
		return nil, errors.New("no subnets")
	}
	return f.Provider.Catalog(ctx, class)
}
