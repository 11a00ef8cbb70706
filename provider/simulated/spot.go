package simulated

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const (
	// A reclaim takes this share of a pool's machines on average: the square root of a uniform draw, Beta(2,1).
	meanReclaimed = 2. / 3
	// reclaimSpread is the time within which the machines of one reclaim get their notices.
	reclaimSpread = 3 * time.Minute
)

// Notice announces that the cloud will take a machine away.
type Notice struct {
	ID      string
	Machine engine.MachineID
	Kind    string
	// At is the time of the notice.
	At time.Time
}

// reclaimWalk is the state of the reclaims of one spot pool (a type in a zone).
type reclaimWalk struct {
	number int
	next   time.Time
}

// watchForReclaims starts the reclaims of a new machine's pool.
func (c *Cloud) watchForReclaims(r *Record) {
	id := r.Offering
	if id.CapacityType != v1.CapacityTypeSpot || c.cfg.Profile.Spot.Hazard <= 0 || c.reclaims[id] != nil {
		return
	}
	w := &reclaimWalk{next: c.epoch}
	c.reclaims[id] = w
	for !w.next.After(c.advanced) {
		c.stepReclaim(id, w)
	}
}

// stepReclaim draws the time of the next reclaim of a pool. Reclaims do not depend on the number of machines in the pool: the rate of events
// is the hazard of one machine divided by the share that an event takes.
func (c *Cloud) stepReclaim(id engine.OfferingID, w *reclaimWalk) {
	w.number++
	mean := clamp(float64(time.Hour) * meanReclaimed / c.cfg.Profile.Spot.Hazard)
	d := c.draws("reclaim", id.String(), strconv.Itoa(w.number))
	w.next = w.next.Add(max(time.Second, d.exponential(mean)))
}

// advance carries out all events that are due between the last call and now.
func (c *Cloud) advance(now time.Time) {
	c.runFaults(now)
	if !now.After(c.advanced) {
		return
	}
	pools := []engine.OfferingID{}
	for id, w := range c.reclaims {
		if !w.next.After(now) {
			pools = append(pools, id)
		}
	}
	slices.SortFunc(pools, func(a, b engine.OfferingID) int { return cmp.Compare(a.String(), b.String()) })
	for _, id := range pools {
		for w := c.reclaims[id]; !w.next.After(now); {
			c.reclaimPool(id, w)
			c.stepReclaim(id, w)
		}
	}
	c.advanced = now
}

func (c *Cloud) reclaimPool(id engine.OfferingID, w *reclaimWalk) {
	d := c.draws("reclaimed", id.String(), strconv.Itoa(w.number))
	share := math.Sqrt(d.uniform())
	for _, r := range c.ordered() {
		if r.Offering == id {
			c.reclaim(r, w.next, reclaimSpread, share, "event/"+strconv.Itoa(w.number))
		}
	}
	c.sellOut(id, w.next, d.exponential(c.cfg.Profile.Spot.SoldOutFor))
}

// reclaim takes a machine away with the probability `share`. The notice comes at a random time in the period `within` after `at`. The machine ends
// after the notice time of the profile.
func (c *Cloud) reclaim(r *Record, at time.Time, within time.Duration, share float64, event string) {
	id := r.Machine.ID
	d := c.draws("victim", string(id), event)
	chosen, spread := d.uniform() < share, time.Duration(d.uniform()*float64(within))
	if !chosen || r.Machine.Created.After(at) || r.gone(at) {
		return
	}
	notice := at.Add(spread)
	end := notice.Add(c.cfg.Profile.Spot.Notice)
	if !r.Dies.IsZero() && r.Dies.Before(end) {
		return
	}
	r.Dies, r.Reclaimed = end, true
	c.expect(r, end)
	c.counters.Reclaimed++
	n := Notice{ID: string(id) + "/" + event, Machine: id, Kind: "SpotInterruption", At: notice}
	c.notices[n.ID] = n
}

// sellOut marks an offering as sold out for a time.
func (c *Cloud) sellOut(id engine.OfferingID, from time.Time, length time.Duration) {
	if until := from.Add(length); until.After(c.forced[id]) {
		c.forced[id] = until
	}
}

// Notices lists the notices that have come and are not acknowledged, for machines that still exist, ordered by ID.
func (c *Cloud) Notices() []Notice {
	now := c.lock()
	defer c.mu.Unlock()
	list := []Notice{}
	for key, n := range c.notices {
		r := c.machines[n.Machine]
		if r == nil || r.gone(now) {
			delete(c.notices, key)
			continue
		}
		if !n.At.After(now) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b Notice) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Acknowledge ends a notice: later calls of Notices do not return it.
func (c *Cloud) Acknowledge(id string) {
	c.lock()
	defer c.mu.Unlock()
	delete(c.notices, id)
}
