// Package scheduler replays kube-scheduler: its default filters and scores, pod by pod, on the existing nodes and the machines of a plan. A plan can
// so be judged by the nodes on which its pods would land.
package scheduler
