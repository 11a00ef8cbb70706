package simulated

import (
	"time"

	"tenon.sh/engine"
)

// reservationsUsed counts the machines that run in each capacity reservation. A machine frees its place once it is gone.
func (c *Cloud) reservationsUsed(now time.Time) map[string]int {
	used := map[string]int{}
	for _, r := range c.machines {
		if r.Offering.Reservation != "" && !r.gone(now) {
			used[r.Offering.Reservation]++
		}
	}
	return used
}

// reservationOf finds the reservation in which a machine runs, by the labels that the reservation's offering gives its machines.
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
