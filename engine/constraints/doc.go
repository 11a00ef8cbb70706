// Package constraints reads what pods ask for beside resources: of the node itself (Reader), and of the pods that run there or wait with
// them (InterPod: spread, affinity and anti-affinity, host ports, shared volumes). It counts what runs in terms of package topology.
package constraints
