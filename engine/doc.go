// Package engine defines the values of Tenon's decisions: a Snapshot of the cluster, the Plan that follows from it with a Reason for each refusal, the
// Options of the decision, and the Events that report it. This package decides nothing.
//
// The packages that decide stand above it, from the bottom to the top:
//
//	kube          readings of single Kubernetes objects
//	gang          which pods start together
//	booking       the room that ProvisioningRequests ask for
//	buffer        the room that CapacityBuffers ask for
//	accelerator   the resources that device plugins show for a machine's GPUs
//	dra           readings of ResourceSlices and ResourceClaims
//	deviceplan    which machines have the devices that pods claim
//	overlay       catalogs with the changes of NodeOverlays
//	volume        the constraints of a pod's volumes on nodes
//	inventory     the pods, machines and prices that there are, and the disruptions that have begun
//	ondemand      which pods have to run on demand
//	budget        budgets for disruption
//	lifecycle     the next step of one NodeClaim (Next)
//	scheduler     kube-scheduler replayed
//	constraints   the constraints of pods on nodes and on each other
//	launchbackoff machines that did not take the pods for which they were started
//	offering      the machines that each pool can start
//	lossgroup     which machines are not to be lost at once
//	yield         which machines make way at a pool's limits
//	provisioning  which machines to start (Plan)
//	limits        the use of limits and quotas by launches
//	nomination    which pods are nominated to which node, and when nodes open
//	replacement   the next steps of disruptions that wait for replacements (Progress)
//	disruption    which nodes go (Plan, Checker)
//	explain       explanations of decisions
//	advice        changes that would make a plan cheaper
//
// Packages for numbers, sets and graphs know nothing of Kubernetes: bitset, capacity, parallel, device (devices that serve a claim), requirement,
// topology, packing (machines that hold a set of pods at the least price), bound (a lower bound for their price) and consolidation (machines whose
// removal saves money).
// Package enginetest builds the objects that the tests of all these packages start from.
//
// Every entry point is a function of values: it does no I/O, reads no clock, logs nothing, and the same input always gives the same
// output, on any machine. Reading the cluster, writing to it and telling the user belong to the packages that call the engine.
package engine
