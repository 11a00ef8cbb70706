package cluster

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/engine"
)

// listBuffers lists CapacityBuffers and the objects that they may refer to, if there are any.
func (c *Cluster) listBuffers(ctx context.Context, s *engine.Snapshot) error {
	if !c.Buffers || c.noBuffers {
		return nil
	}
	var errs [4]error
	s.CapacityBuffers, errs[0] = list[autoscalingv1beta1.CapacityBuffer](ctx, c, &autoscalingv1beta1.CapacityBufferList{})
	if len(s.CapacityBuffers) == 0 {
		return errs[0]
	}
	s.PodTemplates, errs[1] = list[corev1.PodTemplate](ctx, c, &corev1.PodTemplateList{})
	s.Deployments, errs[2] = list[appsv1.Deployment](ctx, c, &appsv1.DeploymentList{})
	s.ResourceQuotas, errs[3] = list[corev1.ResourceQuota](ctx, c, &corev1.ResourceQuotaList{})
	return errors.Join(errs[:]...)
}
