package cluster

import (
	"context"

	"tenon.sh/engine"
)

// CatalogDocument returns the part of a snapshot file that the API server does not know.
func (c *Cluster) CatalogDocument(ctx context.Context, opt engine.Options) (engine.CatalogDocument, error) {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return engine.CatalogDocument{}, err
	}
	return engine.CatalogDocument{
		APIVersion: engine.CatalogAPIVersion,
		Kind:       engine.CatalogKind,
		Time:       s.Now,
		Options:    opt,
		Classes:    s.ListedClasses(),

		NodeOverheadPrice: s.NodeOverheadPrice, Commitments: s.Commitments,

		EarlierPasses:   s.EarlierPasses,
		ExpectedPods:    s.ExpectedPods,
		ScaleUps:        s.ScaleUps,
		IgnoresOverlays: !c.Overlays, IgnoresBuffers: !c.Buffers, IgnoresRequests: !c.Requests,
		IgnoresClaims: !c.DeviceClaims(),
	}, nil
}
