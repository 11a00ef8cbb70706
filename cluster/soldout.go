package cluster

import (
	"maps"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// MarkSoldOut keeps offerings of a node class out of plans for a while.
func (c *Cluster) MarkSoldOut(class v1.NodeClassReference, ids []engine.OfferingID) {
	for _, f := range c.catalogs.markSoldOut(class, ids, c.Clock.Now()) {
		f()
	}
}

func (c *catalogs) markSoldOut(class v1.NodeClassReference, ids []engine.OfferingID, now time.Time) []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[class]
	if k == nil {
		return nil
	}
	for _, id := range ids {
		k.mark(id, now)
	}
	k.marked = nil
	return slices.Clone(c.changed)
}

func (k *catalog) mark(id engine.OfferingID, now time.Time) { k.soldOut[id] = k.soldOut[id].Again(now) }

// show returns the catalog with the sold-out offerings marked. It copies only the types with such offerings, and only after a change.
func (k *catalog) show(now time.Time) []engine.InstanceType {
	if k.marked != nil && (k.markedUntil.IsZero() || now.Before(k.markedUntil)) {
		return k.marked
	}
	k.markedUntil = time.Time{}
	out := map[string]bool{}
	maps.DeleteFunc(k.soldOut, func(_ engine.OfferingID, s inventory.SoldOut) bool { return s.IsOver(now) })
	for id, s := range k.soldOut {
		if !s.Holds(now) {
			continue
		}
		out[id.InstanceType] = true
		if k.markedUntil.IsZero() || s.Until().Before(k.markedUntil) {
			k.markedUntil = s.Until()
		}
	}
	k.marked = k.types
	if len(out) > 0 {
		k.marked = slices.Clone(k.types)
	}
	for i := range k.marked {
		if out[k.marked[i].Name] {
			k.marked[i].Offerings = k.markOfferings(k.marked[i], now)
		}
	}
	return k.marked
}

func (k *catalog) markOfferings(t engine.InstanceType, now time.Time) []engine.Offering {
	offerings := slices.Clone(t.Offerings)
	for i, o := range offerings {
		id := engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
		whole := id
		whole.Reservation = "" // a cloud that names no reservation means all reservations
		for _, id := range []engine.OfferingID{id, whole} {
			if k.soldOut[id].Holds(now) {
				offerings[i].SoldOut, offerings[i].Unpriced = true, false
			}
		}
	}
	return offerings
}
