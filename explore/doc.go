// Package explore drives the real reconcilers through interleavings: in one run, everything that happens in a cluster (a
// write of a reconciler, the delivery of an event, a decision of kube-scheduler, a pod that ends, a machine that boots, a
// user's hand, a crash) is a step, and a seed says which step is next. There is one API server in memory, one simulated
// cloud, one clock that only the run moves, and never two things at the same time, so the same seed is the same run.
//
// After a number of steps in which everything may go wrong, nothing goes wrong any more and the run goes on until all is
// quiet. Laws are checked at every write and every call of the cloud, and once more in the end. A run that breaks a law is
// made smaller, and told step by step.
//
// What Kubernetes does beside the API server (kube-scheduler, kubelets, the controllers of workloads) is played by
// stand-ins that know no more than these runs need.
package explore
