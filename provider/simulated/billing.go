package simulated

import (
	"cmp"
	"slices"
	"time"

	"tenon.sh/engine"
)

// Counters sum up the events of a cloud since it was made.
type Counters struct {
	Launches, Terminations int
	// SoldOut counts refusals of an offering. Throttled counts refused calls, by kind of call.
	SoldOut   int
	Throttled map[string]int
	// Reclaimed counts machines that the cloud took away. Died counts machines that ended without notice.
	Reclaimed, Died int
	// Cost is the cost of all machines so far, in USD.
	Cost float64
}

// Counters returns the sums up to now.
func (c *Cloud) Counters() Counters {
	now := c.lock()
	defer c.mu.Unlock()
	sum := c.counters
	sum.Throttled = map[string]int{}
	for call, n := range c.counters.Throttled {
		sum.Throttled[call] = n
	}
	for _, r := range c.ordered() { // in order, so that the sum is the same to the last bit
		c.bill(r, now)
		sum.Cost += r.Cost
		if r.died(now) {
			sum.Died++
		}
	}
	return sum
}

// Spent returns the cost of a machine so far, in USD, until the cloud forgets the machine. least is the part of usd for time after the
// machine's end, because every machine is billed for at least Profile.LeastBilled.
func (c *Cloud) Spent(id engine.MachineID) (usd, least float64) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil {
		return 0, 0
	}
	c.bill(r, now)
	if until := c.leastUntil(r); r.gone(now) && until.After(r.end()) {
		least = c.price(r.Offering, r.end()) * until.Sub(r.end()).Hours()
	}
	return r.Cost, least
}

// leastUntil returns the time until which the machine is billed at least.
func (c *Cloud) leastUntil(r *Record) time.Time {
	return r.Machine.Created.Add(c.cfg.Profile.LeastBilled)
}

// bill brings a machine's cost up to now. It adds the cost of one price step at a time, of one minute if there are price faults.
func (c *Cloud) bill(r *Record, now time.Time) {
	if r.gone(now) {
		now = r.end()
		if least := c.leastUntil(r); now.Before(least) {
			now = least
		}
	}
	for r.Billed.Before(now) {
		next := c.epoch.Add((r.Billed.Sub(c.epoch)/priceStep + 1) * priceStep)
		if c.hasPriceFaults() {
			next = r.Billed.Add(min(next.Sub(r.Billed), time.Minute))
		}
		if next.After(now) {
			next = now
		}
		r.Cost += c.price(r.Offering, r.Billed) * next.Sub(r.Billed).Hours()
		r.Billed = next
	}
}

func (c *Cloud) ordered() []*Record {
	list := make([]*Record, 0, len(c.machines))
	for _, r := range c.machines {
		list = append(list, r)
	}
	slices.SortFunc(list, byID)
	return list
}

func byID(a, b *Record) int { return cmp.Compare(a.Machine.ID, b.Machine.ID) }
