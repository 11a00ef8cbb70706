package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/uninstall"
)

// do makes one step. The step may be done already.
func (w *winder) do(ctx context.Context, a uninstall.Action) error {
	switch a.Verb {
	case uninstall.Delete:
		return w.delete(ctx, a.Object)
	case uninstall.LetGo:
		return w.letGo(ctx, a)
	case uninstall.LetGoClass:
		return w.letGoClass(ctx, a.Class)
	}
	p := w.cloud.Load()
	if p == nil {
		return nil // tried again in the next step
	}
	switch a.Verb {
	case uninstall.AskMachines:
		list, err := (*p).Machines(ctx)
		if err != nil {
			return err
		}
		w.asked, w.machines = true, list
	case uninstall.Confirm:
		if a.Machine == "" { // without a claim: the last request for the cloud's machines covers its machine too
			return w.freeNameless(ctx, a.Object.(*corev1.Node))
		}
		if _, err := (*p).Machine(ctx, a.Machine); !errors.Is(err, provider.ErrGone) {
			return err
		}
		return w.free(ctx, a.Object.(*corev1.Node))
	case uninstall.Free:
		if a.Machine == "" {
			return w.freeNameless(ctx, a.Object.(*corev1.Node))
		}
		return errors.Join(w.free(ctx, a.Object.(*corev1.Node)), w.release(ctx, a.Machine))
	case uninstall.Release:
		w.asked, w.machines = false, nil // request the list again
		w.note(a.Machine)
		return w.release(ctx, a.Machine)
	}
	return nil
}

func (w *winder) delete(ctx context.Context, o provider.Object) error {
	uid := o.GetUID()
	err := w.stock.Delete(ctx, o.DeepCopyObject().(client.Object), client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}

// letGo removes the ownership marks of a claim's nodes and machine, then deletes the claim. It removes the claim's finalizer before it
// deletes the claim, because a controller that starts in between would otherwise terminate the machine.
func (w *winder) letGo(ctx context.Context, a uninstall.Action) error {
	for _, n := range a.Nodes {
		if err := w.free(ctx, n); err != nil {
			return err
		}
	}
	if len(a.Nodes) == 0 {
		w.note(a.Machine)
	}
	if err := w.release(ctx, a.Machine); err != nil {
		return err
	}
	claim := a.Object.(*v1.NodeClaim)
	if err := w.withoutFinalizer(ctx, claim, v1.TerminationFinalizer); err != nil {
		return err
	}
	return w.delete(ctx, claim)
}

// note remembers a released machine that has not joined the cluster yet.
func (w *winder) note(id engine.MachineID) {
	if id != "" && !uninstall.Joined(w.last, id) {
		w.absent[string(id)] = true
	}
}

// freeNameless frees a node whose machine is unknown.
func (w *winder) freeNameless(ctx context.Context, n *corev1.Node) error {
	err := w.free(ctx, n)
	if err == nil {
		w.nameless[n.Name] = true
	}
	return err
}

func (w *winder) free(ctx context.Context, n *corev1.Node) error {
	err := w.stock.Patch(ctx, uninstall.Freed(n), client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("let Node %s go: %w", n.Name, err)
	}
	if apierrors.IsConflict(err) {
		return errChanged
	}
	return nil
}

// errChanged means only that another client changed the object in between. The object is then read again.
var errChanged = errors.New("the object has changed")

func (w *winder) release(ctx context.Context, id engine.MachineID) error {
	p := w.cloud.Load()
	if id == "" || p == nil {
		return nil
	}
	releaser, ok := (*p).(provider.Releaser)
	if !ok {
		return nil
	}
	if err := releaser.Release(ctx, id); !errors.Is(err, provider.ErrGone) {
		return err
	}
	return nil
}

func (w *winder) letGoClass(ctx context.Context, class provider.Class) error {
	if releaser, ok := (*w.cloud.Load()).(provider.Releaser); ok {
		stays, err := releaser.ReleaseClass(ctx, class)
		if err != nil {
			return err
		}
		for _, what := range stays {
			w.stays[what] = true
		}
	}
	object := class.Object.(client.Object)
	if err := w.withoutFinalizer(ctx, object, class.Ref.Group+"/termination"); err != nil || object.GetDeletionTimestamp() != nil {
		return err
	}
	return w.delete(ctx, class.Object)
}

func (w *winder) withoutFinalizer(ctx context.Context, o client.Object, finalizer string) error {
	changed := o.DeepCopyObject().(client.Object)
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(f string) bool { return f == finalizer }))
	if len(changed.GetFinalizers()) == len(o.GetFinalizers()) {
		return nil
	}
	err := w.stock.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return errChanged
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("take the finalizer off %s: %w", o.GetName(), err)
	}
	return nil
}

// hurry sets the drain timeout as the claims' termination time, if the user gave one.
func (w *winder) hurry(ctx context.Context, inv *uninstall.Inventory) error {
	if w.options.drainTimeout <= 0 || w.options.keep {
		return nil
	}
	by := w.began.Add(w.options.drainTimeout).UTC()
	var errs []error
	for _, c := range inv.Claims {
		if c.DeletionTimestamp == nil || !inv.Serves(c.Spec.NodeClassRef) {
			continue
		}
		if t, err := time.Parse(time.RFC3339, c.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]); err == nil && !t.After(by) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1.NodeClaimTerminationTimestampAnnotationKey, by.Format(time.RFC3339))
		err := w.stock.Patch(ctx, c.DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("hurry NodeClaim %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}
