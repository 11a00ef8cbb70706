package provisioning

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// If all cheap offerings are sold out, the others may cost a hundred times as much, and the cheap ones are often back within minutes. Pods
// therefore wait before a machine of many times the usual price is started for them. The longer they have waited, the more is paid.

const (
	// priceAtOnce is the multiple of the usual price that a pool pays without a wait. This multiple doubles in each usualPricePatience, or in the
	// time that the pool sets.
	priceAtOnce = 4

	// mostPriceRounds bounds how often a plan is made again without machines that are too dear. Each round takes them from a pool, and other
	// pools may have dear ones as well.
	mostPriceRounds = 4
)

// tooDear reports whether machines of the solution cost more than their pools pay now, and records the highest price that each of these pools pays
// for a machine for these pods. It looks only at a machine's cheapest offering, because the others in its list cost little more.
func (p *Problem) tooDear(s *packing.Solution) bool {
	found, patiences := false, map[*offering.Pool]time.Duration{}
	for i := range s.New {
		m := &s.New[i]
		pool := p.Pools[m.Pool]
		since := p.waitingSince(m)
		if since.IsZero() {
			continue
		}
		patience, known := patiences[pool]
		if !known {
			patience = patienceOf(pool)
			patiences[pool] = patience
		}
		if patience == 0 {
			continue
		}
		doublings := p.Snapshot.Now.Sub(since).Minutes() / patience.Minutes()
		if usual, most, dear := p.dear(m, doublings); dear {
			until := since.Add(time.Duration(math.Log2(pool.Options[m.Chosen].Offering.Price/usual/priceAtOnce) * float64(patience)))
			p.priceLimit(m, pool.NodePool.Name, most, engine.Reason{
				Code: engine.CheaperSoldOut, Need: engine.ClockText(until.Add(time.Second)), Have: timesUsual(pool, m, usual),
			})
			found = true
		}
	}
	return found
}

// ReplacementDear returns why the machine does not replace one that works: the offerings of about the usual price are sold out. It returns
// the zero Reason for a machine that may be started.
func (p *Problem) ReplacementDear(m *packing.Machine) engine.Reason {
	pool := p.Pools[m.Pool]
	if patienceOf(pool) == 0 {
		return engine.Reason{}
	}
	usual, _, dear := p.dear(m, 0)
	if !dear {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.ReplacementDear, NodePool: pool.NodePool.Name, Have: timesUsual(pool, m, usual)}
}

// patienceOf returns the time in which the price that the pool pays doubles. It returns 0 if its pods do not wait for usual prices, or all its
// options are available.
func patienceOf(pool *offering.Pool) time.Duration {
	patience, _ := budget.PricePatience(pool.NodePool)
	if !slices.ContainsFunc(pool.Model.Options, func(o packing.Option) bool { return !o.Listed }) {
		return 0
	}
	return max(0, patience)
}

// dear reports whether the machine costs more than its pool pays after this number of doublings. It also returns the usual price and the most that
// the pool pays.
func (p *Problem) dear(m *packing.Machine, doublings float64) (usual, most float64, dear bool) {
	if p.Pools[m.Pool].Options[m.Chosen].Commitment != "" { // its price is paid anyway
		return 0, 0, false
	}
	usual, cheapest := p.usualPrice(m)
	most = usual * priceAtOnce * math.Exp2(doublings)
	return usual, most, usual > 0 && cheapest > most // a reservation costs nothing, so its price does not matter
}

// timesUsual returns a text that names the machine, and its price as a multiple of the usual price.
func timesUsual(p *offering.Pool, x *packing.Machine, usual float64) string {
	if p.Options[x.Chosen].Offering.PriceUnknown {
		return fmt.Sprintf("%s, whose price nobody knows", p.Options[x.Chosen].ID())
	}
	return fmt.Sprintf("%s, which costs %.3g times as much", p.Options[x.Chosen].ID(), p.Options[x.Chosen].Offering.Price/usual)
}

// waitingSince returns when the oldest of the machine's pods was created. It returns the zero value if any of its pods runs on a node.
func (p *Problem) waitingSince(m *packing.Machine) time.Time {
	since := p.Snapshot.Now
	for _, share := range m.Pods {
		for _, n := range share.Pods {
			pod := p.Classes[share.Class].Pods[n]
			if pod.Spec.NodeName != "" {
				return time.Time{}
			}
			if at := pod.CreationTimestamp.Time; at.Before(since) {
				since = at
			}
		}
	}
	return since
}

// usualPrice returns the usual price of a machine for these pods in its zones, sold out or not. It is the price of the cheapest offering of each
// capacity type, and of these the dearest, because a pool with spot pays for on-demand if there is no spot. cheapest is the least price of an
// available option. Both are prices of machines alone, because the additional cost of a node is equal for all.
func (p *Problem) usualPrice(m *packing.Machine) (usual, cheapest float64) {
	pool := p.Pools[m.Pool]
	able := bitset.Full(len(pool.Options))
	for _, share := range m.Pods {
		c, one := p.Classes[share.Class], bitset.New(len(pool.Options))
		for _, way := range p.where(&c.NodeConstraints, c.Ports, nil, false).ways.Pools[m.Pool] {
			one.Or(way.Options)
		}
		able.And(one)
	}
	zones := map[string]bool{}
	for _, o := range m.Listed {
		zones[pool.Options[o].Offering.Zone] = true
	}
	sum, cheapest := p.sum(m), math.Inf(1)
	byCapacity := map[string]float64{}
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		option, offering := &pool.Model.Options[o], pool.Options[o].Offering
		if !zones[offering.Zone] || !sum.Fits(option.Allocatable) || option.Large && !pool.Model.Options[m.Chosen].Large {
			continue
		}
		if old, known := byCapacity[offering.CapacityType]; !offering.PriceUnknown && (!known || offering.Price < old) {
			byCapacity[offering.CapacityType] = offering.Price
		}
		if option.Listed {
			cheapest = min(cheapest, offering.Price)
		}
	}
	for _, price := range byCapacity {
		usual = max(usual, price)
	}
	return usual, cheapest
}

// priceLimit records how much the pool pays for a machine for these pods.
func (p *Problem) priceLimit(m *packing.Machine, pool string, most float64, r engine.Reason) {
	limits := map[*constraints.ShapeBackoff]*constraints.ShapeBackoff{} // by the earlier backoff of the pods
	for _, share := range m.Pods {
		c := p.Classes[share.Class]
		limit := limits[c.Backoff]
		if limit == nil {
			limit = &constraints.ShapeBackoff{Most: map[string]float64{}, Dear: map[string]engine.Reason{}}
			if c.Backoff != nil {
				limit.Shape, limit.ByPool, limit.Retry = c.Backoff.Shape, c.Backoff.ByPool, c.Backoff.Retry
				maps.Copy(limit.Most, c.Backoff.Most)
				maps.Copy(limit.Dear, c.Backoff.Dear)
			}
			limit.Most[pool], limit.Dear[pool] = most, r
			limits[c.Backoff] = limit
		}
		for _, n := range share.Pods {
			p.Backoffs.Dear[c.Pods[n]] = limit
		}
	}
}
