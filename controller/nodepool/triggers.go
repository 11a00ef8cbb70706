package nodepool

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// Watch calls trigger if a pool's status may have to change: the pool or one of its claims has changed.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string)) error {
	tell := func(o any) {
		if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = missed.Obj
		}
		switch o := o.(type) {
		case *v1.NodePool:
			trigger(o.Name)
		case *v1.NodeClaim:
			trigger(o.Labels[v1.NodePoolLabelKey])
		}
	}
	for _, kind := range []client.Object{&v1.NodePool{}, &v1.NodeClaim{}} {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
