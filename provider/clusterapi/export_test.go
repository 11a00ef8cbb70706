package clusterapi

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"tenon.sh/provider"
)

// LookEvery makes a connection look more often whether it is as it was. It is to be called before Start.
func (c *Connection) LookEvery(every time.Duration) { c.every = every }

// ExamineBeside examines a class beside Deployments of Cluster Autoscaler, without a connection.
func (p *Provider) ExamineBeside(ctx context.Context, autoscalers []*appsv1.Deployment, class provider.Class) []provider.Finding {
	return p.examine(ctx, []provider.Class{class}, autoscalers)
}
