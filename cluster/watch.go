package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// Watch starts the watches that Snapshot reads, and completes them before the first Snapshot. It listens for deleted claims too,
// because Snapshot must not show them any longer as created by this process. A kind that the cluster does not serve has no objects:
// device classes before Kubernetes 1.34, NodeOverlays or CapacityBuffers whose definition is not installed.
func (c *Cluster) Watch(ctx context.Context) error {
	if c.ScaleUps != nil {
		c.ScaleUps.Listen(ctx, c.Clock)
	}
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.LimitRange{}, &nodev1.RuntimeClass{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{},
		&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{},
		&storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{},
		&storagev1.VolumeAttachment{}, &corev1.Namespace{}, &corev1.Service{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&corev1.ReplicationController{}, &resourcev1.DeviceClass{}, &v1.NodePool{}, &v1.NodeClaim{},
	}
	if c.Overlays {
		kinds = append(kinds, &v1alpha1.NodeOverlay{})
	}
	if c.Buffers {
		kinds = append(kinds, &autoscalingv1beta1.CapacityBuffer{}, &corev1.PodTemplate{}, &appsv1.Deployment{}, &corev1.ResourceQuota{})
	}
	if c.Selectors != nil {
		kinds = append(kinds, &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceSlice{})
	}
	if err := c.watchPodGroups(ctx); err != nil {
		return err
	}
	if err := c.watchRequests(ctx); err != nil {
		return err
	}
	for _, kind := range kinds {
		informer, err := c.Informers.GetInformer(ctx, kind)
		if _, ok := kind.(*resourcev1.DeviceClass); ok && apimeta.IsNoMatchError(err) {
			c.noDeviceClasses = true
			continue
		}
		switch kind.(type) {
		case *resourcev1.ResourceClaim, *resourcev1.ResourceClaimTemplate, *resourcev1.ResourceSlice:
			if apimeta.IsNoMatchError(err) {
				c.noDeviceClaims = true
				continue
			}
		}
		if _, ok := kind.(*v1alpha1.NodeOverlay); ok && apimeta.IsNoMatchError(err) {
			c.overlays.missing = true
			log.FromContext(ctx).Info("NodeOverlays have no effect: their CustomResourceDefinition nodeoverlays.karpenter.sh is not installed; install it and restart the controller")
			continue
		}
		if _, ok := kind.(*autoscalingv1beta1.CapacityBuffer); ok && apimeta.IsNoMatchError(err) {
			c.noBuffers = true
			log.FromContext(ctx).Info("CapacityBuffers have no effect: their CustomResourceDefinition capacitybuffers.autoscaling.x-k8s.io is not installed; install it and restart the controller")
			continue
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, ok := kind.(*v1.NodeClaim); !ok {
			continue
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: c.claimDeleted}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

func (c *Cluster) claimDeleted(o any) {
	if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	claim, ok := o.(*v1.NodeClaim)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.deleted(claim.UID, c.Clock.Now())
}
