package cluster

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine/kube"
)

// CacheOptions returns the options that determine which fields the caches keep. There are many pods, and an autoscaler needs only a small part
// of each.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: func(o any) (any, error) {
			if object, ok := o.(metav1.Object); ok {
				slimMeta(object)
			}
			return o, nil
		},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                       {Transform: slim(slimPod)},
			&corev1.Node{}:                      {Transform: slim(slimNode)},
			&v1.NodeClaim{}:                     {Transform: slim(slimClaim)},
			&appsv1.DaemonSet{}:                 {Transform: slim(slimDaemonSet)},
			&corev1.PersistentVolume{}:          {Transform: slim(slimVolume)},
			&corev1.PersistentVolumeClaim{}:     {Transform: slim(slimVolumeClaim)},
			&storagev1.StorageClass{}:           {Transform: slim(slimStorageClass)},
			&storagev1.CSIStorageCapacity{}:     {Transform: slim(slimStorageCapacity)},
			&storagev1.VolumeAttachment{}:       {Transform: slim(slimVolumeAttachment)},
			&corev1.Namespace{}:                 {Transform: slim(slimNamespace)},
			&corev1.Service{}:                   {Transform: slim(slimService)},
			&appsv1.ReplicaSet{}:                {Transform: slim(slimReplicaSet)},
			&appsv1.StatefulSet{}:               {Transform: slim(slimStatefulSet)},
			&corev1.ReplicationController{}:     {Transform: slim(slimReplicationController)},
			&resourcev1.DeviceClass{}:           {Transform: slim(slimDeviceClass)},
			&resourcev1.ResourceClaim{}:         {Transform: slim(slimResourceClaim)},
			&resourcev1.ResourceClaimTemplate{}: {Transform: slim(slimResourceClaimTemplate)},
			&resourcev1.ResourceSlice{}:         {Transform: slim(func(s *resourcev1.ResourceSlice) { slimMeta(s) })},
			&appsv1.Deployment{}:                {Transform: slim(slimDeployment)},
			&corev1.PodTemplate{}:               {Transform: slim(slimPodTemplate)},
			&v1.NodePool{}: {Transform: slim(func(p *v1.NodePool) {
				slimMeta(p)
				kube.Countable(corev1.ResourceList(p.Spec.Limits))
			})},
			&v1alpha1.NodeOverlay{}: {Transform: slim(func(o *v1alpha1.NodeOverlay) {
				slimMeta(o)
				kube.Countable(o.Spec.Capacity)
			})},
			&autoscalingv1beta1.CapacityBuffer{}: {Transform: slim(func(b *autoscalingv1beta1.CapacityBuffer) {
				slimMeta(b)
				kube.Countable(b.Spec.Limits)
			})},
		},
	}
}

// slim returns a cache transform that calls cut for objects of type T. Objects of other types, for example tombstones, pass unchanged.
func slim[T any](cut func(T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			cut(object)
		}
		return o, nil
	}
}

func slimMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(annotations)
	}
}

func slimPod(pod *corev1.Pod) {
	slimMeta(pod)
	for key := range pod.Annotations {
		if !relevant(key) {
			delete(pod.Annotations, key)
		}
	}
	slimPodSpec(&pod.Spec)
	status := &pod.Status
	status.HostIPs, status.PodIPs = nil, nil
	status.EphemeralContainerStatuses = nil
	status.Conditions = keptConditions(status.Conditions)
	slimStatuses(status.ContainerStatuses)
	slimStatuses(status.InitContainerStatuses)
}

// keptConditions returns the conditions about the life of a pod and about a waiting resize, in a slice of their own, because the
// decoder reserves space for eight.
func keptConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range conditions {
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.ContainersReady, corev1.PodResizePending:
			kept = append(kept, c)
		}
	}
	return kept
}

// relevant reports whether an annotation of a pod can change a decision.
func relevant(key string) bool {
	return strings.Contains(key, "karpenter.sh/") || strings.HasPrefix(key, "tenon.sh/") || key == autoscalingv1.ConsumeAnnotationKey || key == autoscalingv1.OlderConsumeAnnotationKey || key == corev1.PodDeletionCost
}

// slimPodSpec keeps the fields that kube-scheduler reads.
func slimPodSpec(spec *corev1.PodSpec) {
	for i := range spec.Containers {
		slimContainer(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		slimContainer(&spec.InitContainers[i])
	}
	spec.EphemeralContainers = nil
	spec.SecurityContext = nil
	spec.ImagePullSecrets = nil
	spec.HostAliases = nil
	spec.DNSConfig = nil
	volumes := spec.Volumes[:0]
	for _, v := range spec.Volumes {
		if keptVolume(v.VolumeSource) {
			volumes = append(volumes, v)
		}
	}
	spec.Volumes = volumes
	if len(volumes) == 0 {
		spec.Volumes = nil
	}
}

// keptVolume reports whether a volume can exclude nodes for a pod: it has a place, a node takes a limited number, or only one pod may use it.
func keptVolume(v corev1.VolumeSource) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || v.AWSElasticBlockStore != nil ||
		v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.ISCSI != nil || v.RBD != nil
}

func slimContainer(c *corev1.Container) {
	*c = corev1.Container{
		Name:          c.Name,
		Ports:         c.Ports,
		Resources:     c.Resources,
		ResizePolicy:  c.ResizePolicy,
		RestartPolicy: c.RestartPolicy,
	}
}

// slimStatuses keeps the fields that a resize in place needs.
func slimStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		*s = corev1.ContainerStatus{
			Name:               s.Name,
			Ready:              s.Ready,
			AllocatedResources: s.AllocatedResources,
			Resources:          s.Resources,
		}
	}
}

func slimClaim(claim *v1.NodeClaim) {
	slimMeta(claim)
	oneCase(claim)
}

func slimNode(node *corev1.Node) {
	slimMeta(node)
	oneCase(node)
	node.Status.Images = nil
	node.Status.VolumesInUse = nil
}

func slimDaemonSet(ds *appsv1.DaemonSet) {
	slimMeta(ds)
	ds.Spec.Template.Annotations = nil
	slimPodSpec(&ds.Spec.Template.Spec)
}
