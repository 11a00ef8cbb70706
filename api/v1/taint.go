package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Taint keeps pods off a node unless they tolerate it. It differs from the
// core kind only in that the API server checks its parts. Its name and field
// names are part of the drift hash.
type Taint struct {
	// Key is the name of the taint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +required
	Key string `json:"key"`

	// Value is compared with the value of a pod's toleration.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +optional
	Value string `json:"value,omitempty"`

	// Effect is what happens to pods that do not tolerate the taint.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +required
	Effect corev1.TaintEffect `json:"effect"`

	// TimeAdded is when the taint was put on the node.
	// +optional
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// ToCore returns the taint in the form for a Node.
func (t Taint) ToCore() corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, TimeAdded: t.TimeAdded.DeepCopy()}
}

// TaintFromCore returns a Node's taint in the form for a NodePool.
func TaintFromCore(t corev1.Taint) Taint {
	return Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, TimeAdded: t.TimeAdded.DeepCopy()}
}

// CoreTaints converts a list of taints. An empty list gives nil.
func CoreTaints(taints []Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range taints {
		out = append(out, t.ToCore())
	}
	return out
}
