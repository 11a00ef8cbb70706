package oracle

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
)

// objects holds the objects of a snapshot that filter plugins read, in the form of the protocol.
type objects struct {
	Nodes                  []*corev1.Node                  `json:"nodes,omitempty"`
	Pods                   []*corev1.Pod                   `json:"pods,omitempty"`
	Namespaces             []*corev1.Namespace             `json:"namespaces,omitempty"`
	Services               []*corev1.Service               `json:"services,omitempty"`
	ReplicationControllers []*corev1.ReplicationController `json:"replicationControllers,omitempty"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets,omitempty"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets,omitempty"`
	PersistentVolumes      []*corev1.PersistentVolume      `json:"persistentVolumes,omitempty"`
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim `json:"persistentVolumeClaims,omitempty"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses,omitempty"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes,omitempty"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers,omitempty"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities,omitempty"`
	VolumeAttachments      []*storagev1.VolumeAttachment   `json:"volumeAttachments,omitempty"`
	DeviceClasses          []*resourcev1.DeviceClass       `json:"deviceClasses,omitempty"`
	ResourceClaims         []*resourcev1.ResourceClaim     `json:"resourceClaims,omitempty"`
	ResourceSlices         []*resourcev1.ResourceSlice     `json:"resourceSlices,omitempty"`
}

func objectsOf(s *engine.Snapshot) *objects {
	o := &objects{
		Nodes: s.Nodes, Namespaces: s.Namespaces, Services: s.Services, ReplicationControllers: s.ReplicationControllers,
		ReplicaSets: s.ReplicaSets, StatefulSets: s.StatefulSets, PersistentVolumes: s.PersistentVolumes,
		PersistentVolumeClaims: s.PersistentVolumeClaims, StorageClasses: s.StorageClasses, CSINodes: s.CSINodes, CSIDrivers: s.CSIDrivers, CSIStorageCapacities: s.CSIStorageCapacities,
		VolumeAttachments: s.VolumeAttachments, DeviceClasses: s.DeviceClasses, ResourceClaims: s.ResourceClaims, ResourceSlices: s.ResourceSlices,
	}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != "" {
			o.Pods = append(o.Pods, pod)
		}
	}
	return o
}
