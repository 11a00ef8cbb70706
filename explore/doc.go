// Package explore drives the real reconcilers through interleavings. Each event of a run is a step: a write of a reconciler, the delivery of a watch
// event, a decision of kube-scheduler, the end of a pod, the boot of a machine, a change by a user, or a crash. A seed chooses the order of the
// steps. There is one API server in memory, one simulated cloud, and one clock that only the run moves, and no two steps happen at the same time, so
// the same seed gives the same run.
//
// After a number of steps in which everything may go wrong, nothing goes wrong any more and the run goes on until all is
// quiet. Laws are checked at every write and every call of the cloud, and once more in the end. A run that breaks a law is
// made smaller, and told step by step.
//
// What Kubernetes does beside the API server (kube-scheduler, kubelets, the controllers of workloads) is played by
// stand-ins that know no more than these runs need.
package explore
