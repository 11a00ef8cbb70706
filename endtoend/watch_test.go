package endtoend_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/cluster"
)

// follow calls each for the objects that this view of the world has, and for each of their changes until the test ends. It
// goes on where the last watch ended: the API server ends those that cannot keep up with it, and a test on a busy computer
// is one of them.
func (w *world) follow(list client.ObjectList, each func(kind watch.EventType, o client.Object)) {
	w.Helper()
	c, err := client.NewWithWatch(w.playground.RESTConfig(), client.Options{Scheme: cluster.Scheme()})
	w.must(err)
	w.must(c.List(w, list, w.cornerOnly(list)...))
	w.must(apimeta.EachListItem(list, func(o runtime.Object) error {
		each(watch.Added, o.(client.Object))
		return nil
	}))
	ctx, cancel := context.WithCancel(w)
	done := make(chan struct{})
	w.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		version := list.GetResourceVersion()
		for ctx.Err() == nil {
			var err error
			if version, err = w.followFrom(ctx, c, list, version, each); err != nil && ctx.Err() == nil {
				w.Error(err)
				return
			}
		}
	}()
}

// followFrom follows until the watch ends, and returns where to go on.
func (w *world) followFrom(ctx context.Context, c client.WithWatch, list client.ObjectList, version string, each func(watch.EventType, client.Object)) (string, error) {
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
	watched, err := c.Watch(ctx, list, append(w.cornerOnly(list), from)...)
	if err != nil {
		return version, fmt.Errorf("watch %T from %s on: %w", list, version, err)
	}
	defer watched.Stop()
	for event := range watched.ResultChan() {
		o, ok := event.Object.(client.Object)
		if !ok {
			return version, fmt.Errorf("watch %T from %s on: %v", list, version, event.Object)
		}
		version = o.GetResourceVersion()
		each(event.Type, o)
	}
	return version, nil
}

// witness remembers how few pods of an app have run at once.
type witness struct {
	app string

	mu      sync.Mutex // guards the fields below
	running map[types.UID]bool
	fewest  int
}

// watchPods counts the pods of an app, from now until the test ends.
func (w *world) watchPods(app string) *witness {
	w.Helper()
	x := &witness{app: app, running: map[types.UID]bool{}, fewest: -1}
	w.follow(&corev1.PodList{}, func(kind watch.EventType, o client.Object) {
		pod := o.(*corev1.Pod)
		if pod.Labels["app"] != app {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.running, pod.UID)
		if kind != watch.Deleted && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			x.running[pod.UID] = true
		}
		if x.fewest >= 0 {
			x.fewest = min(x.fewest, len(x.running))
		}
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fewest = len(x.running)
	return x
}

// atLeast fails the test if fewer than n pods have run at any time.
func (x *witness) atLeast(t testing.TB, n int) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fewest < n {
		t.Errorf("only %d pods of %s ran at one time, want at least %d", x.fewest, x.app, n)
	}
}
