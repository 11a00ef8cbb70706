package market

import (
	"maps"
	"time"

	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/catalog"
)

// prices holds the known prices of sizes.
type prices struct {
	region string
	own    map[string]price.Price
	none   bool // the cloud has no retail prices
	// retail are Azure's prices, nil before the first answer; asked is the time of the last answer.
	retail map[string]price.Price
	asked  time.Time
}

func newPrices(region string, own map[string]price.Price, none bool) prices {
	return prices{region: region, own: maps.Clone(own), none: none}
}

// readPrices makes a table from the rows of an answer.
func readPrices(rows []cloud.Price, now time.Time) map[string]price.Price {
	meters := make([]price.Meter, len(rows))
	for i, r := range rows {
		meters[i] = price.Meter{Size: r.ArmSkuName, Product: r.ProductName, SKU: r.SkuName, Name: r.MeterName, Type: r.Type, Unit: r.UnitOfMeasure,
			Currency: r.CurrencyCode, EffectiveFrom: r.EffectiveStartDate, Price: r.RetailPrice}
	}
	return price.Read(meters, now)
}

// of returns the prices of these sizes. It starts from Azure's prices, and corrects those that are really prices of Windows. Before Azure's first
// answer, it starts from the built-in prices. In both cases, the caller's own prices replace the others.
func (p *prices) of(sizes []size.Figures) map[string]price.Price {
	table, right := p.retail, map[string]float64(nil)
	if table == nil {
		_, table = catalog.BuiltInAzure()
	} else {
		cores := make(map[string]int, len(sizes))
		for i := range sizes {
			cores[sizes[i].Name] = sizes[i].VCPUs // the paid cores, not the usable ones of a constrained size
		}
		right = price.Corrected(table, cores, seriesOf)
	}
	out := make(map[string]price.Price, len(sizes))
	for i := range sizes {
		name := sizes[i].Name
		usd := table[name]
		if corrected, wrong := right[name]; wrong {
			usd.OnDemand = corrected
		}
		if own := p.own[name]; own.OnDemand > 0 {
			usd.OnDemand = own.OnDemand
		}
		if own := p.own[name]; own.Spot > 0 {
			usd.Spot = own.Spot
		}
		if usd != (price.Price{}) {
			out[name] = usd
		}
	}
	return out
}

func seriesOf(name string) string {
	parsed, _ := size.ParseName(name)
	return parsed.Series
}
