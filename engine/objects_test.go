package engine

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// readObjects reads the Kubernetes objects of the text, one YAML document each; only the kind says what they are. Objects
// that have a namespace and name none are in "default".
func readObjects(t *testing.T, text string) *Snapshot {
	t.Helper()
	s := &Snapshot{}
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		readObject(t, s, document)
	}
	return s
}

func readObject(t *testing.T, s *Snapshot, document string) {
	t.Helper()
	var head struct{ Kind string }
	parse(t, document, &head)
	switch head.Kind {
	case "Pod":
		s.Pods = append(s.Pods, inDefault(readAs[corev1.Pod](t, document)))
	case "Node":
		s.Nodes = append(s.Nodes, readAs[corev1.Node](t, document))
	case "Namespace":
		s.Namespaces = append(s.Namespaces, readAs[corev1.Namespace](t, document))
	case "PersistentVolume":
		s.PersistentVolumes = append(s.PersistentVolumes, readAs[corev1.PersistentVolume](t, document))
	case "PersistentVolumeClaim":
		s.PersistentVolumeClaims = append(s.PersistentVolumeClaims, inDefault(readAs[corev1.PersistentVolumeClaim](t, document)))
	case "StorageClass":
		s.StorageClasses = append(s.StorageClasses, readAs[storagev1.StorageClass](t, document))
	case "CSINode":
		s.CSINodes = append(s.CSINodes, readAs[storagev1.CSINode](t, document))
	case "VolumeAttachment":
		s.VolumeAttachments = append(s.VolumeAttachments, readAs[storagev1.VolumeAttachment](t, document))
	case "Service":
		s.Services = append(s.Services, inDefault(readAs[corev1.Service](t, document)))
	case "ReplicaSet":
		s.ReplicaSets = append(s.ReplicaSets, inDefault(readAs[appsv1.ReplicaSet](t, document)))
	case "StatefulSet":
		s.StatefulSets = append(s.StatefulSets, inDefault(readAs[appsv1.StatefulSet](t, document)))
	case "ReplicationController":
		s.ReplicationControllers = append(s.ReplicationControllers, inDefault(readAs[corev1.ReplicationController](t, document)))
	case "DeviceClass":
		s.DeviceClasses = append(s.DeviceClasses, readAs[resourcev1.DeviceClass](t, document))
	default:
		t.Fatalf("nobody reads the kind %q", head.Kind)
	}
}

func readAs[T any](t *testing.T, document string) *T {
	t.Helper()
	object := new(T)
	parse(t, document, object)
	return object
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

func inDefault[T interface {
	GetNamespace() string
	SetNamespace(string)
}](object T) T {
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	return object
}

// podWith is a pod with this spec, in YAML, in the namespace "default".
func podWith(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "pod", "uid"
	parse(t, spec, &pod.Spec)
	return pod
}

// volumesOf indexes the snapshot's volumes, with all of its pods.
func volumesOf(s *Snapshot) *volumes {
	return newVolumes(s, s.Pods, limitedDrivers(s), newTypeIndex(s))
}
