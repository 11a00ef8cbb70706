package simulated

import (
	"time"

	"tenon.sh/engine"
)

// reservationsUsed counts the machines that run in each capacity reservation. A machine gives its place back when it is
// gone.
func (c *Cloud) reservationsUsed(now time.Time) map[string]int {
	used := map[string]int{}
	for _, r := range c.machines {
		if r.Offering.Reservation != "" && !r.gone(now) {
			used[r.Offering.Reservation]++
		}
	}
	return used
}

// reservationOf finds the reservation that a machine runs in: offerings that are told apart by nothing else give their
// machines labels of their own.
func (c *Cloud) reservationOf(m engine.Machine, id engine.OfferingID) string {
	t := c.types[id.InstanceType]
	if t == nil || id.Reservation != "" {
		return id.Reservation
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone == id.Zone && o.CapacityType == id.CapacityType && o.Reservation != "" && carries(m.Labels, o.Labels) {
			return o.Reservation
		}
	}
	return ""
}

func carries(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}
