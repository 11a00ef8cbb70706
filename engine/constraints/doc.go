// Package constraints reads the constraints of pods beside resources: constraints on the node itself (Reader), and constraints on the pods that run
// on the node or wait with them (InterPod: spread, affinity and anti-affinity, host ports, shared volumes). It counts running pods in terms of
// package topology.
package constraints
