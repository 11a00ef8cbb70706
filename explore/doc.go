// Package explore drives the real reconcilers through interleavings. Each event of a run is a step: a write of a reconciler, the delivery of
// a watch event, a decision of kube-scheduler, the end of a pod, the boot of a machine, a change by a user, or a crash. A seed chooses the
// order of the steps. There is one API server in memory, one simulated cloud, and one clock that only the run moves. No two steps happen at
// the same time, so the same seed gives the same run.
//
// Faults happen only in the first steps of a run. Then the run goes on without faults until all is quiet. Laws are checked at each write and
// each call to the cloud, and once more at the end. If a run breaks a law, the explorer searches a smaller run that breaks the same law, and
// reports it step by step.
//
// Simple stand-ins simulate the other parts of Kubernetes: kube-scheduler, kubelets and the controllers of workloads. They do only as much as
// these runs need.
package explore
