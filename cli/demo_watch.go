package cli

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
)

// A sighting is one object from a watch, with its time.
type sighting struct {
	object  any
	deleted bool
	at      time.Time
}

// watch sends all changes of the demo's pods, claims, nodes and events until ctx ends. It returns once the watches run, so it misses no later
// change.
func watch(ctx context.Context, config *rest.Config, pool, app string) (<-chan sighting, error) {
	ofPool := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1.NodePoolLabelKey: pool})}
	informers, err := cache.New(config, cache.Options{Scheme: cluster.Scheme(), ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:   {Label: labels.SelectorFromSet(labels.Set{"app": app})},
		&v1.NodeClaim{}: ofPool,
		&corev1.Node{}:  ofPool,
	}})
	if err != nil {
		return nil, fmt.Errorf("watch the demo's objects: %w", err)
	}
	seen := make(chan sighting)
	send := func(object any, deleted bool) {
		select {
		case seen <- sighting{object, deleted, time.Now()}:
		case <-ctx.Done():
		}
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &v1.NodeClaim{}, &corev1.Node{}, &corev1.Event{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(sender(send)); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	// Start fails only if it is called twice. It repeats a broken watch itself.
	go func() { _ = informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch the demo's objects: %w", context.Cause(ctx))
	}
	return seen, nil
}

func sender(send func(object any, deleted bool)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object, false) },
		UpdateFunc: func(_, object any) { send(object, false) },
		DeleteFunc: func(object any) {
			// After a gap in the watch, only the last known state of a deleted object is left.
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			send(object, true)
		},
	}
}

// inflate returns the demo's Deployment, with its name only.
func inflate() *appsv1.Deployment {
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = "default", "inflate"
	return deployment
}
