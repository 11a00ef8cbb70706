package engine

import "time"

// ExpectedPod is what plans have left for the next one of a pod that waits though they find room for it on a node.
type ExpectedPod struct {
	// Node is where the last plan expected the pod, empty for on none that is there; Since is since when plans have done so without a break.
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Refused lists, in order, the nodes that kube-scheduler has not bound the pod to though it was expected there for long.
	Refused []string `json:"refused,omitempty"`
}
