package nodeclass_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/nodeclass"
)

func TestAClassThatMayGoIsLookedAfterAtOnce(t *testing.T) {
	goes := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "goes", Finalizers: []string{"example.com/wait"}}}
	w := clustertest.New(t, interceptor.Funcs{}, goes)
	config := w.Cluster.Config
	informers := &informertest.FakeInformers{Scheme: cluster.Scheme()}
	config.Informers = informers
	var triggered []string
	w.Must(nodeclass.WatchEnds(w, cluster.New(config), func(cause string) { triggered = append(triggered, cause) }))
	classes, err := informers.FakeInformerFor(w, &kwokv1alpha1.KWOKNodeClass{})
	w.Must(err)
	claims, err := informers.FakeInformerFor(w, &v1.NodeClaim{})
	w.Must(err)
	want := func(when string, causes ...string) {
		t.Helper()
		if !slices.Equal(triggered, causes) {
			t.Errorf("%s: triggered by %q, want %q", when, triggered, causes)
		}
		triggered = nil
	}
	claimOf := func(group, class string) *v1.NodeClaim {
		c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		c.Spec.NodeClassRef = &v1.NodeClassReference{Group: group, Kind: "KWOKNodeClass", Name: class}
		return c
	}

	classes.Add(goes)
	claims.Delete(claimOf(kwokv1alpha1.GroupVersion.Group, "goes"))
	want("nobody has told the class to go")
	w.Must(w.Client.Delete(w, goes))
	w.Must(w.Client.Get(w, client.ObjectKeyFromObject(goes), goes))
	classes.Update(goes, goes)
	want("the class is told to go", "goes")
	claims.Delete(claimOf(kwokv1alpha1.GroupVersion.Group, "goes"))
	want("its claim has gone", "goes")
	claims.Delete(claimOf(kwokv1alpha1.GroupVersion.Group, "default"))
	claims.Delete(claimOf("example.com", "goes"))
	claims.Delete(&v1.NodeClaim{})
	claims.Delete(&corev1.Node{})
	want("claims of others have gone")
	classes.Add(goes)
	want("a class that goes is seen for the first time", "goes")
}
