package clusterapi

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"tenon.sh/provider"
)

// LookEvery sets the time between two checks of a connection. It must be called before Start.
func (c *Connection) LookEvery(every time.Duration) { c.every = every }

// ExamineBeside examines a class with Deployments of Cluster Autoscaler, without a connection.
func (p *Provider) ExamineBeside(ctx context.Context, autoscalers []*appsv1.Deployment, class provider.Class) []provider.Finding {
	return p.examine(ctx, []provider.Class{class}, autoscalers)
}
