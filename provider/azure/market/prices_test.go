package market_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/market"
	"tenon.sh/provider/azure/price"
)

func TestPricesAreBuiltInUntilAzureAnswers(t *testing.T) {
	t.Parallel()
	zones := []string{"1"}
	for name, hurt := range map[string]func(*world){
		"refused":    func(w *world) { w.Fail("RetailPrices", azuretest.Fault{Status: 404, Text: "<html>"}) },
		"in trouble": func(w *world) { w.Fail("RetailPrices", azuretest.Fault{Status: 500}) },
		"no answer":  func(w *world) { w.Fail("RetailPrices", azuretest.Fault{Status: -1}) },
		"a half of it": func(w *world) {
			w.Fail("RetailPrices", azuretest.Fault{Status: 501, After: 1}) // from the second page on
		},
		"no rows": func(w *world) { w.Fail("RetailPrices", azuretest.Fault{Status: 200, Text: `{"Items": []}`}) },
		"no JSON": func(w *world) { w.Fail("RetailPrices", azuretest.Fault{Status: 200, Text: `<html>`}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.SetSizes(
				azuretest.Size{Name: "Standard_D4ads_v5", CPUs: 4, MemoryGiB: 16, Zones: zones, Price: 0.3, Spot: 0.05, Windows: 0.4},
				azuretest.Size{Name: "Standard_D8ads_v5", CPUs: 8, MemoryGiB: 32, Zones: zones, Price: 0.6, Spot: 0.1, Windows: 0.8, NoSpot: true},
				azuretest.Size{Name: "Standard_B2ms", CPUs: 2, MemoryGiB: 8, Zones: zones, Price: 0.1, Spot: 0.01, Windows: 0.2}, // its spot price is not built in
				azuretest.Size{Name: "Standard_D999_v5", CPUs: 2, MemoryGiB: 8, Zones: zones, Price: 0.1, Spot: 0.02, Windows: 0.2},
			)
			hurt(w)
			if od, s := w.price("D4ads_v5", od), w.price("D4ads_v5", spot); od != 0.206 || s <= 0 || s > 0.1 {
				t.Errorf("built in: %v, spot %v", od, s)
			}
			if s := w.price("B2ms", spot); s != assortment.UnknownPrice {
				t.Errorf("a spot price that nobody knows is %v", s)
			}
			if od := w.price("D999_v5", od); od != assortment.UnknownPrice || w.soldOut("D999") != "" {
				t.Errorf("a price that nobody knows is %v", od)
			}
			if note := w.PricesNote(); !strings.HasPrefix(note, "prices are built in, those of eastus: ") {
				t.Errorf("note %q", note)
			}
			w.Heal()
			if w.clock.Step(5 * time.Minute); w.price("D4ads_v5", od) != 0.3 || w.price("D4ads_v5", spot) != 0.05 || w.price("D8ads_v5", spot) != 0 || w.price("D999_v5", spot) != 0.02 {
				t.Errorf("when Azure answers: %v", w.price("D4ads_v5", od))
			}
			if note := w.PricesNote(); note != "" {
				t.Errorf("note %q", note)
			}
			hurt(w)
			asked := w.clock.Now()
			if w.clock.Step(12 * time.Hour); w.price("D4ads_v5", od) != 0.3 {
				t.Errorf("what was known is lost: %v", w.price("D4ads_v5", od))
			}
			if note := w.PricesNote(); !strings.HasPrefix(note, "prices are of "+asked.Format(time.RFC3339)) {
				t.Errorf("note %q", note)
			}
		})
	}
}

func TestPricesThatHangHoldNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hung := make(chan struct{}, 100)
	w.Fail("RetailPrices", azuretest.Fault{Hang: true, Hung: func() { hung <- struct{}{}; w.clock.Step(15 * time.Second) }})
	if got := w.price("D4s_v5", od); got != 0.192 {
		t.Errorf("price %v", got)
	}
	<-hung
	for range 10 { // later callers do not wait either
		w.catalog()
	}
	if got := w.count("RetailPrices"); got != 1 {
		t.Errorf("%d calls", got)
	}
}

func TestPricesThatComeTooLateAreAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetSizes(azuretest.Size{Name: "Standard_D4s_v5", CPUs: 4, MemoryGiB: 16, Zones: []string{"1"}, Price: 0.3})
	w.Fail("RetailPrices", azuretest.Fault{Hang: true, Hung: func() {
		until(t, func() bool { _, known := w.Size("Standard_D4s_v5"); return known }) // otherwise the sizes would be late too
		w.clock.Step(cloud.Patience)
	}})
	if got := w.price("D4s_v5", od); got != 0.192 {
		t.Errorf("price %v", got)
	}
	// The catalog did not wait for all attempts.
	until(t, func() bool { return strings.Contains(w.PricesNote(), "did not answer within 1m0s") })
	w.Heal()
	if w.clock.Step(5 * time.Minute); w.price("D4s_v5", od) != 0.3 {
		t.Errorf("when Azure answers: %v", w.price("D4s_v5", od))
	}
}

func TestAPriceThatChangesShowsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(usd, spot float64) azuretest.Size {
		return azuretest.Size{Name: "Standard_D4s_v5", CPUs: 4, MemoryGiB: 16, Zones: []string{"1"}, Price: usd, Spot: spot}
	}
	w.SetSizes(list(0.2, 0.04))
	if got := w.price("D4s_v5", spot); got != 0.04 {
		t.Errorf("price %v", got)
	}
	w.SetSizes(list(0.2, 0.06))
	if w.clock.Step(12 * time.Hour); w.price("D4s_v5", spot) != 0.06 {
		t.Errorf("after twelve hours %v, want 0.06", w.price("D4s_v5", spot))
	}
	before := w.catalog()
	if w.clock.Step(12 * time.Hour); &w.catalog()[0] != &before[0] {
		t.Error("the same answer made the catalog anew")
	}
	w.SetSizes(list(0.2, 0)) // an unknown spot price is not the on-demand price
	if w.clock.Step(12 * time.Hour); w.price("D4s_v5", spot) != assortment.UnknownPrice {
		t.Errorf("without a spot price %v", w.price("D4s_v5", spot))
	}
}

func TestPricesOfWindowsAreCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var sizes []azuretest.Size
	for _, s := range []struct {
		name       string
		cores      int
		usd, cheap float64
	}{
		{"Standard_D2as_v5", 2, 0.086, 0.017}, {"Standard_D4as_v5", 4, 0.172, 0.034}, {"Standard_D8as_v5", 8, 0.344, 0.068}, {"Standard_D64as_v5", 64, 5.696, 0.544},
		{"Standard_E16-4as_v5", 16, 0.9, 0.18}, // the only ones of their series
		{"Standard_E20as_v5", 20, 2.05, 0.2},
	} {
		sizes = append(sizes, azuretest.Size{Name: s.name, CPUs: s.cores, MemoryGiB: 64, Zones: []string{"1"}, Price: s.usd, Spot: s.cheap})
	}
	w.SetSizes(sizes...)
	for name, want := range map[string]float64{"D64as_v5": 2.752, "D8as_v5": 0.344, "E20as_v5": 2.05} {
		if got := w.price(name, od); got != want {
			t.Errorf("%s costs %v, want %v", name, got, want)
		}
	}
	if got := w.price("D64as_v5", spot); got != 0.544 {
		t.Errorf("the spot price is %v", got)
	}
}

func TestOwnPricesGoBeforeAzures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *market.Config) {
		c.Own = map[string]price.Price{"Standard_D4s_v5": {OnDemand: 0.15}, "Standard_D8s_v5": {Spot: 0.01}, "Standard_None": {OnDemand: 1}}
	})
	if got := []float64{w.price("D4s_v5", od), w.price("D4s_v5", spot), w.price("D8s_v5", od), w.price("D8s_v5", spot)}; got[0] != 0.15 || got[1] != 0.040531 || got[2] != 0.384 || got[3] != 0.01 {
		t.Errorf("prices %v", got)
	}
}

func TestACloudWithoutRetailPricesIsNotAskedForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *market.Config) { c.NoRetailPrices = true })
	for range 3 {
		if got := w.price("D4s_v5", od); got != 0.192 {
			t.Errorf("price %v", got)
		}
		w.clock.Step(13 * time.Hour)
	}
	if note := w.PricesNote(); w.count("RetailPrices") != 0 || note != "prices are built in, those of eastus: this cloud has no retail prices" {
		t.Errorf("%d calls, note %q", w.count("RetailPrices"), note)
	}
}
