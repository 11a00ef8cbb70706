// Package simulator is a whole cluster on a virtual clock, from one seed: API objects in memory, machines of package
// simulated, kube-scheduler (scheduler.Replay), kubelets, and the controllers of workloads that scale by the hour, roll out,
// and run jobs. Tenon's part of it is the real one: provisioning.Plan, disruption.Plan and lifecycle.Next decide, and the
// world carries out what they say, as the live controllers do.
//
// Nothing ticks: the world goes from event to event, and the same configuration gives the same result to the last bit.
// What a run was like comes back as a Result; how it is shown is left to the caller.
package simulator
