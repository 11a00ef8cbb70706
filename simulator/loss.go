package simulator

import (
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// lossTime is how long after the first interruption of a type and zone other interruptions belong to the same loss.
const lossTime = 5 * time.Minute

// losses holds the largest share of a workload's pods that the cloud takes away at once.
type losses struct {
	begun map[engine.OfferingID]*loss // the newest of each
	most  float64                     // the largest share of a workload's pods so far
}

// loss is a group of machines of one type and zone that the cloud interrupts together.
type loss struct {
	at        time.Time
	lost, had map[*load]int // pods with a node: the lost ones, and all at the first loss
}

// add records an interruption of the node's machine. Workloads with a single pod are left out, because they lose all pods or none.
func (x *losses) add(s *seat, now time.Time) {
	id := inventory.MachineOffering(s.node.Labels)
	l := x.begun[id]
	if l == nil || now.Sub(l.at) > lossTime {
		l = &loss{at: now, lost: map[*load]int{}, had: map[*load]int{}}
		x.begun[id] = l
	}
	for _, u := range s.units {
		if u.load == nil {
			continue
		}
		if l.had[u.load] == 0 {
			for _, other := range u.load.units.list {
				if other.seat != nil {
					l.had[u.load]++
				}
			}
		}
		if l.lost[u.load]++; l.had[u.load] > 1 {
			x.most = max(x.most, float64(l.lost[u.load])/float64(l.had[u.load]))
		}
	}
}
