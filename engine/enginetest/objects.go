package enginetest

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

func BudgetOf(nodes, schedule string, length time.Duration, reasons ...v1.DisruptionReason) v1.Budget {
	b := v1.Budget{Nodes: nodes, Reasons: reasons}
	if schedule != "" {
		b.Schedule, b.Duration = &schedule, &metav1.Duration{Duration: length}
	}
	return b
}

func CostlyPod(priority int32, annotations map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Annotations, pod.Spec.Priority = annotations, &priority
	return pod
}

// ReadObjects reads the Kubernetes objects of the text, one YAML document each; only the kind says what they are. Objects
// that have a namespace and name none are in "default".
func ReadObjects(t *testing.T, text string) *engine.Snapshot {
	t.Helper()
	s := &engine.Snapshot{}
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		readObject(t, s, document)
	}
	return s
}

func readObject(t *testing.T, s *engine.Snapshot, document string) {
	t.Helper()
	var head struct{ Kind string }
	Parse(t, document, &head)
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
	case "CSIDriver":
		s.CSIDrivers = append(s.CSIDrivers, readAs[storagev1.CSIDriver](t, document))
	case "CSIStorageCapacity":
		s.CSIStorageCapacities = append(s.CSIStorageCapacities, readAs[storagev1.CSIStorageCapacity](t, document))
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
	case "ResourceClaim":
		s.ResourceClaims = append(s.ResourceClaims, inDefault(readAs[resourcev1.ResourceClaim](t, document)))
	case "ResourceClaimTemplate":
		s.ResourceClaimTemplates = append(s.ResourceClaimTemplates, inDefault(readAs[resourcev1.ResourceClaimTemplate](t, document)))
	case "ResourceSlice":
		s.ResourceSlices = append(s.ResourceSlices, readAs[resourcev1.ResourceSlice](t, document))
	default:
		t.Fatalf("nobody reads the kind %q", head.Kind)
	}
}

func readAs[T any](t *testing.T, document string) *T {
	t.Helper()
	object := new(T)
	Parse(t, document, object)
	return object
}

func Parse(t *testing.T, text string, into any) {
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

// PodWith is a pod with this spec, in YAML, in the namespace "default".
func PodWith(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "pod", "uid"
	Parse(t, spec, &pod.Spec)
	return pod
}
