package nodeclass

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/provider"
)

// WatchEnds calls trigger if a node class may be able to go: it was deleted, or a claim that held it has gone. Then its objects in the
// cloud can be removed.
func WatchEnds(ctx context.Context, c *cluster.Cluster, trigger func(cause string)) error {
	goes := func(o any) {
		if class, ok := o.(provider.Object); ok && class.GetDeletionTimestamp() != nil {
			trigger(class.GetName())
		}
	}
	for _, kind := range c.Provider.Kinds() {
		informer, err := c.Informers.GetInformerForKind(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: goes, UpdateFunc: func(_, o any) { goes(o) }}); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	informer, err := c.Informers.GetInformer(ctx, &v1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("watch NodeClaims: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = missed.Obj
		}
		claim, ok := o.(*v1.NodeClaim)
		if !ok || !c.Serves(claim.Spec.NodeClassRef) {
			return
		}
		if class, err := c.Class(ctx, *claim.Spec.NodeClassRef); err == nil {
			goes(class.Object)
		}
	}})
	if err != nil {
		return fmt.Errorf("watch NodeClaims: %w", err)
	}
	return nil
}
