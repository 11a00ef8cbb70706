package cluster

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	confirmAfter = 5 * time.Second  // how long the watch may take before the API server is asked
	forgetAfter  = 10 * time.Second // how long an unseen write may hide a version that the watch shows
)

// written holds the objects of one kind that this process wrote, until the watch shows them. A caller must hold Cluster.mu.
type written[T client.Object] struct {
	byUID map[types.UID]*writing[T]
	// gone holds the objects that the watch reported as deleted a moment ago, because an object can come and go before the answer to
	// its creation arrives.
	gone map[types.UID]time.Time
}

type writing[T client.Object] struct {
	object  T
	created bool // the watch has never shown the object
	deleted bool // a deletion was issued
	since   time.Time
}

func newWritten[T client.Object]() *written[T] {
	return &written[T]{byUID: map[types.UID]*writing[T]{}, gone: map[types.UID]time.Time{}}
}

// created remembers a new object.
func (w *written[T]) created(object T, now time.Time) {
	if _, gone := w.gone[object.GetUID()]; gone {
		return
	}
	w.byUID[object.GetUID()] = &writing[T]{object: object, created: true, since: now}
}

// found remembers an existing object as if it was written a moment ago, unless a newer version of it is known.
func (w *written[T]) found(object T, now time.Time) {
	if w.byUID[object.GetUID()] == nil {
		w.created(object, now)
	}
}

// updated remembers the answer to a write.
func (w *written[T]) updated(object T, now time.Time) {
	old := w.byUID[object.GetUID()]
	w.byUID[object.GetUID()] = &writing[T]{
		object:  object,
		created: old != nil && old.created,
		deleted: old != nil && old.deleted,
		since:   now,
	}
}

// removed remembers that the object was deleted.
func (w *written[T]) removed(object T, now time.Time) {
	leaving := object.DeepCopyObject().(T)
	if leaving.GetDeletionTimestamp() == nil {
		t := metav1.NewTime(now)
		leaving.SetDeletionTimestamp(&t)
	}
	old := w.byUID[object.GetUID()]
	w.byUID[object.GetUID()] = &writing[T]{object: leaving, created: old != nil && old.created, deleted: true, since: now}
}

// deleted notes that the watch has reported the deletion of an object.
func (w *written[T]) deleted(uid types.UID, now time.Time) {
	delete(w.byUID, uid)
	for old, at := range w.gone {
		if now.Sub(at) > forgetAfter {
			delete(w.gone, old)
		}
	}
	w.gone[uid] = now
}

// merge replaces older objects of the watch by the written ones, and adds the objects that the watch does not show yet.
func (w *written[T]) merge(watched []T, now time.Time) []T {
	if len(w.byUID) == 0 {
		return watched
	}
	seen := make(map[types.UID]bool, len(w.byUID))
	for i, object := range watched {
		ours, ok := w.byUID[object.GetUID()]
		if !ok {
			continue
		}
		seen[object.GetUID()] = true
		ours.created = false
		if ours.shownBy(object) || now.Sub(ours.since) > forgetAfter {
			delete(w.byUID, object.GetUID())
			continue
		}
		watched[i] = ours.object
	}
	for uid, ours := range w.byUID {
		switch {
		case seen[uid]:
		case ours.created:
			watched = append(watched, ours.object)
		default: // the watch has shown it, and no longer shows it
			delete(w.byUID, uid)
		}
	}
	return watched
}

// shownBy reports whether the object is at least as new as the written one.
func (w *writing[T]) shownBy(object T) bool {
	if w.deleted {
		return object.GetDeletionTimestamp() != nil
	}
	return !Older(object, w.object)
}

// Older reports whether a is an older version of the same object than b.
func Older(a, b client.Object) bool {
	x, errX := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	y, errY := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return errX == nil && errY == nil && x < y
}

// unseen lists the objects that the watch should have shown by now.
func (w *written[T]) unseen(now time.Time) []T {
	var out []T
	for _, ours := range w.byUID {
		if ours.created && now.Sub(ours.since) > confirmAfter {
			out = append(out, ours.object)
		}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// confirm asks the API server whether an object that the watch does not show is there. It must be called without
// Cluster.mu; the answer goes to settle.
func confirm[T client.Object](ctx context.Context, api client.Reader, object T) (found T, gone bool, err error) {
	found = object.DeepCopyObject().(T)
	err = api.Get(ctx, client.ObjectKeyFromObject(object), found)
	if apierrors.IsNotFound(err) {
		return object, true, nil
	}
	return found, err == nil && found.GetUID() != object.GetUID(), err
}

// settle takes the answer of confirm.
func (w *written[T]) settle(object T, found T, gone bool, now time.Time) {
	ours, ok := w.byUID[object.GetUID()]
	if !ok || !ours.created {
		return
	}
	if gone {
		delete(w.byUID, object.GetUID())
		return
	}
	ours.object, ours.since = found, now
}
