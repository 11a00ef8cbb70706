package oracle

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
)

// This file makes small clusters by hand.

func open(t *testing.T) *Scheduler {
	t.Helper()
	s, err := Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// nodeIn returns a node of 4 cores in a zone.
func nodeIn(name, zone string) *corev1.Node {
	n := &corev1.Node{}
	n.Name = name
	n.Labels = map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: count(4), corev1.ResourceMemory: mebi(8192), corev1.ResourcePods: count(10)}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// podOf returns a waiting pod of one core.
func podOf(name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "default", name, types.UID("default/"+name)
	p.Labels = map[string]string{appLabel: name}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: count(1)}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

// running returns the pod on a node.
func running(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName, p.Status.Conditions, p.Status.Phase = node, nil, corev1.PodRunning
	return p
}

func idOf(p *corev1.Pod) engine.PodID {
	return engine.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// with adds a volume with a claim to the pod.
func with(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	return p
}

// claimOf adds a claim of class disk, which waits for its first consumer.
func claimOf(s *engine.Snapshot, name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	c.Namespace, c.Name, c.UID = "default", name, types.UID("claim/"+name)
	c.Spec.AccessModes, c.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{mode}, ptr.To(diskClass)
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: mebi(1024)}
	c.Status.Phase = corev1.ClaimPending
	s.PersistentVolumeClaims = append(s.PersistentVolumeClaims, c)
	if len(s.StorageClasses) == 0 {
		s.StorageClasses = []*storagev1.StorageClass{{
			ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: diskDriver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}}
	}
	return c
}

// boundTo adds a volume, and binds the claim to it.
func boundTo(s *engine.Snapshot, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	d := newDrawing(0, 0)
	pv := d.volume("pv-"+c.Name, diskDriver, diskClass, c.Spec.AccessModes)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	c.Spec.VolumeName, c.Status.Phase = pv.Name, corev1.ClaimBound
	c.Annotations = map[string]string{bindCompleted: "yes"}
	s.PersistentVolumes = append(s.PersistentVolumes, pv)
	return pv
}
