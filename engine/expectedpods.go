package engine

import "time"

// ExpectedPod is a pending pod for which plans find room on an existing node.
type ExpectedPod struct {
	// Node is the node on which the last plan expected the pod, empty if it expected the pod on no existing node. Since is the time of
	// the first plan that expected the pod on this node. All later plans have also expected the pod there.
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Refused lists, in order, the nodes to which kube-scheduler has not bound the pod although plans expected it there for long.
	Refused []string `json:"refused,omitempty"`
}
