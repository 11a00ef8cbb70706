// Package clusterautoscaler holds tests beside Cluster Autoscaler in the same cluster, on a real control plane. Cluster Autoscaler cannot be had as
// a module here. A stand-in acts on nodes and pods as Cluster Autoscaler does, with its taints, annotations and events.
package clusterautoscaler
