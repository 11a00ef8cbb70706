package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/packing"
)

// Where everything cheap is sold out, what is left may cost a hundred times as much, and the cheap is often back within minutes. So
// pods wait before a machine of many times the usual price is started for them: the longer they have waited, the more is paid.

const (
	// priceAtOnce is how many times the usual price is paid without a wait. It doubles each usualPricePatience, or what the pool
	// says instead.
	priceAtOnce        = 4
	usualPricePatience = 5 * time.Minute
	// mostPriceRounds bounds how often a plan is made anew without machines that are too dear. Each round takes them from a pool,
	// and other pools may have dear ones as well.
	mostPriceRounds = 4
)

// tooDear finds machines of the solution that cost more than their pods pay now, and remembers up to what price the pool may start
// a machine for them. It reports whether there are any. What a machine's list offers beside its cheapest costs little more.
func (p *problem) tooDear(s *packing.Solution) bool {
	found, short := false, map[*poolModel]bool{} // whether anything that the pool could buy is sold out
	for i := range s.New {
		m := &s.New[i]
		pool := p.pools[m.Pool]
		patience, since := pool.patience, p.waitingSince(m)
		if patience == 0 || since.IsZero() {
			continue
		}
		if _, known := short[pool]; !known {
			short[pool] = slices.ContainsFunc(pool.model.Options, func(o packing.Option) bool { return !o.Listed })
		}
		if !short[pool] {
			continue
		}
		usual, cheapest := p.usualPrice(m)
		most := usual * priceAtOnce * math.Exp2(p.snapshot.Now.Sub(since).Minutes()/patience.Minutes())
		if usual > 0 && cheapest > most { // a reservation costs nothing, and says nothing about prices
			times := pool.model.Options[m.Chosen].Price / usual
			until := since.Add(time.Duration(math.Log2(times/priceAtOnce) * float64(patience)))
			p.priceLimit(m, pool.pool.Name, most, Reason{
				Code: CheaperSoldOut, Need: clockText(until.Add(time.Second)), Have: fmt.Sprintf("%s, which costs %.3g times as much", pool.options[m.Chosen].id(), times),
			})
			found = true
		}
	}
	return found
}

// waitingSince is when the first of the machine's pods was made; zero if any of them runs somewhere.
func (p *problem) waitingSince(m *packing.Machine) time.Time {
	since := p.snapshot.Now
	for _, share := range m.Pods {
		for _, n := range share.Pods {
			pod := p.classes[share.Class].pods[n]
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
// cheapest is dearest, because who may buy spot pays for on-demand where there is none. Cheapest is what can be bought.
func (p *problem) usualPrice(m *packing.Machine) (usual, cheapest float64) {
	pool := p.pools[m.Pool]
	able := bitset.Full(len(pool.options))
	for _, share := range m.Pods {
		c, one := p.classes[share.Class], bitset.New(len(pool.options))
		for _, way := range p.where(&c.demand, c.ports, nil, false).ways.Pools[m.Pool] {
			one.Or(way.Options)
		}
		able.And(one)
	}
	zones := map[string]bool{}
	for _, o := range m.Listed {
		zones[pool.options[o].offering.Zone] = true
	}
	sum, cheapest := p.sum(m), math.Inf(1)
	byCapacity := map[string]float64{}
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		option, offering := &pool.model.Options[o], pool.options[o].offering
		if !zones[offering.Zone] || !sum.Fits(option.Allocatable) || option.Large && !pool.model.Options[m.Chosen].Large {
			continue
		}
		if old, known := byCapacity[offering.CapacityType]; !known || option.Price < old {
			byCapacity[offering.CapacityType] = option.Price
		}
		if option.Listed {
			cheapest = min(cheapest, option.Price)
		}
	}
	for _, price := range byCapacity {
		usual = max(usual, price)
	}
	return usual, cheapest
}

// priceLimit remembers what the machine's pods pay in the pool.
func (p *problem) priceLimit(m *packing.Machine, pool string, most float64, r Reason) {
	limits := map[*shapeBackoff]*shapeBackoff{} // by what was known of such pods before
	for _, share := range m.Pods {
		c := p.classes[share.Class]
		limit := limits[c.backoff]
		if limit == nil {
			limit = &shapeBackoff{most: map[string]float64{}, dear: map[string]Reason{}}
			if c.backoff != nil {
				limit.shape, limit.byPool, limit.retry = c.backoff.shape, c.backoff.byPool, c.backoff.retry
				maps.Copy(limit.most, c.backoff.most)
				maps.Copy(limit.dear, c.backoff.dear)
			}
			limit.most[pool], limit.dear[pool] = most, r
			limits[c.backoff] = limit
		}
		for _, n := range share.Pods {
			p.backoffs.dear[c.pods[n]] = limit
		}
	}
}

// pricePatience is in what time the price doubles that pods pay in the pool, 0 for any price at once; ok is false if what the pool
// says of it cannot be read, and does not count.
func pricePatience(pool *v1.NodePool) (d time.Duration, ok bool) {
	text, said := pool.Annotations[v1.PricePatienceAnnotationKey]
	if !said {
		return usualPricePatience, true
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < 0 {
		return usualPricePatience, false
	}
	return d, true
}
