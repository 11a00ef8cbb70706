// Package scheduler replays kube-scheduler: its default filters and scores, pod by pod, on the nodes that are there and the machines of
// a plan, so that a plan can be judged by what becomes of it.
package scheduler
