// Package nodeclass finds out, through the provider, whether node classes can be used, and keeps their catalogs fresh.
package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/provider"
)

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Cluster *cluster.Cluster
}

// Reconcile looks at every node class of the provider's kinds. What fails for one does not stop the others.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	var errs []error
	for _, kind := range r.Cluster.Provider.Kinds() {
		classes, err := r.list(ctx, kind)
		if err != nil {
			errs = append(errs, err)
		}
		for _, class := range classes {
			if err := r.reconcile(ctx, class); err != nil && !cluster.Expected(err) {
				errs = append(errs, fmt.Errorf("%s %s: %w", class.Ref.Kind, class.Ref.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) list(ctx context.Context, kind schema.GroupVersionKind) ([]provider.Class, error) {
	made, err := r.Cluster.Client.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	list := made.(client.ObjectList)
	if err := r.Cluster.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	var classes []provider.Class
	err = apimeta.EachListItem(list, func(o runtime.Object) error {
		object := o.(provider.Object)
		ref := v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: object.GetName()}
		classes = append(classes, provider.Class{Ref: ref, Object: object})
		return nil
	})
	return classes, err
}

func (r *Reconciler) reconcile(ctx context.Context, class provider.Class) error {
	if class.Object.GetDeletionTimestamp() == nil {
		if err := r.resolve(ctx, class); err != nil {
			return err
		}
	}
	if !r.Cluster.CatalogAged(class) {
		return nil
	}
	err := r.Cluster.RefreshCatalog(ctx, class)
	if err != nil && cluster.Problem(class) != "" {
		return nil // the class shows the problem, and the provider is asked again after a change
	}
	return err
}

// resolve lets the provider check the class, and writes its Ready condition if it has changed.
func (r *Reconciler) resolve(ctx context.Context, class provider.Class) error {
	before := class.Object.DeepCopyObject().(client.Object)
	problem, err := r.Cluster.Provider.Resolve(ctx, class)
	if err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	object, ok := class.Object.(v1.Conditioned)
	if !ok {
		return nil
	}
	setReady(object, problem, metav1.NewTime(r.Cluster.Clock.Now()))
	after := class.Object.(client.Object)
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	log.FromContext(ctx).Info("node class changed", "kind", class.Ref.Kind, "name", class.Ref.Name, "problem", problem)
	if err := r.Cluster.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// setReady sets Ready to the provider's answer. Without a problem, it does not change a class that is ready, because its kind may
// make every object ready from the start.
func setReady(object v1.Conditioned, problem string, now metav1.Time) {
	ready := metav1.Condition{
		Type: v1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1.ConditionReady,
		ObservedGeneration: object.GetGeneration(), LastTransitionTime: now,
	}
	if problem != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NotReady", problem
	} else if v1.IsTrue(object, v1.ConditionReady) {
		return
	}
	conditions := slices.Clone(object.GetConditions())
	apimeta.SetStatusCondition(&conditions, ready)
	object.SetConditions(conditions)
}

// Watch calls trigger whenever a node class has changed.
func Watch(ctx context.Context, c *cluster.Cluster, trigger func(cause string)) error {
	for _, kind := range c.Provider.Kinds() {
		informer, err := c.Informers.GetInformerForKind(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		tell := func(any) { trigger(kind.Kind) }
		handler := toolscache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	return nil
}
