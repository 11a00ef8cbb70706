package explore

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is an API server in memory: objects with versions, finalizers, graceful deletion and a separate status. A stored object is never
// changed, only replaced, so readers may keep it. The store is not safe for concurrent use, because a run takes one step after another.
type store struct {
	clock   clock.PassiveClock
	shelves map[reflect.Type]*shelf
	order   []*shelf
	version uint64
	serial  int
	// changed is called after each change.
	changed func(s *shelf, c change)
}

// shelf holds the objects of one kind.
type shelf struct {
	kind
	objects map[string]client.Object
	keys    []string // sorted
	listed  any      // the last result of all, nil after a change
	log     []change // the whole history
}

// change is one event: old is nil for a new object, new is nil for a deleted one.
type change struct {
	old, new client.Object
	version  uint64
	at       time.Time
}

func (c change) object() client.Object {
	if c.new != nil {
		return c.new
	}
	return c.old
}

func newStore(clock clock.PassiveClock, kinds []kind) *store {
	s := &store{clock: clock, shelves: map[reflect.Type]*shelf{}, version: 100}
	for _, k := range kinds {
		shelf := &shelf{kind: k, objects: map[string]client.Object{}}
		s.shelves[reflect.TypeOf(k.prototype)] = shelf
		s.order = append(s.order, shelf)
	}
	return s
}

func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// shelfOf returns the shelf of an object's kind.
func (s *store) shelfOf(o client.Object) *shelf {
	shelf := s.shelves[reflect.TypeOf(o)]
	if shelf == nil {
		panic(fmt.Sprintf("explore: the API server of this run has no %T", o))
	}
	return shelf
}

// all lists the objects of a kind, sorted by name. The list is shared: callers must copy it before they change it.
func all[T client.Object](s *store) []T {
	shelf := s.shelves[reflect.TypeFor[T]()]
	if out, ok := shelf.listed.([]T); ok {
		return out
	}
	out := make([]T, 0, len(shelf.keys))
	for _, key := range shelf.keys {
		out = append(out, shelf.objects[key].(T))
	}
	shelf.listed = out
	return out
}

// find returns an object, the zero value if there is none.
func find[T client.Object](s *store, key string) T {
	found, _ := s.shelves[reflect.TypeFor[T]()].objects[key].(T)
	return found
}

func (s *store) now() metav1.Time { return metav1.NewTime(s.clock.Now().Truncate(time.Second)) }

func (k kind) notFound(key string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: k.group, Resource: k.name}, key)
}

func (k kind) conflict(key, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: k.group, Resource: k.name}, key, fmt.Errorf("%s", why))
}

func (k kind) invalid(key, why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: fmt.Sprintf("%s %s is invalid: %s", k.name, key, why),
	}}
}

// put stores a version of an object and reports the change.
func (s *store) put(shelf *shelf, object client.Object) {
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	key := keyOf(object)
	old := shelf.objects[key]
	if old == nil {
		i, _ := slices.BinarySearch(shelf.keys, key)
		shelf.keys = slices.Insert(shelf.keys, i, key)
	}
	shelf.objects[key] = object
	s.tell(shelf, change{old, object, s.version, s.clock.Now()})
}

func (s *store) drop(shelf *shelf, object client.Object) {
	s.version++
	key := keyOf(object)
	old := shelf.objects[key]
	if i, found := slices.BinarySearch(shelf.keys, key); found {
		shelf.keys = slices.Delete(shelf.keys, i, i+1)
	}
	delete(shelf.objects, key)
	s.tell(shelf, change{old, nil, s.version, s.clock.Now()})
}

func (s *store) tell(shelf *shelf, c change) {
	shelf.listed = nil
	shelf.log = append(shelf.log, c)
	if s.changed != nil {
		s.changed(shelf, c)
	}
}

// create adds an object from a client, and returns the stored object.
func (s *store) create(sent client.Object) (client.Object, error) {
	shelf := s.shelfOf(sent)
	o := sent.DeepCopyObject().(client.Object)
	s.serial++
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + strconv.FormatInt(int64(s.serial)+36*36, 36))
	}
	if shelf.objects[keyOf(o)] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Group: shelf.group, Resource: shelf.name}, keyOf(o))
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("%s-%04d", shelf.name, s.serial)))
	}
	if t := o.GetCreationTimestamp(); t.IsZero() {
		o.SetCreationTimestamp(s.now())
	}
	o.SetGeneration(1)
	s.put(shelf, o)
	return o, nil
}

// update replaces an object by a changed copy. It is for the parts that simulate Kubernetes, and cannot fail.
func update[T client.Object](s *store, object T, change func(T)) T {
	shelf := s.shelfOf(object)
	current, ok := shelf.objects[keyOf(object)].(T)
	if !ok || current.GetUID() != object.GetUID() {
		return object
	}
	o := current.DeepCopyObject().(T)
	change(o)
	s.settle(shelf, o)
	return o
}

// settle stores a changed object, or removes it if it is being deleted and has no finalizer.
func (s *store) settle(shelf *shelf, o client.Object) {
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && !shelf.graceful {
		s.drop(shelf, o)
		return
	}
	s.put(shelf, o)
}

// deletion has the options of a deletion.
type deletion struct {
	uid   types.UID
	rv    string
	grace *int64
}

// remove begins the deletion of an object, or makes it faster.
func (s *store) remove(shelf *shelf, key string, d deletion) error {
	o := shelf.objects[key]
	switch {
	case o == nil:
		return shelf.notFound(key)
	case d.uid != "" && d.uid != o.GetUID():
		return shelf.conflict(key, "the UID in the precondition is another one")
	case d.rv != "" && d.rv != o.GetResourceVersion():
		return shelf.conflict(key, "the version in the precondition is another one")
	case shelf.graceful && !deletesAtOnce(o, d):
		s.removeSlowly(shelf, o, d)
	case len(o.GetFinalizers()) == 0:
		s.drop(shelf, o)
	case o.GetDeletionTimestamp() == nil:
		o = o.DeepCopyObject().(client.Object)
		now := s.now()
		o.SetDeletionTimestamp(&now)
		o.SetGeneration(o.GetGeneration() + 1)
		s.put(shelf, o)
	}
	return nil
}
