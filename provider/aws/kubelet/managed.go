// Package kubelet reads and checks spec.kubelet of a node class: fields of KubeletConfiguration. Package userdata writes them for an image.
package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Managed holds the fields that images of every family accept, and that a node's overhead depends on.
type Managed struct {
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// MaxPods is a number, or an expression.
	MaxPods                     *intstr.IntOrString        `json:"maxPods,omitempty"`
	PodsPerCore                 int                        `json:"podsPerCore,omitempty"`
	SystemReserved              map[string]string          `json:"systemReserved,omitempty"`
	KubeReserved                map[string]string          `json:"kubeReserved,omitempty"`
	EvictionHard                map[string]string          `json:"evictionHard,omitempty"`
	EvictionSoft                map[string]string          `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod     map[string]metav1.Duration `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMaxPodGracePeriod   *int32                     `json:"evictionMaxPodGracePeriod,omitempty"`
	ImageGCHighThresholdPercent *int32                     `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLowThresholdPercent  *int32                     `json:"imageGCLowThresholdPercent,omitempty"`
	CPUCFSQuota                 *bool                      `json:"cpuCFSQuota,omitempty"`
}

// managedFields returns the names of the fields of Managed.
func managedFields() []string {
	return []string{"clusterDNS", "cpuCFSQuota", "evictionHard", "evictionMaxPodGracePeriod", "evictionSoft", "evictionSoftGracePeriod",
		"imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "kubeReserved", "maxPods", "podsPerCore", "systemReserved"}
}

// Read reads the managed fields; for nil, all are unset.
func Read(raw *runtime.RawExtension) (Managed, error) {
	var m Managed
	if raw == nil || len(raw.Raw) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(raw.Raw, &m); err != nil {
		return Managed{}, fmt.Errorf("read spec.kubelet: %w", err)
	}
	return m, nil
}

// MaxPodsNumber returns maxPods if it is a number.
func (m *Managed) MaxPodsNumber() (int, bool) {
	if m.MaxPods == nil || m.MaxPods.Type != intstr.Int {
		return 0, false
	}
	return m.MaxPods.IntValue(), true
}

// Unmanaged returns the names of the fields that only some families accept, in order.
func Unmanaged(raw *runtime.RawExtension) (names []string) {
	var fields map[string]json.RawMessage
	if raw == nil || json.Unmarshal(raw.Raw, &fields) != nil {
		return nil
	}
	for name := range fields {
		if !slices.Contains(managedFields(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
