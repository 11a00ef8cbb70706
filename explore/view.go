package explore

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// view is a process's cache of one kind: the objects at some point of the kind's history, and the handlers for later changes. Each kind has a
// watch of its own, so views may be at different points.
type view struct {
	shelf    *shelf
	at       int // number of seen changes
	objects  map[string]client.Object
	keys     []string
	listed   []any // the objects sorted by key, nil after a change
	handlers []toolscache.ResourceEventHandler
	// change, if set, changes the objects that the process sees. It is a test switch.
	change func(client.Object) client.Object
}

func newView(shelf *shelf, at int, change func(client.Object) client.Object) *view {
	v := &view{shelf: shelf, objects: map[string]client.Object{}, change: change}
	for v.at < at {
		v.take(shelf.log[v.at])
	}
	return v
}

// behind returns the number of changes that the view has not seen.
func (v *view) behind() int { return len(v.shelf.log) - v.at }

// take applies one change to the view without calling the handlers.
func (v *view) take(c change) (old, new client.Object) {
	v.at++
	key := keyOf(c.object())
	old = v.objects[key]
	if c.new == nil {
		v.forget(key)
		return old, nil
	}
	return old, v.keep(key, c.new)
}

func (v *view) keep(key string, o client.Object) client.Object {
	if v.change != nil {
		if o = v.change(o); o == nil {
			v.forget(key)
			return nil
		}
	}
	if v.objects[key] == nil {
		i, _ := slices.BinarySearch(v.keys, key)
		v.keys = slices.Insert(v.keys, i, key)
	}
	v.objects[key], v.listed = o, nil
	return o
}

func (v *view) forget(key string) {
	if i, found := slices.BinarySearch(v.keys, key); found {
		v.keys = slices.Delete(v.keys, i, i+1)
	}
	delete(v.objects, key)
	v.listed = nil
}

// list lists the objects sorted by key. The list is shared.
func (v *view) list() []any {
	if v.listed == nil {
		v.listed = make([]any, len(v.keys))
		for i, key := range v.keys {
			v.listed[i] = v.objects[key]
		}
	}
	return v.listed
}

// next returns the next change of the watch.
func (v *view) next() change { return v.shelf.log[v.at] }

// deliver delivers the next change.
func (v *view) deliver() {
	old, new := v.take(v.next())
	switch {
	case old == nil && new != nil:
		v.tell(func(h toolscache.ResourceEventHandler) { h.OnAdd(new, false) })
	case old != nil && new != nil && old.GetUID() != new.GetUID():
		v.tell(func(h toolscache.ResourceEventHandler) { h.OnDelete(old); h.OnAdd(new, false) })
	case old != nil && new != nil:
		v.tell(func(h toolscache.ResourceEventHandler) { h.OnUpdate(old, new) })
	case old != nil:
		v.tell(func(h toolscache.ResourceEventHandler) { h.OnDelete(old) })
	}
}

// repeat calls the handlers for all objects again, like a resync.
func (v *view) repeat() {
	for _, key := range slices.Clone(v.keys) {
		o := v.objects[key]
		v.tell(func(h toolscache.ResourceEventHandler) { h.OnUpdate(o, o) })
	}
}

// relist replaces the view by the present objects, as after a broken watch. The handlers do not see the changes in between.
func (v *view) relist() {
	before := v.objects
	keys := slices.Clone(v.keys)
	fresh := newView(v.shelf, len(v.shelf.log), v.change)
	v.at, v.objects, v.keys, v.listed = fresh.at, fresh.objects, fresh.keys, nil
	for _, key := range keys {
		old := before[key]
		if new := v.objects[key]; new == nil || new.GetUID() != old.GetUID() {
			v.tell(func(h toolscache.ResourceEventHandler) {
				h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key, Obj: old})
			})
		}
	}
	for _, key := range slices.Clone(v.keys) {
		new, old := v.objects[key], before[key]
		if old == nil || old.GetUID() != new.GetUID() {
			v.tell(func(h toolscache.ResourceEventHandler) { h.OnAdd(new, false) })
		} else if old.GetResourceVersion() != new.GetResourceVersion() {
			v.tell(func(h toolscache.ResourceEventHandler) { h.OnUpdate(old, new) })
		}
	}
}

func (v *view) tell(what func(toolscache.ResourceEventHandler)) {
	for _, h := range v.handlers {
		what(h)
	}
}

// views are all caches of one process, in the form that the controllers expect.
type views map[reflect.Type]*view

var _ cache.Informers = views{}

func (v views) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	found := v[reflect.TypeOf(o)]
	if found == nil { // like an API server for a kind that it does not serve
		return nil, &apimeta.NoKindMatchError{}
	}
	return informer{found}, nil
}

func (v views) GetInformerForKind(_ context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	for _, found := range v {
		if found.shelf.name == gvk.Kind && found.shelf.group == gvk.Group {
			return informer{found}, nil
		}
	}
	return nil, errors.New("explore: no such kind is served in these runs")
}

func (views) RemoveInformer(context.Context, client.Object) error { return nil }
func (views) Start(context.Context) error                         { return nil }
func (views) WaitForCacheSync(context.Context) bool               { return true }
func (views) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// informer makes a view an informer with a readable store.
type informer struct{ *view }

var _ cache.Informer = informer{}

func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	for _, key := range slices.Clone(i.keys) {
		h.OnAdd(i.objects[key], true)
	}
	return nil, nil
}

func (i informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
func (informer) AddIndexers(toolscache.Indexers) error                                { return nil }
func (informer) HasSynced() bool                                                      { return true }
func (informer) HasSyncedChecker() toolscache.DoneChecker                             { return nil }
func (informer) IsStopped() bool                                                      { return false }

// GetStore returns the store from which cluster.Cluster lists objects.
func (i informer) GetStore() toolscache.Store { return listed{nil, i.view} }

// listed is a store that implements only List.
type listed struct {
	toolscache.Store
	view *view
}

func (l listed) List() []any { return l.view.list() }
