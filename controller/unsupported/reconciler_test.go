package unsupported_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/unsupported"
)

func TestObjectsWithoutEffectSaySo(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	overlay := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "cheap"}}
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "room"}}
	c := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithStatusSubresource(overlay, buffer).WithObjects(overlay, buffer).Build()
	r := &unsupported.Reconciler{API: c, Writer: c, Clock: w.Clock}
	for range 2 {
		w.Must(r.Reconcile(w))
	}
	w.Must(c.Get(w, client.ObjectKeyFromObject(overlay), overlay))
	w.Must(c.Get(w, client.ObjectKeyFromObject(buffer), buffer))
	for name, conditions := range map[string][]metav1.Condition{"NodeOverlay": overlay.Status.Conditions, "CapacityBuffer": buffer.Status.Conditions} {
		if !meta.IsStatusConditionTrue(conditions, v1.ConditionNotSupported) {
			t.Errorf("%s: %+v", name, conditions)
		}
	}
}

// A kind that is not installed is not asked for each minute, and found within an hour once it is.
func TestAKindThatIsNotServedIsAskedForSeldom(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	asked, served := 0, false
	overlay := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "cheap"}}
	c := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithStatusSubresource(overlay).WithObjects(overlay).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked++
			if !served {
				return &meta.NoKindMatchError{}
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r := &unsupported.Reconciler{API: c, Writer: c, Clock: w.Clock, Buffers: true}
	for range 59 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(time.Minute)
	}
	if asked != 1 {
		t.Errorf("asked %d times in an hour", asked)
	}
	served = true
	for range 3 {
		w.Clock.Step(time.Minute)
		w.Must(r.Reconcile(w))
	}
	w.Must(c.Get(w, client.ObjectKeyFromObject(overlay), overlay))
	if !meta.IsStatusConditionTrue(overlay.Status.Conditions, v1.ConditionNotSupported) || asked != 4 {
		t.Errorf("asked %d times; the overlay says %+v", asked, overlay.Status.Conditions)
	}
}
