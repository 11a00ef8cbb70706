package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
)

// requestVersion is the version of ProvisioningRequest to read. An API server serves the older version beside the newer one, or alone.
type requestVersion int

const (
	requestsV1 requestVersion = iota
	requestsV1Beta1
	noRequests
)

// watchRequests finds out which version of ProvisioningRequest is served, and begins to watch it.
func (c *Cluster) watchRequests(ctx context.Context) error {
	if !c.Requests {
		return nil
	}
	_, err := c.Informers.GetInformer(ctx, &autoscalingv1.ProvisioningRequest{})
	if apimeta.IsNoMatchError(err) {
		c.requests = requestsV1Beta1
		_, err = c.Informers.GetInformer(ctx, &autoscalingv1.ProvisioningRequestV1Beta1{})
	}
	if apimeta.IsNoMatchError(err) {
		c.requests = noRequests
		log.FromContext(ctx).Info("ProvisioningRequests have no effect: their CustomResourceDefinition provisioningrequests.autoscaling.x-k8s.io is not installed; install it and restart the controller")
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch ProvisioningRequests: %w", err)
	}
	if _, err := c.Informers.GetInformer(ctx, &corev1.PodTemplate{}); err != nil {
		return fmt.Errorf("watch PodTemplates: %w", err)
	}
	return nil
}

// listRequests lists ProvisioningRequests and the PodTemplates that they may name, if there are any.
func (c *Cluster) listRequests(ctx context.Context, s *engine.Snapshot) (err error) {
	if !c.Requests {
		return nil
	}
	switch c.requests {
	case requestsV1:
		s.ProvisioningRequests, err = list[autoscalingv1.ProvisioningRequest](ctx, c, &autoscalingv1.ProvisioningRequestList{})
	case requestsV1Beta1:
		var older []*autoscalingv1.ProvisioningRequestV1Beta1
		older, err = list[autoscalingv1.ProvisioningRequestV1Beta1](ctx, c, &autoscalingv1.ProvisioningRequestV1Beta1List{})
		for _, o := range older {
			s.ProvisioningRequests = append(s.ProvisioningRequests, autoscalingv1.FromV1Beta1(o))
		}
	}
	if err == nil && len(s.ProvisioningRequests) > 0 && s.PodTemplates == nil {
		s.PodTemplates, err = list[corev1.PodTemplate](ctx, c, &corev1.PodTemplateList{})
	}
	return err
}

// WriteRequestStatus writes the status of a ProvisioningRequest, unless the request has changed since it was read.
func (c *Cluster) WriteRequestStatus(ctx context.Context, o *autoscalingv1.ProvisioningRequest, status *autoscalingv1.ProvisioningRequestStatus) error {
	next := o.DeepCopy()
	next.Status = *status
	before, after := client.Object(o), client.Object(next)
	if c.requests == requestsV1Beta1 {
		before, after = autoscalingv1.ToV1Beta1(o), autoscalingv1.ToV1Beta1(next)
	}
	return c.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
