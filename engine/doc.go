// Package engine holds Tenon's decisions: which machines to start for pods that no node can run, which nodes to remove,
// and what the next step of one NodeClaim is.
//
// Every entry point is a function of values. Provision and Disrupt read a Snapshot and give a Plan, Advance gives the
// next Step of one claim, Check says whether part of an older plan is still right. Nothing here does I/O, reads a
// clock, logs, or keeps state between calls: the same input always gives the same output, on any machine.
//
// What a Kubernetes object means (when a pod is pending, which labels a new node will carry, what a budget allows) is
// decided here too; numbers, sets and graphs are left to the subpackages capacity, requirement and packing.
// Reading the cluster, writing to it and telling the user belong to the packages that call the engine.
package engine
