// Package scheduler replays kube-scheduler: its default filters and scores, pod by pod, on the existing nodes and the machines of a plan. The replay
// predicts on which nodes the pods of a plan will land.
package scheduler
