// Package clusterautoscaler holds tests beside Cluster Autoscaler in the same cluster, on a real control plane. It cannot be had as a
// module here: a stand-in does to nodes and pods what Cluster Autoscaler does, with its taints, annotations and events, and no more
// of it.
package clusterautoscaler
