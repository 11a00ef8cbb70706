package v1

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditioned is a kind with a root condition Ready, which depends on a fixed list of conditions, and any number of independent conditions.
//
// +kubebuilder:object:generate=false
type Conditioned interface {
	metav1.Object
	GetConditions() []metav1.Condition
	SetConditions([]metav1.Condition)
	// DependentConditions returns the conditions that must be True for the object to be Ready.
	DependentConditions() []string
}

// GetCondition finds a condition. It returns nil if there is none of that type.
func GetCondition(obj Conditioned, conditionType string) *metav1.Condition {
	conditions := obj.GetConditions()
	if i := indexOf(conditions, conditionType); i >= 0 {
		return &conditions[i]
	}
	return nil
}

// IsTrue reports whether the object has the condition with status True.
func IsTrue(obj Conditioned, conditionType string) bool {
	c := GetCondition(obj, conditionType)
	return c != nil && c.Status == metav1.ConditionTrue
}

// SetCondition sets a condition, creates missing dependent conditions as Unknown, and recomputes Ready. An empty reason is replaced by the
// type. The transition time changes only if the status changes. It reports whether anything has changed.
func SetCondition(obj Conditioned, conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) (changed bool) {
	before := obj.GetConditions()
	conditions := withDependents(obj, now)
	conditions = put(conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             cmp.Or(reason, conditionType),
		Message:            message,
		ObservedGeneration: obj.GetGeneration(),
		LastTransitionTime: stamp(now),
	})
	conditions = put(conditions, root(obj, conditions, now))
	slices.SortStableFunc(conditions, byTransition)
	if slices.Equal(before, conditions) {
		return false
	}
	obj.SetConditions(conditions)
	return true
}

// RemoveCondition removes an independent condition. It does not remove Ready and the dependent conditions. It reports whether it removed one.
func RemoveCondition(obj Conditioned, conditionType string, now time.Time) (changed bool) {
	if conditionType == ConditionReady || slices.Contains(obj.DependentConditions(), conditionType) {
		return false
	}
	if GetCondition(obj, conditionType) == nil {
		return false
	}
	conditions := withDependents(obj, now)
	i := indexOf(conditions, conditionType)
	conditions = slices.Delete(conditions, i, i+1)
	conditions = put(conditions, root(obj, conditions, now))
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	obj.SetConditions(conditions)
	return true
}

// InitializeConditions creates Ready and the dependent conditions as Unknown if they are missing. It reports whether any was missing.
func InitializeConditions(obj Conditioned, now time.Time) (changed bool) {
	conditions := withDependents(obj, now)
	if len(conditions) == len(obj.GetConditions()) {
		return false
	}
	slices.SortStableFunc(conditions, byTransition)
	obj.SetConditions(conditions)
	return true
}

// withDependents returns a copy of the object's conditions with the missing dependent ones. Their transition time is the object's creation,
// so that a time limit on a condition counts from then too.
func withDependents(obj Conditioned, now time.Time) []metav1.Condition {
	conditions := slices.Clone(obj.GetConditions())
	since := obj.GetCreationTimestamp()
	if since.IsZero() {
		since = stamp(now)
	}
	for _, t := range append(slices.Clone(obj.DependentConditions()), ConditionReady) {
		if indexOf(conditions, t) < 0 {
			conditions = append(conditions, metav1.Condition{
				Type:               t,
				Status:             metav1.ConditionUnknown,
				Reason:             ReasonAwaitingReconciliation,
				Message:            "nothing has looked at this object yet",
				ObservedGeneration: obj.GetGeneration(),
				LastTransitionTime: since,
			})
		}
	}
	return conditions
}

// root computes Ready from the dependent conditions. A condition for an older generation of the object counts as Unknown.
func root(obj Conditioned, conditions []metav1.Condition, now time.Time) metav1.Condition {
	ready := metav1.Condition{
		Type:               ConditionReady,
		Status:             metav1.ConditionTrue,
		Reason:             ConditionReady,
		ObservedGeneration: obj.GetGeneration(),
		LastTransitionTime: stamp(now),
	}
	var offending []string
	for _, t := range obj.DependentConditions() {
		status := metav1.ConditionUnknown
		if i := indexOf(conditions, t); i >= 0 && conditions[i].ObservedGeneration == obj.GetGeneration() {
			status = conditions[i].Status
		}
		if status == metav1.ConditionTrue {
			continue
		}
		offending = append(offending, t+"="+string(status))
		if status == metav1.ConditionFalse {
			ready.Status, ready.Reason = metav1.ConditionFalse, ReasonUnhealthyDependents
		} else if ready.Status == metav1.ConditionTrue {
			ready.Status, ready.Reason = metav1.ConditionUnknown, ReasonReconcilingDependents
		}
	}
	ready.Message = strings.Join(offending, ", ")
	return ready
}

// put replaces the condition of c's type, or adds c. It keeps the old transition time if the status is the same.
func put(conditions []metav1.Condition, c metav1.Condition) []metav1.Condition {
	i := indexOf(conditions, c.Type)
	if i < 0 {
		return append(conditions, c)
	}
	if conditions[i].Status == c.Status {
		c.LastTransitionTime = conditions[i].LastTransitionTime
	}
	conditions[i] = c
	return conditions
}

func indexOf(conditions []metav1.Condition, conditionType string) int {
	return slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
}

// byTransition sorts the oldest transition first and Ready last.
func byTransition(a, b metav1.Condition) int {
	if (a.Type == ConditionReady) != (b.Type == ConditionReady) {
		if a.Type == ConditionReady {
			return 1
		}
		return -1
	}
	return cmp.Or(a.LastTransitionTime.Compare(b.LastTransitionTime.Time), cmp.Compare(a.Type, b.Type))
}

// stamp truncates a time like the API server, so that a condition does not change when it is stored.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
