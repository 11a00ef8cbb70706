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

// Where everything cheap is sold out, what is left may cost a hundred times as much, and the cheap is often back within minutes. So
// pods wait before a machine of many times the usual price is started for them: the longer they have waited, the more is paid.

const (
	// priceAtOnce is how many times the usual price is paid without a wait. It doubles each usualPricePatience, or what the pool
	// says instead.
	priceAtOnce = 4

	// mostPriceRounds bounds how often a plan is made anew without machines that are too dear. Each round takes them from a pool,
	// and other pools may have dear ones as well.
	mostPriceRounds = 4
)

// tooDear finds machines of the solution that cost more than their pods pay now, and remembers up to what price the pool may start
// a machine for them. It reports whether there are any. What a machine's list offers beside its cheapest costs little more.
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

// ReplacementDear is why the machine is not started in the place of one that works: what costs about the usual price is sold out. It
// is OK for what may be started.
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

// patienceOf is in what time the price doubles that the pool pays; 0 if it makes no pod wait for usual prices, or has all that it could buy.
func patienceOf(pool *offering.Pool) time.Duration {
	patience, _ := budget.PricePatience(pool.NodePool)
	if !slices.ContainsFunc(pool.Model.Options, func(o packing.Option) bool { return !o.Listed }) {
		return 0
	}
	return max(0, patience)
}

// dear reports whether the machine costs more than is paid after so many doublings of the price, and the usual and that price.
func (p *Problem) dear(m *packing.Machine, doublings float64) (usual, most float64, dear bool) {
	if p.Pools[m.Pool].Options[m.Chosen].Commitment != "" { // whatever it costs is paid anyway
		return 0, 0, false
	}
	usual, cheapest := p.usualPrice(m)
	most = usual * priceAtOnce * math.Exp2(doublings)
	return usual, most, usual > 0 && cheapest > most // a reservation costs nothing, and says nothing about prices
}

// timesUsual names the machine and how many times the usual price it costs.
func timesUsual(p *offering.Pool, x *packing.Machine, usual float64) string {
	if p.Options[x.Chosen].Offering.PriceUnknown {
		return fmt.Sprintf("%s, whose price nobody knows", p.Options[x.Chosen].ID())
	}
	return fmt.Sprintf("%s, which costs %.3g times as much", p.Options[x.Chosen].ID(), p.Options[x.Chosen].Offering.Price/usual)
}

// waitingSince is when the first of the machine's pods was made; zero if any of them runs somewhere.
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

// usualPrice is what a machine for these pods costs in its zone, sold out or not: the cheapest of the capacity type of which the
// cheapest is dearest, because who may buy spot pays for on-demand where there is none. Cheapest is what can be bought. Both are the machines' own
// prices: what every node costs beside is as much for all.
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

// priceLimit remembers what the machine's pods pay in the pool.
func (p *Problem) priceLimit(m *packing.Machine, pool string, most float64, r engine.Reason) {
	limits := map[*constraints.ShapeBackoff]*constraints.ShapeBackoff{} // by what was known of such pods before
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
