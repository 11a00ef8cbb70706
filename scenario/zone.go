package scenario

import (
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/budget"
)

// loadZones loads the time zones that the snapshot names. It omits unknown names, because the engine reports them.
func loadZones(s *engine.Snapshot) {
	names := budget.TimeZones(s)
	if len(names) == 0 {
		return
	}
	s.Zones = map[string]*time.Location{}
	for _, name := range names {
		if zone, err := time.LoadLocation(name); err == nil {
			s.Zones[name] = zone
		}
	}
}
