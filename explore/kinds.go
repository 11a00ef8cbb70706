package explore

import (
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
)

// kind is one kind of object that the API server serves.
type kind struct {
	name, group string
	prototype   client.Object
	status      bool // the status is a subresource: writes of other parts do not change it
	graceful    bool // a deletion waits for a kubelet

	parts   map[string]int                // the fields that patches refer to, by name
	indexes map[string]client.IndexerFunc // by field
}

func kinds() []kind {
	list := []kind{
		{name: "Pod", prototype: &corev1.Pod{}, status: true, graceful: true},
		{name: "Node", prototype: &corev1.Node{}, status: true},
		{name: "NodeClaim", group: v1.GroupVersion.Group, prototype: &v1.NodeClaim{}, status: true},
		{name: "NodePool", group: v1.GroupVersion.Group, prototype: &v1.NodePool{}, status: true},
		{name: "KWOKNodeClass", group: kwokv1alpha1.GroupVersion.Group, prototype: &kwokv1alpha1.KWOKNodeClass{}, status: true},
		{name: "PodDisruptionBudget", group: "policy", prototype: &policyv1.PodDisruptionBudget{}, status: true},
		{name: "ReplicaSet", group: "apps", prototype: &appsv1.ReplicaSet{}},
		{name: "StatefulSet", group: "apps", prototype: &appsv1.StatefulSet{}},
		{name: "DaemonSet", group: "apps", prototype: &appsv1.DaemonSet{}},
		{name: "VolumeAttachment", group: "storage.k8s.io", prototype: &storagev1.VolumeAttachment{}, status: true},
		{name: "PersistentVolumeClaim", prototype: &corev1.PersistentVolumeClaim{}, status: true},
		{name: "PersistentVolume", prototype: &corev1.PersistentVolume{}, status: true},
		{name: "StorageClass", group: "storage.k8s.io", prototype: &storagev1.StorageClass{}},
		{name: "CSINode", group: "storage.k8s.io", prototype: &storagev1.CSINode{}},
		{name: "CSIDriver", group: "storage.k8s.io", prototype: &storagev1.CSIDriver{}},
		{name: "CSIStorageCapacity", group: "storage.k8s.io", prototype: &storagev1.CSIStorageCapacity{}},
		{name: "RuntimeClass", group: "node.k8s.io", prototype: &nodev1.RuntimeClass{}},
		{name: "LimitRange", prototype: &corev1.LimitRange{}},
		{name: "Namespace", prototype: &corev1.Namespace{}},
		{name: "Service", prototype: &corev1.Service{}},
		{name: "ReplicationController", prototype: &corev1.ReplicationController{}},
		{name: "DeviceClass", group: "resource.k8s.io", prototype: &resourcev1.DeviceClass{}},
		{name: "ResourceClaim", group: "resource.k8s.io", prototype: &resourcev1.ResourceClaim{}, status: true},
		{name: "ResourceClaimTemplate", group: "resource.k8s.io", prototype: &resourcev1.ResourceClaimTemplate{}},
		{name: "ResourceSlice", group: "resource.k8s.io", prototype: &resourcev1.ResourceSlice{}},
		{name: "Event", prototype: &corev1.Event{}},
		{name: "CapacityBuffer", group: autoscalingv1beta1.GroupVersion.Group, prototype: &autoscalingv1beta1.CapacityBuffer{}, status: true},
		{name: "PodTemplate", prototype: &corev1.PodTemplate{}},
		{name: "Deployment", group: "apps", prototype: &appsv1.Deployment{}},
		{name: "ResourceQuota", prototype: &corev1.ResourceQuota{}},
	}
	for i, k := range list {
		list[i].parts, list[i].indexes = partsOf(k.prototype), map[string]client.IndexerFunc{}
		for _, index := range cluster.Indexes() {
			if reflect.TypeOf(index.Object) == reflect.TypeOf(k.prototype) {
				list[i].indexes[index.Field] = index.Values
			}
		}
	}
	return list
}

// deletesAtOnce reports whether no kubelet must end the pod first.
func deletesAtOnce(o client.Object, d deletion) bool {
	pod := o.(*corev1.Pod)
	return pod.Spec.NodeName == "" || d.grace != nil && *d.grace == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// removeSlowly sets the time by which a pod must end. It never makes an earlier time later.
func (s *store) removeSlowly(shelf *shelf, o client.Object, d deletion) {
	pod := o.DeepCopyObject().(*corev1.Pod)
	grace := graceOf(pod)
	if d.grace != nil {
		grace = *d.grace
	}
	end := metav1.NewTime(s.clock.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	if pod.DeletionTimestamp != nil && !end.Before(pod.DeletionTimestamp) {
		return
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &grace
	s.put(shelf, pod)
}

func graceOf(pod *corev1.Pod) int64 {
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return 30
}
