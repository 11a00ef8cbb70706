// Package soldout remembers for a short time which offerings had no capacity in EC2, and why. Package cluster keeps the marks of single
// offerings for all clouds. This package has the marks that only EC2 needs: of a whole capacity type, of a subnet without addresses, of a
// zone with a zonal shift, and of an offering within a placement group.
package soldout

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

// Age is the time for which a mark holds.
const Age = 3 * time.Minute

// Marks holds the marks. It may be used from several goroutines.
type Marks struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards marks, zones and edit
	marks map[string]mark
	zones []string // IDs of zones with a zonal shift, in order
	edit  int
}

type mark struct {
	reason string
	until  time.Time
}

// New makes Marks without any marks.
func New(clock clock.PassiveClock) *Marks { return &Marks{clock: clock, marks: map[string]mark{}} }

// Offering marks an offering, within a placement group and one of its partitions if they are not "".
func (m *Marks) Offering(id engine.OfferingID, group, partition, reason string) {
	m.put(offeringKey(id.InstanceType, id.Zone, id.CapacityType, group, partition), reason)
}

// CapacityType marks all offerings of a capacity type.
func (m *Marks) CapacityType(capacityType, reason string) { m.put("type:"+capacityType, reason) }

// Subnet marks a subnet. A zone whose subnets are all marked is sold out.
func (m *Marks) Subnet(id, reason string) { m.put("subnet:"+id, reason) }

// Zones replaces the zones with a zonal shift, by their IDs. They stay until the next call.
func (m *Marks) Zones(ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if !slices.Equal(ids, m.zones) {
		m.zones = ids
		m.edit++
	}
}

// Edit returns a number that changes whenever a mark is added or ends.
func (m *Marks) Edit() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for key, mark := range m.marks {
		if !now.Before(mark.until) {
			delete(m.marks, key)
			m.edit++
		}
	}
	return m.edit
}

// None reports whether there is no mark.
func (m *Marks) None() bool {
	m.Edit()
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.marks)+len(m.zones) == 0
}

// Place is the place of an offering of a class.
type Place struct {
	Zone, ZoneID string
	// Subnets are the class's subnets in the zone.
	Subnets []string
	// Group is the class's placement group, "" without one; Partitions is the number of its partitions.
	Group      string
	Partitions int
}

// Reason returns the reason why an offering has no capacity, "" if it is not marked.
func (m *Marks) Reason(kind, capacityType string, place Place) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.zones, place.ZoneID) {
		return "zone " + place.Zone + " is being moved out of (zonal shift)"
	}
	if reason := m.get("type:" + capacityType); reason != "" {
		return reason
	}
	if reason := m.get(offeringKey(kind, place.Zone, capacityType, "", "")); reason != "" {
		return reason
	}
	if reason := m.inGroup(kind, capacityType, place); reason != "" {
		return reason
	}
	reason := ""
	for _, id := range place.Subnets {
		if reason = m.get("subnet:" + id); reason == "" {
			return ""
		}
	}
	return reason
}

// inGroup looks at the marks of a placement group: a mark of the whole group, or marks of all its partitions.
func (m *Marks) inGroup(kind, capacityType string, place Place) string {
	if place.Group == "" {
		return ""
	}
	if reason := m.get(offeringKey(kind, place.Zone, capacityType, place.Group, "")); reason != "" {
		return reason
	}
	reason := ""
	for p := 1; p <= place.Partitions; p++ {
		if reason = m.get(offeringKey(kind, place.Zone, capacityType, place.Group, fmt.Sprint(p))); reason == "" {
			return ""
		}
	}
	return reason
}

func (m *Marks) get(key string) string {
	mark, found := m.marks[key]
	if !found || !m.clock.Now().Before(mark.until) {
		return ""
	}
	return mark.reason
}

func (m *Marks) put(key, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[key] = mark{reason, m.clock.Now().Add(Age)}
	m.edit++
}

func offeringKey(kind, zone, capacityType, group, partition string) string {
	return strings.Join([]string{"offering", capacityType, kind, zone, group, partition}, ":")
}
