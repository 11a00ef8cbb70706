// Package kube reads what one Kubernetes object says by itself: what a pod requests and selects, which taints it tolerates, what a
// node, a NodeClaim, a NodePool or an instance type is, whether any of it makes sense. What several objects mean together is the
// business of the packages above it.
package kube
