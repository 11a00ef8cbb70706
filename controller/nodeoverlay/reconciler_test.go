package nodeoverlay_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
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
