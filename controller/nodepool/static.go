package nodepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/report"
)

// writesAtOnce is the default of StaticConfig.WritesAtOnce.
const writesAtOnce = 16

// StaticConfig is the input of NewStatic.
type StaticConfig struct {
	Cluster *cluster.Cluster
	Metrics *report.Metrics
	Options engine.Options
	// WritesAtOnce is how many claims are created or deleted at the same time; 0 means 16.
	WritesAtOnce int
}

// Static keeps pools with replicas at their size. It is to be used from one goroutine.
type Static struct {
	StaticConfig
	told map[string]string // by pool, the last logged obstacle
}

// NewStatic returns a Static.
func NewStatic(config StaticConfig) *Static {
	return &Static{StaticConfig: config, told: map[string]string{}}
}

// Reconcile makes one pass. A failure for one pool does not stop the others; the next pass tries it again.
func (r *Static) Reconcile(ctx context.Context) error {
	return r.Cluster.Launching(ctx, func() error { // a limit of nodes holds for replacements too
		snap, err := r.Cluster.Snapshot(ctx)
		if err != nil {
			return err
		}
		pools, claims := map[string]*v1.NodePool{}, map[string]*v1.NodeClaim{}
		for _, p := range snap.NodePools {
			pools[p.Name] = p
		}
		for _, c := range snap.NodeClaims {
			claims[c.Name] = c
		}
		var errs []error
		for _, resizing := range disruption.Resize(snap, r.Options) {
			r.tell(ctx, resizing)
			err := errors.Join(r.create(ctx, pools[resizing.NodePool], resizing), r.remove(ctx, claims, resizing))
			if err != nil {
				errs = append(errs, fmt.Errorf("NodePool %s: %w", resizing.NodePool, err))
			}
		}
		return errors.Join(errs...)
	})
}

// `tell` logs the obstacle if it has changed.
func (r *Static) tell(ctx context.Context, resizing disruption.Resizing) {
	text := resizing.Why.Message()
	if resizing.Why.OK() {
		text = ""
	}
	if r.told[resizing.NodePool] != text && text != "" {
		log.FromContext(ctx).Info("nodepool stays below its replicas", "NodePool", resizing.NodePool, "why", text)
	}
	r.told[resizing.NodePool] = text
}

func (r *Static) create(ctx context.Context, pool *v1.NodePool, resizing disruption.Resizing) error {
	errs := make([]error, len(resizing.Create))
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.WritesAtOnce, writesAtOnce))
	for i, launch := range resizing.Create {
		group.Go(func() error {
			claim, err := r.Cluster.CreateNamed(ctx, pool, launch, resizing.Names[i], nil)
			if cluster.Expected(err) {
				return nil // the watch is behind: the claim is there
			}
			if errs[i] = err; err != nil {
				return nil
			}
			log.FromContext(ctx).Info("created nodeclaim", append(report.LaunchLine(claim, launch), "replicas", *pool.Spec.Replicas)...)
			r.Metrics.ClaimCreated("provisioned", claim)
			return nil
		})
	}
	_ = group.Wait() // every claim has its own error
	return errors.Join(errs...)
}

func (r *Static) remove(ctx context.Context, claims map[string]*v1.NodeClaim, resizing disruption.Resizing) error {
	errs := make([]error, len(resizing.Remove))
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.WritesAtOnce, writesAtOnce))
	for i, name := range resizing.Remove {
		group.Go(func() error {
			if errs[i] = r.Cluster.DeleteClaim(ctx, claims[name]); errs[i] != nil {
				return nil
			}
			log.FromContext(ctx).Info("deleted nodeclaim", "NodeClaim", name, "Node", claims[name].Status.NodeName, "reason", "the pool has more machines than replicas")
			return nil
		})
	}
	_ = group.Wait() // every claim has its own error
	return errors.Join(errs...)
}
