package explore

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
)

// kind is one kind of object that the API server serves.
type kind struct {
	name, group string
	prototype   client.Object
	status      bool // the status is a subresource: whoever writes the rest leaves it alone
	graceful    bool // a deletion waits for a kubelet
}

func kinds() []kind {
	return []kind{
		{"Pod", "", &corev1.Pod{}, true, true},
		{"Node", "", &corev1.Node{}, true, false},
		{"NodeClaim", v1.GroupVersion.Group, &v1.NodeClaim{}, true, false},
		{"NodePool", v1.GroupVersion.Group, &v1.NodePool{}, true, false},
		{"KWOKNodeClass", kwokv1alpha1.GroupVersion.Group, &kwokv1alpha1.KWOKNodeClass{}, true, false},
		{"PodDisruptionBudget", "policy", &policyv1.PodDisruptionBudget{}, true, false},
		{"ReplicaSet", "apps", &appsv1.ReplicaSet{}, false, false},
		{"StatefulSet", "apps", &appsv1.StatefulSet{}, false, false},
		{"DaemonSet", "apps", &appsv1.DaemonSet{}, false, false},
		{"VolumeAttachment", "storage.k8s.io", &storagev1.VolumeAttachment{}, true, false},
		{"PersistentVolumeClaim", "", &corev1.PersistentVolumeClaim{}, true, false},
		{"PersistentVolume", "", &corev1.PersistentVolume{}, true, false},
		{"StorageClass", "storage.k8s.io", &storagev1.StorageClass{}, false, false},
		{"CSINode", "storage.k8s.io", &storagev1.CSINode{}, false, false},
		{"LimitRange", "", &corev1.LimitRange{}, false, false},
		{"Namespace", "", &corev1.Namespace{}, false, false},
		{"Service", "", &corev1.Service{}, false, false},
		{"ReplicationController", "", &corev1.ReplicationController{}, false, false},
		{"DeviceClass", "resource.k8s.io", &resourcev1.DeviceClass{}, false, false},
		{"Event", "", &corev1.Event{}, false, false},
	}
}

// deletesAtOnce reports whether nobody has to end the pod first.
func deletesAtOnce(o client.Object, d deletion) bool {
	pod := o.(*corev1.Pod)
	return pod.Spec.NodeName == "" || d.grace != nil && *d.grace == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// removeSlowly tells a pod to end, or to end sooner than it was told before.
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
