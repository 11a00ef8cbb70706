package simulated

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"tenon.sh/engine"
)

// Remembered is all that a cloud has to remember to go on after a restart. It can be written as JSON. What depends on the
// seed and the time only (who is sold out when, prices) is worked out again.
type Remembered struct {
	Seed       uint64
	Epoch      time.Time
	Advanced   time.Time
	Machines   []Record
	Notices    []Notice                 `json:",omitempty"`
	NodeFaults map[string]NodeFault     `json:",omitempty"`
	Taken      []TakenState             `json:",omitempty"`
	SoldOut    []SoldOutState           `json:",omitempty"`
	Buckets    map[string]bucket        `json:",omitempty"`
	Queue      map[string]queueInSecond `json:",omitempty"`
	Faults     []Fault                  `json:",omitempty"`
	Done       int                      `json:",omitempty"`
	Silent     int                      `json:",omitempty"`
	Counters   Counters
}

// TakenState says how many machines an offering gave since it became short.
type TakenState struct {
	Offering engine.OfferingID
	Since    time.Time
	Count    int
}

// SoldOutState says until when an offering is sold out after a reclaim.
type SoldOutState struct {
	Offering engine.OfferingID
	Until    time.Time
}

// State returns what the cloud has to remember.
func (c *Cloud) State() Remembered {
	c.lock()
	defer c.mu.Unlock()
	s := Remembered{Seed: c.cfg.Seed, Epoch: c.epoch, Advanced: c.advanced, Buckets: maps.Clone(c.buckets),
		Queue: maps.Clone(c.queue), Faults: slices.Clone(c.faults), Done: c.done, Silent: c.silent, Counters: c.counters,
		NodeFaults: maps.Clone(c.nodeFaults)}
	s.Counters.Throttled = maps.Clone(c.counters.Throttled)
	for _, r := range c.ordered() {
		s.Machines = append(s.Machines, *r)
	}
	for _, key := range slices.Sorted(maps.Keys(c.notices)) {
		s.Notices = append(s.Notices, c.notices[key])
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.taken), byOffering) {
		s.Taken = append(s.Taken, TakenState{id, c.taken[id].Since, c.taken[id].Count})
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.forced), byOffering) {
		s.SoldOut = append(s.SoldOut, SoldOutState{id, c.forced[id]})
	}
	return s
}

// Restore lets the cloud go on where another one stopped. It must have been made from the same seed.
func (c *Cloud) Restore(s Remembered) error {
	if s.Seed != c.cfg.Seed {
		return fmt.Errorf("restore a simulated cloud: its state was made with seed %d, the cloud has seed %d", s.Seed, c.cfg.Seed)
	}
	if s.Done < 0 || s.Done > len(s.Faults) {
		return fmt.Errorf("restore a simulated cloud: its state is damaged: %d of %d faults done", s.Done, len(s.Faults))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch = s.Epoch
	c.clear()
	c.advanced = s.Advanced
	c.faults, c.done, c.silent, c.counters = slices.Clone(s.Faults), s.Done, s.Silent, s.Counters
	c.counters.Throttled = maps.Clone(s.Counters.Throttled)
	maps.Copy(c.buckets, s.Buckets)
	maps.Copy(c.queue, s.Queue)
	maps.Copy(c.nodeFaults, s.NodeFaults)
	for _, r := range s.Machines {
		c.keep(&r)
	}
	for _, n := range s.Notices {
		c.notices[n.ID] = n
	}
	for _, t := range s.Taken {
		c.taken[t.Offering] = takenInEpisode{t.Since, t.Count}
	}
	for _, o := range s.SoldOut {
		c.forced[o.Offering] = o.Until
	}
	return nil
}

func byOffering(a, b engine.OfferingID) int { return cmp.Compare(a.String(), b.String()) }
