package provisioning

import (
	"tenon.sh/engine"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/kube"
)

// sumUpGangs adds to the plan the result for each gang of the snapshot.
func (rd *Reading) sumUpGangs(plan *engine.Plan, s *engine.Snapshot) {
	gangs := gang.Read(s)
	if gangs == nil || len(gangs.List) == 0 {
		return
	}
	plan.Gangs = make([]engine.GangRoom, len(gangs.List))
	of := map[engine.PodID]*engine.GangRoom{}
	for i, g := range gangs.List {
		room := &plan.Gangs[i]
		*room = engine.GangRoom{Namespace: g.Group.Namespace, Name: g.Group.Name, UID: g.Group.UID,
			MinCount: g.Group.MinCount(), Running: len(g.Running), Left: len(g.Waiting)}
		for _, pod := range g.Waiting {
			of[kube.PodID(pod)] = room
		}
	}
	there := map[string]bool{}
	for _, m := range rd.Machines {
		there[m.Name()] = isThere(m)
	}
	for _, x := range plan.Placements {
		if room := of[x.Pod]; room != nil && there[x.Node] {
			room.Existing++
		} else if room != nil {
			room.Coming++
		}
	}
	for i := range plan.Launches {
		for _, pod := range plan.Launches[i].Pods {
			if room := of[pod]; room != nil {
				room.Coming++
			}
		}
	}
	for _, u := range plan.Unplaced {
		if room := of[u.Pod]; room != nil && room.Reasons == nil {
			room.Reasons = u.Reasons
		}
	}
	for i, g := range gangs.List {
		room := &plan.Gangs[i]
		placed := room.Existing + room.Coming
		room.Left -= placed
		switch {
		case !g.Suffices(len(g.Waiting)):
			room.Progress, room.Reasons = engine.GangTooFew, []engine.Reason{g.TooSmall()}
		case room.Running >= room.MinCount:
			room.Progress = engine.GangStarted
		case g.Suffices(placed):
			room.Progress = engine.GangStarts
		case !g.Asks():
			room.Progress = engine.GangUntried
		default:
			room.Progress = engine.GangWaits
		}
	}
}
