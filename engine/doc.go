// Package engine holds the words of Tenon's decisions: a Snapshot of the cluster, the Plan that follows from it with a Reason for
// everything, the Options that tune it, the Events that tell of it. Nothing is decided here.
//
// Who decides stands above it, from the bottom to the top:
//
//	kube          what one Kubernetes object says
//	gang          which pods start together
//	booking       what ProvisioningRequests ask for
//	buffer        how much room CapacityBuffers ask for
//	accelerator   what device plugins show of a machine's GPUs
//	dra           what ResourceSlices and ResourceClaims say
//	deviceplan    which machines have the devices that pods claim
//	overlay       what NodeOverlays make of catalogs
//	volume        what a pod's volumes need of a node
//	inventory     what there is: pods, machines, prices, what has begun
//	ondemand      which pods have to run on demand
//	churn         which machines come and go for the same pods
//	budget        how much may be disrupted
//	lifecycle     the next step of one NodeClaim (Next)
//	scheduler     kube-scheduler replayed
//	constraints   what pods ask of nodes and of each other
//	launchbackoff which machines did not take the pods they were started for
//	offering      what each pool can start
//	lossgroup     which machines are not to be lost at once
//	yield         which machines make way at a pool's limits
//	provisioning  which machines to start (Plan)
//	limits        what launches use of limits and quotas
//	nomination    which pods are nominated to which node, and when nodes open
//	replacement   how disruptions go on that wait for replacements (Progress)
//	disruption    which nodes go (Plan, Checker)
//	explain       why
//	advice        what would make a plan cheaper
//
// Numbers, sets and graphs are left to packages that know nothing of Kubernetes: bitset, capacity, parallel, device (which devices serve a
// claim), requirement, topology, packing (which machines hold a set of pods at the least price), bound (what these cost at least) and
// consolidation (which machines are not worth theirs).
// Package enginetest builds the objects that the tests of all these packages start from.
//
// Every entry point is a function of values: it does no I/O, reads no clock, logs nothing, and the same input always gives the same
// output, on any machine. Reading the cluster, writing to it and telling the user belong to the packages that call the engine.
package engine
