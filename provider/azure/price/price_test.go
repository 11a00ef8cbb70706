package price_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"tenon.sh/provider/azure/price"
)

var now = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

func meter(size string, usd float64, change ...func(*price.Meter)) price.Meter {
	m := price.Meter{Size: size, Product: "Virtual Machines Series", SKU: size, Name: size, Type: "Consumption", Unit: "1 Hour", Currency: "USD",
		EffectiveFrom: now.AddDate(-1, 0, 0), Price: usd}
	for _, c := range change {
		c(&m)
	}
	return m
}

func spot(m *price.Meter) { m.SKU += " Spot" }

// In each of these the retail prices list Windows too, once in a form that looks like Linux.
func TestTheLowestOfSeveralMetersIsThatOfLinux(t *testing.T) {
	var meters []price.Meter
	want := map[string]price.Price{}
	for name, usd := range map[string][2]float64{
		"Standard_D48ads_v5": {4.68, 2.472}, "Standard_D64as_v5": {5.696, 2.752}, "Standard_E48ads_v5": {5.352, 3.144},
		"Standard_E20as_v5": {2.05, 1.13}, "Standard_B16als_v2": {0.606, 0.533},
	} {
		meters = append(meters, meter(name, usd[0]), meter(name, usd[1]), meter(name, usd[0]))
		want[name] = price.Price{OnDemand: usd[1]}
	}
	if got := price.Read(meters, now); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMetersOfOtherThingsDoNotCount(t *testing.T) {
	cheaper := func(change func(*price.Meter)) price.Meter { return meter("Standard_D2s_v5", 0.01, change) }
	got := price.Read([]price.Meter{
		meter("Standard_D2s_v5", 0.096), meter("Standard_D2s_v5", 0.02, spot), meter("Standard_D2s_v5", 0.03, spot),
		cheaper(func(m *price.Meter) { m.Product += " Windows" }),
		cheaper(func(m *price.Meter) { m.Name += " Low Priority" }),
		cheaper(func(m *price.Meter) { m.Type = "Reservation" }),
		cheaper(func(m *price.Meter) { m.Type = "DevTestConsumption" }),
		cheaper(func(m *price.Meter) { m.Unit = "1 GiB/Month" }),
		cheaper(func(m *price.Meter) { m.Currency = "EUR" }),
		cheaper(func(m *price.Meter) { m.EffectiveFrom = now.Add(time.Second) }),
		cheaper(func(m *price.Meter) { m.Price = 0 }),
		cheaper(func(m *price.Meter) { m.Size = "" }),
	}, now)
	if want := map[string]price.Price{"Standard_D2s_v5": {OnDemand: 0.096, Spot: 0.02}}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMetersAreReadAsAzureWritesThem(t *testing.T) {
	const item = `{"currencyCode": "USD", "retailPrice": 0.096, "unitPrice": 0.096, "armRegionName": "eastus", "effectiveStartDate": "2020-11-01T00:00:00Z",
		"meterName": "D2s v5", "productName": "Virtual Machines Dsv5 Series", "skuName": "Standard_D2s_v5", "serviceName": "Virtual Machines",
		"unitOfMeasure": "1 Hour", "type": "Consumption", "isPrimaryMeterRegion": true, "armSkuName": "Standard_D2s_v5"}`
	var m price.Meter
	if err := json.Unmarshal([]byte(item), &m); err != nil {
		t.Fatal(err)
	}
	if got := price.Read([]price.Meter{m}, now)["Standard_D2s_v5"]; got.OnDemand != 0.096 {
		t.Errorf("%+v", got)
	}
}

func TestPricesOfWindowsAreCorrectedByTheSeries(t *testing.T) {
	cores := map[string]int{"a2": 2, "a4": 4, "a8": 8, "a16": 16, "a32": 32, "b2": 2, "b4": 4, "b8": 8, "c1": 1, "c2": 2, "c4": 4, "c8": 8, "d2": 2, "d4": 4}
	for _, c := range []struct {
		name   string
		prices map[string]price.Price
		want   map[string]float64
	}{
		{"all the same", map[string]price.Price{"a2": {0.1, 0.02}, "a4": {0.2, 0.04}, "a8": {0.4, 0.08}}, nil},
		{"one is dearer, but not as spot", map[string]price.Price{"a2": {0.1, 0.02}, "a4": {0.4, 0.04}, "a8": {0.4, 0.08}, "a16": {0.88, 0.16}, "a32": {1.6, 0.32}}, map[string]float64{"a4": 0.2, "a16": 0.8}},
		{"one is dearer, as spot too", map[string]price.Price{"a2": {0.1, 0.02}, "a4": {0.4, 0.08}, "a8": {0.4, 0.08}}, nil},
		{"one is cheaper", map[string]price.Price{"a2": {0.05, 0.01}, "a4": {0.2, 0.04}, "a8": {0.4, 0.08}}, nil},
		{"without spot prices", map[string]price.Price{"b2": {0.1, 0}, "b4": {0.4, 0}, "b8": {0.4, 0}}, map[string]float64{"b4": 0.2}},
		{"a little dearer, without a spot price", map[string]price.Price{"b2": {0.1, 0}, "b4": {0.25, 0}, "b8": {0.4, 0}}, nil},
		{"a series whose cores have no usual price", map[string]price.Price{"c1": {0.1, 0.02}, "c2": {0.3, 0.04}, "c4": {0.8, 0.08}, "c8": {2.4, 0.16}}, nil},
		{"too few to tell", map[string]price.Price{"d2": {0.1, 0.02}, "d4": {0.4, 0.04}}, nil},
		{"without a price", map[string]price.Price{"a2": {}, "a4": {}, "a8": {}}, nil},
	} {
		if got := price.Corrected(c.prices, cores, func(size string) string { return size[:1] }); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
