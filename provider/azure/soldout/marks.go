// Package soldout remembers for a while the sizes for which Azure had no capacity or no quota, and why. It reads from the errors of launches
// which sizes are affected, where, and for how long. Its callers choose other sizes.
package soldout

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
)

// Attempt is an offering that a launch has requested or may request.
type Attempt struct {
	Size size.Figures
	// Zone is "eastus-1", or assortment.RegionalZone.
	Zone, CapacityType string
}

func (a Attempt) normal() Attempt {
	a.Zone = cmp.Or(a.Zone, assortment.RegionalZone)
	return a
}

// Marks holds the marks. It may be used from several goroutines.
type Marks struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards the fields below
	sizes  map[offering]mark
	groups map[group][]threshold
	next   time.Time // when the first mark ends
	edit   int
}

// anywhere stands for every zone, and for no zone.
const anywhere = ""

// offering is a size in a zone or anywhere.
type offering struct{ size, zone, capacityType string }

// group is all sizes of a quota family, or of all families if it is "", in a zone or anywhere.
type group struct{ family, zone, capacityType string }

// mark is a reason, and the time until which it holds.
type mark struct {
	reason string
	until  time.Time
}

// threshold marks the sizes of a group whose number of vCPUs is at least `from`.
type threshold struct {
	from int
	mark
}

// New makes Marks without any marks.
func New(clock clock.PassiveClock) *Marks {
	return &Marks{clock: clock, sizes: map[offering]mark{}, groups: map[group][]threshold{}}
}

// Reason returns the reason why an offering is marked, "" if it is not.
func (m *Marks) Reason(a Attempt) string {
	a = a.normal()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for _, zone := range []string{a.Zone, anywhere} {
		if mark, found := m.sizes[offering{a.Size.Name, zone, a.CapacityType}]; found && now.Before(mark.until) {
			return mark.reason
		}
	}
	family := familyOf(a.Size)
	for _, g := range []group{{"", anywhere, a.CapacityType}, {family, anywhere, a.CapacityType}, {family, a.Zone, a.CapacityType}} {
		for _, t := range m.groups[g] {
			if a.Size.VCPUs >= t.from && now.Before(t.until) {
				return t.reason
			}
		}
	}
	return ""
}

// Edit returns a number that increases whenever a mark is added or ends.
func (m *Marks) Edit() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.edit
}

// None reports whether there is no mark.
func (m *Marks) None() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return len(m.sizes)+len(m.groups) == 0
}

// expire drops marks that have ended. The lock is held.
func (m *Marks) expire() {
	now := m.clock.Now()
	if len(m.sizes)+len(m.groups) == 0 || now.Before(m.next) {
		return
	}
	m.next = time.Time{}
	for key, mark := range m.sizes {
		if !now.Before(mark.until) {
			delete(m.sizes, key)
			m.edit++
			continue
		}
		m.wake(mark.until)
	}
	for key, list := range m.groups {
		stay := slices.DeleteFunc(list, func(t threshold) bool { return !now.Before(t.until) })
		if len(stay) < len(list) {
			m.edit++
		}
		if m.groups[key] = stay; len(stay) == 0 {
			delete(m.groups, key)
		}
		for _, t := range stay {
			m.wake(t.until)
		}
	}
}

// wake records the time at which a mark ends. The lock is held.
func (m *Marks) wake(until time.Time) {
	if m.next.IsZero() || until.Before(m.next) {
		m.next = until
	}
}

// size marks an offering, unless an existing mark holds longer. The lock is held.
func (m *Marks) size(key offering, reason string, age time.Duration) {
	m.expire()
	fresh := mark{reason, m.clock.Now().Add(age)}
	old, marked := m.sizes[key]
	if marked && !old.until.Before(fresh.until) {
		return
	}
	m.sizes[key] = fresh
	m.wake(fresh.until)
	if !marked || old.reason != reason {
		m.edit++
	}
}

// larger marks the sizes of a group whose number of vCPUs is at least `from`, unless existing marks hold longer. The lock is held.
func (m *Marks) larger(key group, from int, reason string, age time.Duration) {
	m.expire()
	fresh := threshold{from, mark{reason, m.clock.Now().Add(age)}}
	list := m.groups[key]
	if slices.ContainsFunc(list, func(t threshold) bool { return t.from <= from && !t.until.Before(fresh.until) }) {
		return
	}
	prolonged := slices.ContainsFunc(list, func(t threshold) bool { return t.from == from && t.reason == reason })
	list = slices.DeleteFunc(list, func(t threshold) bool { return t.from >= from && !t.until.After(fresh.until) })
	m.groups[key] = append(list, fresh)
	m.wake(fresh.until)
	if !prolonged {
		m.edit++
	}
}

// familyOf returns a size's quota family. Azure varies its case.
func familyOf(f size.Figures) string { return strings.ToLower(f.QuotaFamily) }
