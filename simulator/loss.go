package simulator

import (
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// lossTime is how long after the first one of a type and zone notices count as of the same loss.
const lossTime = 5 * time.Minute

// losses finds out how much of a workload is lost at once.
type losses struct {
	begun map[engine.OfferingID]*loss // the newest of each
	most  float64                     // share of a workload's pods
}

// loss is machines of one type and zone that the cloud takes away together.
type loss struct {
	at        time.Time
	lost, had map[*load]int // pods with a node: those that are lost, and all when the first one was
}

// add notes that the cloud takes the node's machine away. Of a workload with a single pod all or nothing is lost: it says nothing.
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
