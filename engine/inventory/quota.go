package inventory

import (
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// QuotasOf returns the rest of the clouds' quotas, by name: the amounts that the clouds report, less the units of machines that these amounts may not
// include. These are machines that are not launched yet, each with the possible offering that takes most, and machines launched since the amounts
// were read. Units that leaving machines will give back are not added. It returns nil if there are no quotas.
func (cache *Cache) QuotasOf(s *engine.Snapshot, machines []*Machine) map[string]engine.Quota {
	var out map[string]engine.Quota
	for i := range s.Classes {
		for _, q := range s.Classes[i].Quotas {
			if out == nil {
				out = map[string]engine.Quota{}
			}
			if known, there := out[q.Name]; !there || q.Left < known.Left {
				out[q.Name] = q
			}
		}
	}
	if out == nil {
		return nil
	}
	prices := cache.CatalogsOf(s).prices
	for _, machine := range machines {
		switch {
		case machine.Claim == nil:
		case machine.Open != nil:
			if !machine.Leaving || machine.Supposed {
				take(out, machine.Open.draws())
			}
		case machine.launched.Known:
			offering := prices.offering(machine.offering, machine.Labels, machine.Claim.Spec.NodeClassRef)
			if offering == nil {
				continue
			}
			for _, u := range offering.Quotas { // the times of conditions are whole seconds
				if q, known := out[u.Quota]; known && !q.Read.IsZero() && !machine.launched.At.Before(q.Read.Truncate(time.Second)) {
					q.Left -= u.Units
					out[u.Quota] = q
				}
			}
		}
	}
	return out
}

func take(from map[string]engine.Quota, uses map[string]int64) {
	for name, units := range uses {
		if q, known := from[name]; known {
			q.Left -= units
			from[name] = q
		}
	}
}

// draws returns, for each quota, the most units that the machine may take.
func (o *OpenLabels) draws() map[string]int64 {
	out := map[string]int64{}
	for _, t := range o.Types {
		for i := range t.Offerings {
			if offering := &t.Offerings[i]; len(offering.Quotas) > 0 && !offering.SoldOut && o.Allows(offering) {
				for _, u := range offering.Quotas {
					out[u.Quota] = max(out[u.Quota], u.Units)
				}
			}
		}
	}
	return out
}

// Allows reports whether the claim's requirements allow the offering.
func (o *OpenLabels) Allows(offering *engine.Offering) bool {
	labels := kube.OfferingLabels(offering)
	for _, r := range o.Claim.Spec.Requirements {
		e := kube.PoolExpression(r)
		if value, ok := labels[e.Key]; ok && !e.Admits(value, true) {
			return false
		}
	}
	return true
}
