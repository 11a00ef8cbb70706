package engine

import "time"

// ScaleUp says that another autoscaler has said that it starts nodes for a pod, and until when that is believed: then the pod is
// planned for like any other.
type ScaleUp struct {
	// Pod is the pod's UID.
	Pod string `json:"pod"`
	// Group is the group of nodes that grows, as the other autoscaler calls it.
	Group string    `json:"group"`
	Until time.Time `json:"until"`
}
