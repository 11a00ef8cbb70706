package capacitybuffer_test

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller"
	"tenon.sh/controller/capacitybuffer"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	os.Exit(playgroundtest.RunWith(m, playground.Config{Components: []string{playground.Etcd, playground.APIServer}}))
}

// watched is a real API server without pools, and a provisioner that makes a pass when something about buffers has changed and,
// but for its first, at no other time.
type watched struct {
	*clustertest.World
	cached  client.Reader
	changed chan struct{} // a buffer has changed
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	rest := playgroundtest.Get(t).RESTConfig()
	rest.QPS = -1
	if err := cluster.ApplyCRDs(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	w := &watched{World: clustertest.NewOn(t, rest, interceptor.Funcs{}), changed: make(chan struct{}, 1)}
	options := cluster.CacheOptions()
	options.Scheme = cluster.Scheme()
	informers, err := cache.New(rest, options)
	w.Must(err)
	cached, err := client.New(rest, client.Options{Scheme: options.Scheme, Cache: &client.CacheOptions{Reader: informers}})
	w.Must(err)
	w.cached = cached
	config := w.Cluster.Config
	config.Client, config.Informers = cached, informers
	w.Cluster = cluster.New(config)
	r := newProcess(w.World) // with buffers
	w.Must(w.Cluster.Watch(w))
	buffers, err := informers.GetInformer(w, &autoscalingv1beta1.CapacityBuffer{})
	w.Must(err)
	_, err = buffers.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { w.hear() }, UpdateFunc: func(any, any) { w.hear() }})
	w.Must(err)
	loop := &controller.Loop{Name: "provisioner", Every: time.Hour, Clock: clock.RealClock{}, Pass: func(ctx context.Context) error {
		err := r.Reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			t.Errorf("a pass fails, so that there will be another one: %v", err)
		}
		return err
	}}
	w.Must(capacitybuffer.Watch(w, informers, loop.Trigger))
	ctx, cancel := context.WithCancel(w)
	ended := make(chan error, 2)
	t.Cleanup(func() {
		cancel()
		w.Must(<-ended)
		w.Must(<-ended)
	})
	go func() { ended <- informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		t.Fatal("the caches are not filled")
	}
	go func() { ended <- loop.Start(ctx) }()
	return w
}

func (w *watched) hear() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// says waits until the buffer says, for that reason, that room is kept for so many pods.
func (w *watched) says(when, buffer, reason string, size int32) {
	w.Helper()
	patience := time.After(30 * time.Second)
	for {
		var b autoscalingv1beta1.CapacityBuffer
		w.Must(client.IgnoreNotFound(w.cached.Get(w, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: buffer}, &b)))
		c := apimeta.FindStatusCondition(b.Status.Conditions, autoscalingv1beta1.ConditionReadyForProvisioning)
		got := int32(0)
		if b.Status.Replicas != nil {
			got = *b.Status.Replicas
		}
		if c != nil && c.Reason == reason && got == size {
			return
		}
		select {
		case <-w.changed:
		case <-patience:
			w.Fatalf("%s: CapacityBuffer %s keeps room for %d pods, want %d for the reason %s: %+v", when, buffer, got, size, reason, c)
		}
	}
}

// A buffer follows what it names as soon as that is there, is scaled (as autoscalers scale it), or has gone.
func TestBuffersFollowWhatTheyNameAtOnce(t *testing.T) {
	w := newWatched(t)
	template := templateOf("1").Template
	template.Labels = map[string]string{"app": "web"}
	template.Spec.Containers[0].Image = "web"
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}
	two, selector := new(int32(2)), &metav1.LabelSelector{MatchLabels: template.Labels}
	for _, o := range []client.Object{
		&corev1.PodTemplate{ObjectMeta: meta, Template: template},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: two, Selector: selector, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: two, Selector: selector, Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: two, Selector: selector, Template: template}},
	} {
		gvk, err := w.Client.GroupVersionKindFor(o)
		w.Must(err)
		t.Run(gvk.Kind, func(t *testing.T) {
			w.TB = t
			b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, GenerateName: "b-"}}
			missing, scales := autoscalingv1beta1.ScalableRefNotFound, gvk.Group != ""
			if scales {
				b.Spec.ScalableRef, b.Spec.Percentage = &autoscalingv1beta1.ScalableRef{APIGroup: gvk.Group, Kind: gvk.Kind, Name: meta.Name}, new(int32(50))
			} else {
				missing = autoscalingv1beta1.PodTemplateNotFound
				b.Spec.PodTemplateRef, b.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: meta.Name}, new(int32(1))
			}
			w.Must(w.Client.Create(w, b))
			w.says("nothing has the name", b.Name, missing, 0)
			w.Must(w.Client.Create(w, o))
			w.says("what it names is there", b.Name, autoscalingv1beta1.Resolved, 1)
			if scales {
				scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 10}}
				w.Must(w.Client.SubResource("scale").Update(w, o, client.WithSubResourceBody(scale)))
				w.says("it is scaled", b.Name, autoscalingv1beta1.Resolved, 5)
			}
			w.Must(w.Client.Delete(w, o))
			w.says("what it names has gone", b.Name, missing, 0)
			w.Must(w.Client.Delete(w, b))
		})
	}
}

// A rollout scales ReplicaSets that no buffer follows.
func TestReplicaSetsOfDeploymentsWakeNobody(t *testing.T) {
	t.Parallel()
	informers := &informertest.FakeInformers{Scheme: cluster.Scheme()}
	heard := 0
	if err := capacitybuffer.Watch(t.Context(), informers, func(string) { heard++ }); err != nil {
		t.Fatal(err)
	}
	sets, err := informers.FakeInformerFor(t.Context(), &appsv1.ReplicaSet{})
	if err != nil {
		t.Fatal(err)
	}
	before := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Generation: 1, OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web"}}}}
	after := before.DeepCopy()
	after.Generation = 2
	sets.Add(before)
	sets.Update(before, after)
	sets.Delete(after)
	if heard > 0 {
		t.Errorf("a ReplicaSet of a Deployment woke the plan %d times", heard)
	}
}
