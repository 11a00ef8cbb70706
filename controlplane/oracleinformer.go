package main

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// An oracleFactory returns informers for the plugins that get objects only from this process. When put returns, the object is stored and all
// handlers have seen it. So each answer depends only on the earlier questions. No client, watch or goroutine takes part.
type oracleFactory struct {
	informers.SharedInformerFactory // for the groups that no filter plugin reads
	byKind                          map[reflect.Type]*oracleInformer
}

func newOracleFactory() *oracleFactory {
	return &oracleFactory{
		SharedInformerFactory: informers.NewSharedInformerFactory(nil, 0),
		byKind:                map[reflect.Type]*oracleInformer{},
	}
}

func (f *oracleFactory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *oracleFactory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *oracleFactory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *oracleFactory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *oracleFactory) Storage() storage.Interface       { return storage.New(f, "", nil) }

// InformerFor returns the only informer for objects of that kind.
func (f *oracleFactory) InformerFor(kind runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.of(kind)
}

func (f *oracleFactory) of(kind runtime.Object) *oracleInformer {
	key := reflect.TypeOf(kind)
	if f.byKind[key] == nil {
		f.byKind[key] = &oracleInformer{objects: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	}
	return f.byKind[key]
}

// put adds an object, or replaces the object with its name.
func (f *oracleFactory) put(object runtime.Object) error { return f.of(object).put(object) }

// An oracleInformer holds the objects of one kind.
type oracleInformer struct {
	cache.SharedIndexInformer // nil, because plugins call only the methods below
	objects                   cache.Indexer
	handlers                  []cache.ResourceEventHandler
}

func (i *oracleInformer) put(object runtime.Object) error {
	old, there, err := i.objects.Get(object)
	if err != nil {
		return err
	}
	if err := i.objects.Add(object); err != nil {
		return err
	}
	for _, h := range i.handlers {
		if there {
			h.OnUpdate(old, object)
		} else {
			h.OnAdd(object, false)
		}
	}
	return nil
}

// AddEventHandler stores a handler. It is called while the plugins are built, before there are objects.
func (i *oracleInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return i, nil
}

func (i *oracleInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *oracleInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *oracleInformer) AddIndexers(indexers cache.Indexers) error {
	return i.objects.AddIndexers(indexers)
}
func (i *oracleInformer) GetIndexer() cache.Indexer      { return i.objects }
func (i *oracleInformer) GetStore() cache.Store          { return i.objects }
func (i *oracleInformer) HasSynced() bool                { return true }
func (i *oracleInformer) IsStopped() bool                { return false }
func (i *oracleInformer) Run(<-chan struct{})            {}
func (i *oracleInformer) RunWithContext(context.Context) {}
