package engine

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "tenon.sh/api/v1"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Event is something to tell about one object.
type Event struct {
	Object  Object
	Warning bool
	Reason  string
	Message string
	// Key tells events of one reason apart.
	Key string
}

const eventProtectedUntil = "DoNotDisruptUntil"

// Causes of deletion.
const (
	CauseExpired              = "expired"
	CauseGarbageCollected     = "garbage_collected"
	CauseInsufficientCapacity = "insufficient_capacity"
	CauseNodeClassNotReady    = "nodeclass_not_ready"
	CauseLaunchTimeout        = "launch_timeout"
	CauseLeaderChanged        = "leader_changed" // a leader created the claim that had been replaced
	CauseRegistrationTimeout  = "registration_timeout"
	CauseReadinessTimeout     = "readiness_timeout"
)

// ProtectedUntil tells the owner of a pod until when its annotation keeps it, and its node, from being disrupted.
func ProtectedUntil(pod *corev1.Pod, until time.Time) Event {
	return Event{Object: pod, Reason: eventProtectedUntil, Key: ClockText(until), Message: fmt.Sprintf(
		"annotation %s protects the pod until %s", v1.DoNotDisruptAnnotationKey, ClockText(until))}
}
