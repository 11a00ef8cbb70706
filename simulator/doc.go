// Package simulator is a whole cluster on a virtual clock, from one seed: API objects in memory, machines of package simulated,
// kube-scheduler (scheduler.Replay), kubelets, and the controllers of workloads that scale by the hour, roll out, and run jobs. Tenon's
// part is the real code: provisioning.Plan, disruption.Plan and lifecycle.Next decide, and the world carries out their decisions, as
// the live controllers do.
//
// The world has no ticks: it advances from event to event, and the same configuration gives the same result to the last bit. Run returns a Result,
// which the caller prints.
//
// A World consists of parts, such as the cloud (markets), the objects of the API server (cluster), and the plans (passes). World lists them from the
// lowest to the highest. A part calls only lower parts. A part leaves work for higher parts in pending, and tells the timetable of changes.
package simulator
