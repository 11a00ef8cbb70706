package simulated

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const (
	priceStep   = 6 * time.Hour // a spot price changes at most so often
	listRefresh = 12 * time.Hour
	stepSigma   = 0.02
	// halfLife is the time in which a spot price goes half of the way back to its mean.
	halfLife = 5 * 24 * time.Hour
	// One pool in risingPools rises by riseByMonth in each month.
	risingPools = 50
	riseByMonth = 0.3
)

func idOf(t *engine.InstanceType, o *engine.Offering) engine.OfferingID {
	return engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
}

// offering returns an offering of the catalog. If several differ only in labels, it returns the first available one.
func (c *Cloud) offering(id engine.OfferingID) (engine.Offering, bool) {
	t := c.types[id.InstanceType]
	if t == nil {
		return engine.Offering{}, false
	}
	var first *engine.Offering
	for i, o := range t.Offerings {
		if idOf(t, &o) != id {
			continue
		}
		if !o.SoldOut {
			return o, true
		}
		if first == nil {
			first = &t.Offerings[i]
		}
	}
	if first == nil {
		return engine.Offering{}, false
	}
	return *first, true
}

// Price returns the price at which a machine of an offering is billed now, in USD per hour.
func (c *Cloud) Price(id engine.OfferingID) float64 {
	now := c.lock()
	defer c.mu.Unlock()
	return c.price(id, now)
}

func (c *Cloud) price(id engine.OfferingID, at time.Time) float64 {
	o, found := c.offering(id)
	if !found {
		return 0
	}
	return c.priceOf(id, o.Price, at)
}

// priceOf returns the price of an offering whose catalog price is base.
func (c *Cloud) priceOf(id engine.OfferingID, base float64, at time.Time) float64 {
	price := base * c.priceFault(id, at)
	if id.CapacityType != v1.CapacityTypeSpot || !c.cfg.Profile.Spot.PricesMove {
		return price
	}
	price *= c.drift(id, int(at.Sub(c.epoch)/priceStep))
	if onDemand, found := c.offering(engine.OfferingID{InstanceType: id.InstanceType, Zone: id.Zone, CapacityType: v1.CapacityTypeOnDemand}); found {
		price = min(price, onDemand.Price)
	}
	return math.Round(price*1e6) / 1e6
}

// drift returns the ratio of a spot price to its catalog price in one step. The ratio's logarithm tends back to 0 after random shocks.
func (c *Cloud) drift(id engine.OfferingID, step int) float64 {
	logs := c.prices[id]
	if len(logs) == 0 {
		logs = []float64{0}
	}
	keep := math.Pow(0.5, float64(priceStep)/float64(halfLife))
	for n := len(logs); n <= step; n++ {
		logs = append(logs, keep*logs[n-1]+stepSigma*c.draws("price", id.String(), strconv.Itoa(n)).normal())
	}
	c.prices[id] = logs
	log := logs[max(0, step)]
	if c.draws("rising", id.String()).below(risingPools) == 0 {
		months := float64(step) * priceStep.Hours() / 720
		log += months * math.Log(1+riseByMonth)
	}
	return math.Exp(log)
}

// listing is the last published list of prices.
type listing struct {
	types  []engine.InstanceType
	number int64          // of the publication
	used   map[string]int // machines in each reservation at that time
}

// Catalog returns the instance types that the cloud sells, at the prices of its latest price list, and the number of machines that its
// reservations have left. It does not show temporary shortages: only a launch does. It returns the same slice until the list changes.
func (c *Cloud) Catalog() []engine.InstanceType {
	now := c.lock()
	defer c.mu.Unlock()
	return c.catalog(now)
}

func (c *Cloud) catalog(now time.Time) []engine.InstanceType {
	number := int64(now.Sub(c.epoch) / listRefresh)
	pricesMove, used := c.cfg.Profile.Spot.PricesMove || c.hasPriceFaults(), c.reservationsUsed(now)
	if !pricesMove && len(used) == 0 {
		return c.cfg.Catalog
	}
	if c.listed.types != nil && c.listed.number == number && maps.Equal(c.listed.used, used) {
		return c.listed.types
	}
	at := c.epoch.Add(time.Duration(number) * listRefresh)
	types := slices.Clone(c.cfg.Catalog)
	for i, t := range types {
		types[i].Offerings = slices.Clone(t.Offerings)
		for j, o := range types[i].Offerings {
			if pricesMove {
				types[i].Offerings[j].Price = c.priceOf(idOf(&t, &o), o.Price, at)
			}
			types[i].Offerings[j].Slots = max(0, o.Slots-used[o.Reservation])
		}
	}
	c.listed = listing{types, number, used}
	return types
}
