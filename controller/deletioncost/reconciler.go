// Package deletioncost writes deletion costs on pods, so that ReplicaSets that shrink first end the pods that have to move anyway. Package
// disruption computes the costs.
package deletioncost

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/report"
)

// atOnce is how many pods are written at the same time, because these writes are not urgent, and a pass may have thousands.
const atOnce = 4

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Cluster *cluster.Cluster
	Metrics *report.Metrics
	Options engine.Options
	cache   inventory.Cache
}

// Reconcile makes one pass. If another writer has changed a pod meanwhile, the next pass writes it.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	costs, err := controller.Compute(ctx, func() disruption.DeletionCosts {
		return disruption.RankDeletionCosts(snap, r.Options, &r.cache)
	})
	if err != nil {
		return err
	}
	r.Metrics.DeletionCostsWait(costs.Waiting)
	var mu sync.Mutex // guards failed and first
	failed, first := 0, error(nil)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, w := range costs.Writes {
		group.Go(func() error {
			err := r.Cluster.SetDeletionCost(ctx, w.Pod, w.Value)
			r.Metrics.DeletionCostWritten(resultOf(err))
			if err != nil && !cluster.Expected(err) {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if first == nil {
					first = err
				}
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are counted
	if failed > 1 {
		return fmt.Errorf("%w, and %d more", first, failed-1)
	}
	return first
}

// resultOf returns the name of a write's result in the metric DeletionCostWritten.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "updated"
	case apierrors.IsNotFound(err):
		return "skipped_notfound"
	case apierrors.IsConflict(err):
		return "skipped_conflict"
	}
	return "error"
}
