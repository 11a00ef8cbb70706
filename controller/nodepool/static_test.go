package nodepool_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/nodepool"
	"tenon.sh/engine/kube"
)

func staticPool(replicas int64) *v1.NodePool {
	pool := clustertest.Pool("fixed")
	pool.Spec.Replicas = &replicas
	return pool
}

func newStatic(w *clustertest.World) *nodepool.Static {
	return nodepool.NewStatic(nodepool.StaticConfig{Cluster: w.Cluster, Metrics: w.Metrics})
}

// living counts the claims that have not been told to go.
func living(w *clustertest.World) int {
	w.Helper()
	n := 0
	for _, c := range w.Claims() {
		if c.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func TestAStaticPoolGetsItsReplicas(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{}, staticPool(10))
	r := newStatic(w)
	for range 3 {
		w.Must(r.Reconcile(w))
		if living(w) != 10 {
			t.Fatalf("%d claims", living(w))
		}
	}
	claim := w.Claims()[0]
	if claim.Labels[v1.NodePoolLabelKey] != "fixed" || claim.Annotations[v1.NodePoolHashAnnotationKey] == "" || len(claim.OwnerReferences) != 1 ||
		!slices.Contains(claim.Finalizers, v1.TerminationFinalizer) || claim.Annotations[kube.PlannedPodsAnnotation] != "" {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
	if !slices.ContainsFunc(claim.Spec.Requirements, func(r v1.Requirement) bool { return r.Key == corev1.LabelOSStable }) {
		t.Errorf("the template's requirements are missing: %+v", claim.Spec.Requirements)
	}
}

func TestTheTemplateOfAStaticPoolReachesItsClaims(t *testing.T) {
	t.Parallel()
	pool := staticPool(1)
	pool.Spec.Template.Labels = map[string]v1.LabelValue{"team": "a"}
	pool.Spec.Template.Annotations = map[string]string{"note": "b"}
	pool.Spec.Template.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	w := clustertest.New(t, interceptor.Funcs{}, pool)
	w.Must(newStatic(w).Reconcile(w))
	claim := w.Claims()[0]
	if claim.Labels["team"] != "a" || claim.Annotations["note"] != "b" || len(claim.Spec.Taints) != 1 {
		t.Errorf("labels %v, annotations %v, taints %v", claim.Labels, claim.Annotations, claim.Spec.Taints)
	}
}

func TestAStaticPoolNeverExceedsItsLimit(t *testing.T) {
	t.Parallel()
	pool := staticPool(10)
	pool.Spec.Limits = v1.Limits{v1.ResourceNodes: resource.MustParse("5")}
	w := clustertest.New(t, interceptor.Funcs{}, pool)
	r := newStatic(w)
	w.Must(r.Reconcile(w))
	claim := w.Claims()[0]
	w.Must(w.Client.Delete(w, &claim)) // it stays until its machine is gone
	w.Must(r.Reconcile(w))
	if n := len(w.Claims()); n != 5 {
		t.Errorf("%d claims, the limit is 5", n)
	}
}

func TestAStaticPoolShrinksAndGrowsWithItsReplicas(t *testing.T) {
	t.Parallel()
	pool := staticPool(10)
	w := clustertest.New(t, interceptor.Funcs{}, pool)
	r := newStatic(w)
	for _, want := range []int64{10, 15, 4, 0, 3} {
		pool.Spec.Replicas = &want
		w.Must(w.Client.Update(w, pool))
		w.Must(r.Reconcile(w))
		if living(w) != int(want) {
			t.Errorf("%d claims, %d replicas", living(w), want)
		}
	}
}

// Two processes create at the same time without seeing what the other does.
func TestTwoWhoSeeTheSameCreateNothingTwice(t *testing.T) {
	t.Parallel()
	blind := atomic.Bool{}
	w := clustertest.New(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1.NodeClaimList); ok && blind.Load() {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	}, staticPool(5))
	other := nodepool.NewStatic(nodepool.StaticConfig{Cluster: cluster.New(w.Cluster.Config), Metrics: w.Metrics})
	blind.Store(true)
	w.Must(newStatic(w).Reconcile(w))
	w.Must(other.Reconcile(w))
	blind.Store(false)
	if n := len(w.Claims()); n != 5 {
		t.Errorf("%d claims, want 5", n)
	}
}

func TestAStaticPoolThatCannotBeUsedGetsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1.NodePool){
		"not ready": func(p *v1.NodePool) {
			v1.SetCondition(p, v1.ConditionNodeClassReady, metav1.ConditionFalse, "Gone", "gone", old)
		},
		"being deleted": func(p *v1.NodePool) {
			now := metav1.NewTime(old)
			p.DeletionTimestamp, p.Finalizers = &now, []string{"example.com/hold"}
		},
		"no replicas": func(p *v1.NodePool) { p.Spec.Replicas = nil },
		"of another provider": func(p *v1.NodePool) {
			p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "example.com", Kind: "Other", Name: "default"}
		},
		"nothing meets it": func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{"s390x"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := staticPool(3)
			change(pool)
			w := clustertest.New(t, interceptor.Funcs{}, pool)
			w.Must(newStatic(w).Reconcile(w))
			if n := len(w.Claims()); n != 0 {
				t.Errorf("%d claims", n)
			}
		})
	}
}

func TestClaimsThatCouldNotBeCreatedOrDeletedAreTriedAgain(t *testing.T) {
	t.Parallel()
	failing := true
	broken := errors.New("no")
	pool := staticPool(3)
	w := clustertest.New(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if failing {
				return broken
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if failing {
				return broken
			}
			return c.Delete(ctx, o, opts...)
		},
	}, pool)
	r := newStatic(w)
	if err := r.Reconcile(w); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	failing = false
	w.Must(r.Reconcile(w))
	if living(w) != 3 {
		t.Fatalf("%d claims", living(w))
	}
	failing = true
	none := int64(0)
	pool.Spec.Replicas = &none
	w.Must(w.Client.Update(w, pool))
	if err := r.Reconcile(w); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	failing = false
	w.Must(r.Reconcile(w))
	if living(w) != 0 {
		t.Errorf("%d claims", living(w))
	}
}
