package cluster

import (
	"sync"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/budget"
)

// zones holds the loaded time zones, because snapshots are made often, and zones are read from files.
type zones struct {
	mu     sync.Mutex                // guards byName
	byName map[string]*time.Location // nil for names of no zone
}

// of loads the zones that the snapshot names; nil if it names none.
func (z *zones) of(s *engine.Snapshot) map[string]*time.Location {
	names := budget.TimeZones(s)
	if len(names) == 0 {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]*time.Location{}
	for _, name := range names {
		zone, known := z.byName[name]
		if !known {
			if loaded, err := time.LoadLocation(name); err == nil {
				zone = loaded
			}
			if z.byName == nil {
				z.byName = map[string]*time.Location{}
			}
			z.byName[name] = zone
		}
		if zone != nil {
			out[name] = zone
		}
	}
	return out
}
