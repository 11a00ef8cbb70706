package engine

import "time"

// ExpectedPod is a pending pod for which plans find room on an existing node.
type ExpectedPod struct {
	// Node is where the last plan expected the pod, empty if on no existing node. Since is when the first of the plans did that have expected it
	// there without interruption.
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Refused lists, in order, the nodes that kube-scheduler has not bound the pod to though it was expected there for long.
	Refused []string `json:"refused,omitempty"`
}
