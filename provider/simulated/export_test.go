package simulated

import "tenon.sh/engine"

// Short reports whether an offering is short of machines now; it may have a few left.
func (c *Cloud) Short(id engine.OfferingID) bool {
	now := c.lock()
	defer c.mu.Unlock()
	if c.inOutage(id, now) || now.Before(c.forced[id]) {
		return true
	}
	_, short := c.short(id, now)
	return short
}
