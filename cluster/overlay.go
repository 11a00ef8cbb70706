package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/overlay"
)

// overlays keeps the catalogs that NodeOverlays have corrected.
type overlays struct {
	missing bool // the API server does not serve NodeOverlays; set by Watch, before the first Snapshot

	mu     sync.Mutex // guards the fields below
	memo   overlay.Memo
	result *overlay.Result // the result of the last Snapshot
	pools  []*v1.NodePool
	// sold holds the corrected catalogs from which launches buy.
	sold map[soldTo][]engine.InstanceType
}

// soldTo identifies a provider's catalog, and the pool that buys from it.
type soldTo struct {
	pool  string
	first *engine.InstanceType
	types int
}

// mostSold is the largest number of kept catalogs, because a provider that makes a new catalog for each request would fill the memory.
const mostSold = 256

// correct applies NodeOverlays, if they have an effect, and the accelerators that nodes show to the snapshot's classes.
func (c *Cluster) correct(ctx context.Context, s *engine.Snapshot) error {
	if c.Overlays && !c.overlays.missing {
		var err error
		if s.NodeOverlays, err = list[v1alpha1.NodeOverlay](ctx, c, &v1alpha1.NodeOverlayList{}); err != nil {
			return err
		}
	}
	c.overlays.mu.Lock()
	defer c.overlays.mu.Unlock()
	result := c.overlays.memo.Lay(s)
	if result != c.overlays.result {
		c.overlays.result, c.overlays.sold = result, map[soldTo][]engine.InstanceType{}
	}
	c.overlays.pools = s.NodePools
	return nil
}

// OverlayVerdicts returns the snapshot, and the state of each NodeOverlay in it, in order of name.
func (c *Cluster) OverlayVerdicts(ctx context.Context) (*engine.Snapshot, []overlay.Verdict, error) {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	listed := *s
	c.overlays.mu.Lock()
	defer c.overlays.mu.Unlock()
	return s, c.overlays.memo.Lay(&listed).Verdicts, nil
}

// Correction returns the function that corrects a catalog for the claim's pool, by NodeOverlays and by the accelerators of nodes.
func (c *Cluster) Correction(ctx context.Context, claim *v1.NodeClaim) (func([]engine.InstanceType) []engine.InstanceType, error) {
	c.overlays.mu.Lock()
	known := c.overlays.result != nil
	c.overlays.mu.Unlock()
	if !known { // a new leader launches the claims that the last leader planned
		if _, err := c.Snapshot(ctx); err != nil {
			return nil, fmt.Errorf("read the NodeOverlays: %w", err)
		}
	}
	name := claim.Labels[v1.NodePoolLabelKey]
	return func(types []engine.InstanceType) []engine.InstanceType { return c.overlays.sell(name, types) }, nil
}

// sell returns the catalog from which the pool buys.
func (o *overlays) sell(name string, types []engine.InstanceType) []engine.InstanceType {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.pools, func(p *v1.NodePool) bool { return p.Name == name })
	if i < 0 || len(types) == 0 {
		return types
	}
	key := soldTo{name, &types[0], len(types)}
	sold, known := o.sold[key]
	if !known {
		sold = o.result.For(o.pools[i], types)
		if len(o.sold) >= mostSold {
			clear(o.sold)
		}
		o.sold[key] = sold
	}
	return sold
}

// Complete adds to a claim's machine the resources that NodeOverlays add. A provider that gets corrected catalogs has added them already.
func (c *Cluster) Complete(ref v1.NodeClassReference, correct func([]engine.InstanceType) []engine.InstanceType, m engine.Machine) engine.Machine {
	if correct == nil {
		return m
	}
	types, _ := c.catalogs.show(ref, c.Clock.Now())
	kind := m.Labels[corev1.LabelInstanceTypeStable]
	if i := slices.IndexFunc(types, func(t engine.InstanceType) bool { return t.Name == kind }); i >= 0 {
		corrected := correct(types)
		overlay.AddTo(&m, &corrected[i])
	}
	return m
}
