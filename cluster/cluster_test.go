package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
)

// lagging returns a cluster whose watch shows no claim until the test lets it.
type lagging struct {
	*clustertest.World
	show bool
}

func newLagging(t *testing.T, objects ...client.Object) *lagging {
	l := &lagging{}
	l.World = clustertest.New(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if claims, ok := list.(*v1.NodeClaimList); ok && !l.show {
				claims.Items = nil
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	}, objects...)
	return l
}

func (l *lagging) snapshot() *engine.Snapshot {
	l.Helper()
	s, err := l.Cluster.Snapshot(l)
	l.Must(err)
	return s
}

func TestSnapshotHoldsAClaimThatTheWatchDoesNotShowYet(t *testing.T) {
	pool := clustertest.Pool("general")
	w := newLagging(t, pool)
	claim, err := w.Cluster.CreateClaim(w, pool, engine.Launch{Name: "general-1", NodePool: "general"})
	w.Must(err)
	if got := w.snapshot().NodeClaims; len(got) != 1 || got[0].UID != claim.UID {
		t.Fatalf("the snapshot holds %d claims, want the new one", len(got))
	}
	w.show = true
	if got := w.snapshot().NodeClaims; len(got) != 1 {
		t.Fatalf("the snapshot holds %d claims once the watch shows it, want 1", len(got))
	}
	w.show = false
	if got := w.snapshot().NodeClaims; len(got) != 0 {
		t.Errorf("the snapshot holds a claim that the watch showed and shows no more")
	}
}

func TestSnapshotsAndTheirDocumentsSayWhatEveryNodeCosts(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{})
	w.Cluster.NodeOverheadPrice = 0.25
	s, err := w.Cluster.Snapshot(w)
	w.Must(err)
	document, err := w.Cluster.CatalogDocument(w, engine.Options{})
	w.Must(err)
	if s.NodeOverheadPrice != 0.25 || document.NodeOverheadPrice != 0.25 {
		t.Errorf("the snapshot says %v, the document %v", s.NodeOverheadPrice, document.NodeOverheadPrice)
	}
}

func TestSnapshotDropsAnUnseenClaimThatTheAPIServerDoesNotHave(t *testing.T) {
	pool := clustertest.Pool("general")
	w := newLagging(t, pool)
	claim, err := w.Cluster.CreateClaim(w, pool, engine.Launch{Name: "general-1", NodePool: "general"})
	w.Must(err)
	w.Clock.Step(6 * time.Second)
	if got := w.snapshot().NodeClaims; len(got) != 1 {
		t.Fatal("a claim that exists was dropped because the watch is slow")
	}
	gone := claim.DeepCopy()
	gone.Finalizers = nil
	w.Must(w.Client.Update(w, gone))
	w.Must(w.Client.Delete(w, gone))
	w.Clock.Step(6 * time.Second)
	if got := w.snapshot().NodeClaims; len(got) != 0 {
		t.Error("a claim that the API server does not have stays in the snapshot")
	}
}

func TestSnapshotShowsWhatWasWrittenBeforeTheWatchDoes(t *testing.T) {
	pool := clustertest.Pool("general")
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	claim, node := clustertest.Machine(pool, "general-a", old)
	var stale []corev1.Node
	w := clustertest.New(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if nodes, ok := list.(*corev1.NodeList); ok && stale != nil {
				nodes.Items = stale
			}
			return err
		},
	}, pool, claim, node)
	var before corev1.NodeList
	w.Must(w.Client.List(w, &before))
	stale = before.Items
	_, err := w.Cluster.PatchNode(w, &before.Items[0], func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()} })
	w.Must(err)
	s, err := w.Cluster.Snapshot(w)
	w.Must(err)
	if len(s.Nodes) != 1 || len(s.Nodes[0].Spec.Taints) != 1 {
		t.Fatal("the snapshot does not show the taint")
	}
	w.Must(w.Cluster.DeleteClaim(w, claim))
	s, err = w.Cluster.Snapshot(w)
	w.Must(err)
	if len(s.NodeClaims) != 1 || s.NodeClaims[0].DeletionTimestamp == nil {
		t.Error("the snapshot does not show that the claim was told to go")
	}
}

func TestOnlyTheVeryClaimIsDeleted(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	asked := client.DeleteOptions{}
	w := clustertest.New(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			asked.ApplyOptions(opts)
			return c.Delete(ctx, o, opts...)
		},
	}, pool, claim, node)
	w.Must(w.Cluster.DeleteClaim(w, claim))
	if asked.Preconditions == nil || asked.Preconditions.UID == nil || *asked.Preconditions.UID != claim.UID {
		t.Error("a claim of the same name that is another one would be deleted as well")
	}
}

func TestPoolsOfOtherProvidersAreNotInTheSnapshot(t *testing.T) {
	other := clustertest.Pool("other")
	other.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "example.com", Kind: "Class", Name: "x"}
	w := newLagging(t, clustertest.Pool("general"), other)
	if pools := w.snapshot().NodePools; len(pools) != 1 || pools[0].Name != "general" {
		t.Errorf("got %d pools, want general only", len(pools))
	}
}

func TestAClassThatIsMissingIsAProblemOfItsPoolsOnly(t *testing.T) {
	lost := clustertest.Pool("lost")
	lost.Spec.Template.Spec.NodeClassRef.Name = "missing"
	w := newLagging(t, clustertest.Pool("general"), lost)
	s := w.snapshot()
	if len(s.Classes) != 2 || s.Classes[0].Problem != "" || len(s.Classes[0].InstanceTypes) == 0 {
		t.Errorf("the class that exists suffers: %+v", s.Classes[0].Problem)
	}
	if s.Classes[1].Problem != "it does not exist" {
		t.Errorf("problem %q", s.Classes[1].Problem)
	}
}

func TestSoldOutOfferingsAreLeftAloneForLongerEachTime(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	class := w.snapshot().Classes[0]
	id := engine.OfferingID{InstanceType: "c-1x-amd64-linux", Zone: "test-zone-a", CapacityType: "spot"}
	soldOut := func() int {
		n := 0
		for _, t := range w.snapshot().Classes[0].InstanceTypes {
			for _, o := range t.Offerings {
				if o.SoldOut {
					n++
				}
			}
		}
		return n
	}
	for _, lasts := range []time.Duration{3, 6, 12, 24, 30, 30} {
		w.Cluster.MarkSoldOut(class.Ref, []engine.OfferingID{id, id})
		w.Cluster.MarkSoldOut(class.Ref, []engine.OfferingID{id}) // launches fail together, and count as one failure
		if got := soldOut(); got != 1 {
			t.Fatalf("%d offerings are sold out, want 1", got)
		}
		w.Clock.Step(lasts*time.Minute - time.Second)
		if soldOut() != 1 {
			t.Errorf("on sale again before %d minutes", lasts)
		}
		w.Clock.Step(time.Second)
		if soldOut() != 0 {
			t.Errorf("not on sale again after %d minutes", lasts)
		}
	}
	w.Clock.Step(2 * time.Hour)
	w.Cluster.MarkSoldOut(class.Ref, []engine.OfferingID{id})
	w.Clock.Step(3 * time.Minute)
	if soldOut() != 0 {
		t.Error("what was sold out long ago still counts")
	}
}

func TestTheCatalogIsSharedBetweenSnapshots(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	a, b := w.snapshot().Classes[0].InstanceTypes, w.snapshot().Classes[0].InstanceTypes
	if &a[0] != &b[0] {
		t.Error("each snapshot copies the catalog")
	}
}

func TestSlimPodsKeepWhatDecisionsNeed(t *testing.T) {
	pod := clustertest.Pending("web", "1")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true", "example.com/long": "text"}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "B"}}
	pod.Spec.Containers[0].Command = []string{"run"}
	pod.Spec.NodeSelector = map[string]string{"a": "b"}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}
	for kind, options := range cluster.CacheOptions().ByObject {
		if _, ok := kind.(*corev1.Pod); ok {
			_, err := options.Transform(pod)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	c := pod.Spec.Containers[0]
	if pod.ManagedFields != nil || c.Env != nil || c.Command != nil || len(pod.Annotations) != 1 || len(pod.Spec.Volumes) != 1 {
		t.Errorf("kept too much: %+v", pod)
	}
	if c.Resources.Requests.Cpu().String() != "1" || pod.Spec.NodeSelector["a"] != "b" || pod.Spec.Volumes[0].Name != "data" ||
		pod.Annotations[v1.DoNotDisruptAnnotationKey] != "true" || !kube.IsPending(pod) {
		t.Errorf("lost something: %+v", pod)
	}
}

// late returns a second mirror of the world's cluster, whose watch shows no claims, as in a process that has just started.
func late(w *clustertest.World) *cluster.Cluster {
	config := w.Cluster.Config
	config.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, claims := list.(*v1.NodeClaimList); claims {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	return cluster.New(config)
}

func TestAProcessThatBeginsWithOldListsKnowsTheClaimsOfTheLastOne(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	w := clustertest.New(t, interceptor.Funcs{}, pool)
	_, err := w.Cluster.CreateClaim(w, pool, engine.Launch{Name: "general-1", NodePool: "general"})
	w.Must(err)
	s, err := late(w).Snapshot(w)
	w.Must(err)
	if len(s.NodeClaims) != 1 {
		t.Errorf("the snapshot holds %d claims, want the one that is there", len(s.NodeClaims))
	}
}

func TestNothingIsLaunchedByWhoDoesNotLead(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	w := clustertest.New(t, interceptor.Funcs{}, pool)
	w.Cluster.Leader = "a"
	leads := error(nil)
	w.Cluster.Leads = func(context.Context) error { return leads }
	launch := func() error {
		_, err := w.Cluster.CreateClaim(w, pool, engine.Launch{Name: "general-1", NodePool: "general"})
		return err
	}
	w.Must(w.Cluster.Launching(w, launch))
	leads = errors.New("somebody else does")
	if err := w.Cluster.Launching(w, launch); !errors.Is(err, leads) {
		t.Errorf("it was launched: %v", err)
	}
	var claims v1.NodeClaimList
	w.Must(w.Client.List(w, &claims))
	if len(claims.Items) != 1 || claims.Items[0].Annotations[v1.LeaderAnnotationKey] != "a" {
		t.Errorf("want one claim that names its leader: %+v", claims.Items)
	}
}

func TestAClaimWhoseCreationGotNoAnswerIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	lost := false
	w := clustertest.New(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if lost {
				return apierrors.NewTimeoutError("no answer", 1)
			}
			return err
		},
	}, pool)
	mirror := late(w)
	_, err := mirror.Snapshot(w)
	w.Must(err)
	lost = true
	if _, err := mirror.CreateClaim(w, pool, engine.Launch{Name: "general-1", NodePool: "general"}); err == nil {
		t.Fatal("no error")
	}
	s, err := mirror.Snapshot(w)
	w.Must(err)
	if len(s.NodeClaims) != 1 {
		t.Errorf("the snapshot holds %d claims, want the one that was created after all", len(s.NodeClaims))
	}
}

// repairer is a provider with one repair policy.
type repairer struct{ provider.Repairer }

func (repairer) Repairs() []engine.RepairPolicy {
	return []engine.RepairPolicy{{Condition: "Ready", Status: "False"}}
}

func TestClassesSayWhichNodesAreBrokenIfAnybodyKnows(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	if r := w.snapshot().Classes[0].Repairs; len(r) > 0 {
		t.Errorf("nobody was asked, and the class says %+v", r)
	}
	w.Cluster.Repairer = repairer{}
	if r := w.snapshot().Classes[0].Repairs; len(r) != 1 || r[0].Condition != "Ready" {
		t.Errorf("the class says %+v", r)
	}
}

// healthChecker is a repairer in whose cloud other programs replace machines.
type healthChecker struct {
	repairer
	err error
}

func (h healthChecker) Tended(context.Context, provider.Class) ([]string, error) {
	return []string{"claim-1"}, h.err
}

func TestClassesSayWhichMachinesOthersRepair(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	w.Cluster.Repairer = healthChecker{}
	ref := w.snapshot().Classes[0].Ref
	refresh := func() error {
		class, err := w.Cluster.Class(w, ref)
		w.Must(err)
		return w.Cluster.RefreshCatalog(w, class)
	}
	w.Must(refresh())
	if tended := w.snapshot().Classes[0].Tended; !slices.Equal(tended, []string{"claim-1"}) {
		t.Errorf("the class says %v, want claim-1", tended)
	}
	w.Cluster.Repairer = healthChecker{err: errors.New("out of reach")}
	if err := refresh(); err == nil || !strings.Contains(err.Error(), "out of reach") {
		t.Errorf("the error is %v", err)
	}
	if tended := w.snapshot().Classes[0].Tended; !slices.Equal(tended, []string{"claim-1"}) {
		t.Errorf("the class says %v while nobody can be asked, want claim-1 as before", tended)
	}
}

// rationer returns a quota with so much left, or no known quota.
type rationer struct{ left *int64 }

func (r rationer) Quotas(context.Context, provider.Class) ([]engine.Quota, error) {
	if *r.left < 0 {
		return nil, nil
	}
	return []engine.Quota{{Name: "cores", Left: *r.left, Limit: 10}}, nil
}

func TestClassesSayWhatQuotasHaveLeftAndMoreOfItIsToldOf(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	told, left := 0, int64(4)
	w.Cluster.OnCatalogChange(func() { told++ })
	w.Cluster.Rationer = rationer{&left}
	class, err := w.Cluster.Class(w, w.snapshot().Classes[0].Ref)
	w.Must(err)
	for _, step := range []struct {
		left int64
		tell bool
	}{{4, false}, {2, false}, {2, false}, {3, true}, {-1, true}, {1, false}} {
		before := told
		left = step.left
		w.Must(w.Cluster.RefreshCatalog(w, class))
		if (told > before) != step.tell {
			t.Errorf("with %d left somebody is told: %t, want %t", step.left, told > before, step.tell)
		}
		quotas := w.snapshot().Classes[0].Quotas
		if known := len(quotas) == 1; known != (step.left >= 0) || known && quotas[0].Left != step.left {
			t.Errorf("with %d left the class says %+v", step.left, quotas)
		}
	}
}

// inspector requires machines to have one image.
type inspector struct {
	provider.Inspector
	err error
}

func (i inspector) Traits(context.Context, provider.Class) ([]engine.Trait, error) {
	if i.err != nil {
		return nil, i.err
	}
	return []engine.Trait{{Key: engine.ImageTrait, Accepts: []string{"image-1"}, Reason: "ImageDrift"}}, nil
}

func TestClassesSayWhatTheirMachinesHaveToLookLike(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	ref := w.snapshot().Classes[0].Ref
	w.Cluster.Inspector = inspector{}
	told := 0
	w.Cluster.OnTraitsChange(func(of v1.NodeClassReference) {
		if told++; of != ref {
			t.Errorf("told of %v, want %v", of, ref)
		}
	})
	class, err := w.Cluster.Class(w, ref)
	w.Must(err)
	for range 2 {
		w.Must(w.Cluster.RefreshCatalog(w, class))
	}
	if told != 1 {
		t.Errorf("told %d times that something changed, want once", told)
	}
	if traits := w.Cluster.ClassOf(w, ref).Traits; len(traits) != 1 || traits[0].Accepts[0] != "image-1" {
		t.Errorf("the class says %+v", traits)
	}
	w.Cluster.Inspector = inspector{err: errors.New("throttled")}
	if err := w.Cluster.RefreshCatalog(w, class); err == nil {
		t.Error("nobody hears that the question failed")
	}
	if len(w.Cluster.ClassOf(w, ref).Traits) != 1 {
		t.Error("what was known is forgotten")
	}
	class.Object.(client.Object).SetGeneration(class.Object.GetGeneration() + 1)
	_ = w.Cluster.RefreshCatalog(w, class)
	if traits := w.Cluster.ClassOf(w, ref).Traits; len(traits) > 0 {
		t.Errorf("machines of the new class are held against the old one: %+v", traits)
	}
}

// bare is a provider with an empty catalog until the test changes that.
type bare struct {
	provider.Provider
	sells *bool
	asked *int
}

func (b bare) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	*b.asked++
	if !*b.sells {
		return nil, errors.New("no subnets")
	}
	return b.Provider.Catalog(ctx, class)
}

// Snapshots are made after each event, and a class whose provider fails is written again and again. Only the controller of node classes, which
// waits longer each time, asks the provider again.
func TestAClassWithoutACatalogIsAskedAgainByItsOwnLoopAlone(t *testing.T) {
	w := newLagging(t, clustertest.Pool("general"))
	config, sells, asked := w.Cluster.Config, false, 0
	config.Provider = bare{config.Provider, &sells, &asked}
	c := cluster.New(config)
	ref := w.snapshot().Classes[0].Ref
	if class := c.ClassOf(w, ref); len(class.InstanceTypes) > 0 || !strings.Contains(class.Problem, "no subnets") {
		t.Errorf("the class says %q", class.Problem)
	}
	class, err := c.Class(w, ref)
	w.Must(err)
	if c.CatalogAged(class) {
		t.Error("the provider is to be asked about the same class again at once")
	}
	object := class.Object.(client.Object)
	object.SetLabels(map[string]string{"a": "b"}) // its generation stays the same
	w.Must(w.Client.Update(w, object))
	for range 3 {
		s, err := c.Snapshot(w)
		w.Must(err)
		if !strings.Contains(s.Classes[0].Problem, "no subnets") {
			t.Errorf("the class says %q", s.Classes[0].Problem)
		}
	}
	if asked != 1 {
		t.Errorf("the provider was asked %d times, want once", asked)
	}
	sells = true
	if !c.CatalogAged(class) {
		t.Error("the class has changed, and is not to be asked about")
	}
	w.Must(c.RefreshCatalog(w, class))
	if class := c.ClassOf(w, ref); class.Problem != "" || len(class.InstanceTypes) == 0 || asked != 2 {
		t.Errorf("the class says %q after %d questions", class.Problem, asked)
	}
	sells = false
	object.SetGeneration(object.GetGeneration() + 1) // a user edited it, so its fault is not known yet
	w.Must(w.Client.Update(w, object))
	if c.ClassOf(w, ref); asked != 3 {
		t.Errorf("%d questions after an edit, want 3", asked)
	}
}
