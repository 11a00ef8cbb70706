// Package price reads the prices of machines from Azure's retail prices. It calls no service.
package price

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Price is the price of a machine with Linux, in USD per hour; 0 means unknown.
type Price struct{ OnDemand, Spot float64 }

// Meter is one item of the answer of https://prices.azure.com/api/retail/prices.
type Meter struct {
	Size          string    `json:"armSkuName"`
	Product       string    `json:"productName"`
	SKU           string    `json:"skuName"`
	Name          string    `json:"meterName"`
	Type          string    `json:"type"`
	Unit          string    `json:"unitOfMeasure"`
	Currency      string    `json:"currencyCode"`
	EffectiveFrom time.Time `json:"effectiveStartDate"`
	Price         float64   `json:"retailPrice"`
}

// Read makes a table of the prices at a time. A size may have several similar meters, for example of Windows or of a licence. The lowest is
// that of the machine with Linux.
func Read(meters []Meter, at time.Time) map[string]Price {
	out := map[string]Price{}
	for i := range meters {
		m := &meters[i]
		if !m.counts(at) {
			continue
		}
		p := out[m.Size]
		which := &p.OnDemand
		if strings.HasSuffix(m.SKU, " Spot") {
			which = &p.Spot
		}
		if *which == 0 || m.Price < *which {
			*which = m.Price
		}
		out[m.Size] = p
	}
	return out
}

func (m *Meter) counts(at time.Time) bool {
	return m.Size != "" && m.Price > 0 && m.Type == "Consumption" && m.Unit == "1 Hour" && m.Currency == "USD" && !m.EffectiveFrom.After(at) &&
		!strings.HasSuffix(m.Product, " Windows") && !strings.HasSuffix(m.Name, " Low Priority") && !strings.HasSuffix(m.SKU, " Low Priority")
}

// Corrected returns the corrected on-demand prices, by size, of the sizes whose on-demand prices are wrong. Such an error occurs if Azure's list
// lacks the Linux meter of a size, because the meter of Windows then looks like it. Corrected finds it only in series in which most sizes have
// about the same price for a core. A size has the price of Windows if its core costs over 5 % more than the usual core of the series, although the
// spot price of its core is usual, because spot prices are right. A size without a spot price has it if its core costs over 50 % more. The
// corrected price is the usual price of a core times the size's cores. `cores` holds the paid cores of each size; `series` returns a size's series.
func Corrected(prices map[string]Price, cores map[string]int, series func(size string) string) map[string]float64 {
	type perCore struct {
		name           string
		onDemand, spot float64
	}
	bySeries := map[string][]perCore{}
	for name, p := range prices {
		if n := float64(cores[name]); p.OnDemand > 0 && n > 0 {
			bySeries[series(name)] = append(bySeries[series(name)], perCore{name, p.OnDemand / n, p.Spot / n})
		}
	}
	out := map[string]float64{}
	for _, list := range bySeries {
		usual, most := median(list, func(p perCore) float64 { return p.onDemand })
		spot, _ := median(list, func(p perCore) float64 { return p.spot })
		for _, p := range list {
			dearer := p.onDemand / usual
			if most && (p.spot == 0 && dearer > 1.5 || p.spot > 0 && dearer > 1.05 && near(p.spot, spot)) {
				out[p.name] = math.Round(usual*float64(cores[p.name])*1e5) / 1e5
			}
		}
	}
	return out
}

// median returns the middle of the known figures, and whether most of three or more are about the same.
func median[T any](list []T, figure func(T) float64) (middle float64, most bool) {
	var figures []float64
	for _, t := range list {
		if f := figure(t); f > 0 {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return 0, false
	}
	slices.Sort(figures)
	middle = figures[(len(figures)-1)/2]
	same := 0
	for _, f := range figures {
		if near(f, middle) {
			same++
		}
	}
	return middle, len(figures) >= 3 && 2*same > len(figures)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.01*b }
