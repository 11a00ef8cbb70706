package nodeclass_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/nodeclass"
	"tenon.sh/provider"
)

// answering is a provider whose classes all have one problem.
type answering struct {
	provider.Provider
	problem string
}

func (a *answering) Resolve(context.Context, provider.Class) (string, error) { return a.problem, nil }

func TestTheClassSaysWhatTheProviderSays(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{}, &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}})
	config := w.Cluster.Config
	cloud := &answering{Provider: config.Provider}
	config.Provider = cloud
	r := &nodeclass.Reconciler{Cluster: cluster.New(config)}
	ready := func() metav1.Condition {
		w.Must(r.Reconcile(w))
		class := &kwokv1alpha1.KWOKNodeClass{}
		w.Must(w.Client.Get(w, client.ObjectKey{Name: "fresh"}, class))
		return *v1.GetCondition(class, v1.ConditionReady)
	}
	if c := ready(); c.Status != metav1.ConditionTrue {
		t.Errorf("a class without a problem: %+v", c)
	}
	cloud.problem = "no image found"
	if c := ready(); c.Status != metav1.ConditionFalse || c.Message != "no image found" {
		t.Errorf("a class with a problem: %+v", c)
	}
	cloud.problem = ""
	if c := ready(); c.Status != metav1.ConditionTrue {
		t.Errorf("a class that was cured: %+v", c)
	}
}

func TestAClassThatIsReadyIsNotWritten(t *testing.T) {
	writes := 0
	w := clustertest.New(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	r := &nodeclass.Reconciler{Cluster: w.Cluster}
	w.Must(r.Reconcile(w))
	w.Must(r.Reconcile(w))
	if writes != 0 {
		t.Errorf("%d writes to a class that says already that it is ready", writes)
	}
}
