// Package kube reads single Kubernetes objects: the requests, selectors and tolerations of a pod, the properties of a node, a NodeClaim, a NodePool
// or an instance type, and the faults of each. The packages above it read several objects together.
package kube
