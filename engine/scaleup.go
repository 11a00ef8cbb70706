package engine

import "time"

// ScaleUp says that another autoscaler has announced a node for a pod. Plans start no machine for the pod until a given time. After that time, they
// plan for the pod like for any other.
type ScaleUp struct {
	// Pod is the pod's UID.
	Pod string `json:"pod"`
	// Group is the other autoscaler's name for the group of nodes that grows.
	Group string    `json:"group"`
	Until time.Time `json:"until"`
}
