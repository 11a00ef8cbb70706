package explain

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

func reasonRecords(reasons []engine.Reason) []engine.ReasonRecord {
	out := make([]engine.ReasonRecord, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, r.Record())
	}
	return out
}

// ConditionRecord is a condition of an object.
type ConditionRecord struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	Since   metav1.Time            `json:"since"`
}

func conditionRecords(conditions []metav1.Condition) []ConditionRecord {
	out := make([]ConditionRecord, 0, len(conditions))
	for _, c := range conditions {
		out = append(out, ConditionRecord{c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime})
	}
	return out
}

// ResourceUse is the usage of a resource. Amounts are quantities.
type ResourceUse struct {
	Resource  corev1.ResourceName `json:"resource"`
	Used      string              `json:"used"`
	Available string              `json:"available"`
	Share     float64             `json:"share"`
	// Hardware is the part of a pool's Used that its machines have in hardware, if nodes show shares of devices; empty otherwise.
	Hardware string `json:"hardware,omitempty"`
	// UsedWords and AvailableWords are the two amounts in words.
	UsedWords      string `json:"-"`
	AvailableWords string `json:"-"`
}

// useOf returns the usage of the named resources.
func useOf(used, available corev1.ResourceList, names []corev1.ResourceName) []ResourceUse {
	out := make([]ResourceUse, 0, len(names))
	for _, name := range names {
		u, a := used[name], available[name]
		out = append(out, ResourceUse{
			Resource: name, Used: u.String(), Available: a.String(), Share: shareOf(used, available, name),
			UsedWords: engine.AmountWords(name, u), AvailableWords: engine.AmountWords(name, a),
		})
	}
	return out
}

func shareOf(used, available corev1.ResourceList, name corev1.ResourceName) float64 {
	u, a := used[name], available[name]
	if a.Sign() <= 0 {
		return 0
	}
	return u.AsApproximateFloat64() / a.AsApproximateFloat64()
}

// largestShare returns the largest share of any resource except pods, and that resource.
func largestShare(used, available corev1.ResourceList) (share float64, of corev1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if name == corev1.ResourcePods {
			continue
		}
		if s := shareOf(used, available, name); s > share {
			share, of = s, name
		}
	}
	return share, of
}

// quantityTexts returns the amounts as quantities, by resource.
func quantityTexts(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func podTexts(pods []engine.PodID) []string {
	out := make([]string, 0, len(pods))
	for _, p := range pods {
		out = append(out, p.String())
	}
	return out
}
