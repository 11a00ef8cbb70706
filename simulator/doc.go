// Package simulator is a whole cluster on a virtual clock, from one seed: API objects in memory, machines of package simulated,
// kube-scheduler (scheduler.Replay), kubelets, and the controllers of workloads that scale by the hour, roll out, and run jobs. Tenon's
// part is the real code: provisioning.Plan, disruption.Plan and lifecycle.Next decide, and the world carries out their decisions, as
// the live controllers do.
//
// The world has no ticks: it advances from event to event, and the same configuration gives the same result to the last bit. Run returns a Result,
// which the caller prints.
package simulator
