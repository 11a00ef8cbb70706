package market_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/market"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/soldout"
	"tenon.sh/provider/catalog"
)

// everything returns a subscription with all sizes of the built-in catalog, in three zones and without a zone.
func everything(t testing.TB) *world {
	w := newWorld(t, func(c *market.Config) { c.NoRetailPrices = true }) // the server's pages of prices are short
	var sizes []azuretest.Size
	figures, _ := catalog.BuiltInAzure()
	for _, f := range figures {
		name, _ := size.ParseName(f.Name)
		s := azuretest.Size{Name: f.Name, Family: "standard" + name.Series + "Family", CPUs: f.VCPUs, Usable: f.AvailableVCPUs, MemoryGiB: float64(f.MemoryMiB) / 1024, GPUs: f.GPUs,
			CachedDisk: f.CachedDiskBytes, TempDisk: f.ResourceDiskMiB, NVMeDisk: f.NVMeDiskMiB, Placements: "CacheDisk,ResourceDisk,NvmeDisk", Zones: []string{"1", "2", "3"}}
		if f.Architecture == "arm64" {
			s.Architecture = "Arm64"
		}
		sizes = append(sizes, s)
	}
	w.SetSizes(sizes...)
	return w
}

// want returns the settings of the n-th class, which differ from the others.
func want(n int) size.Settings {
	s := size.Defaults(azuretest.Location)
	s.Regional, s.OSDiskGB = true, int64(30+n)
	return s
}

func must(t testing.TB, w *world, s size.Settings) []engine.InstanceType {
	t.Helper()
	types, err := w.Catalog(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// BenchmarkCatalog makes a catalog from Azure's answers only.
func BenchmarkCatalog(b *testing.B) {
	w := everything(b)
	must(b, w, want(0))
	n := 0
	for b.Loop() {
		n++
		types := must(b, w, want(n))
		offerings := 0
		for i := range types {
			offerings += len(types[i].Offerings)
		}
		b.ReportMetric(float64(len(types)), "types")
		b.ReportMetric(float64(offerings), "offerings")
	}
}

// BenchmarkCatalogAgain requests a known catalog.
func BenchmarkCatalogAgain(b *testing.B) {
	w := everything(b)
	for b.Loop() {
		must(b, w, want(0))
	}
}

// BenchmarkCatalogMarked requests a known catalog after each refusal of a launch, while a quota is exhausted.
func BenchmarkCatalogMarked(b *testing.B) {
	w := everything(b)
	w.SetQuota(azuretest.RegionalQuota, 100)
	must(b, w, want(0))
	d4, _ := w.Size("Standard_D4s_v5")
	for b.Loop() {
		w.clock.Step(time.Millisecond)
		w.marks.RefusedCode("SkuNotAvailable", "", soldout.Attempt{Size: d4, Zone: w.clock.Now().String(), CapacityType: od})
		must(b, w, want(0))
	}
}

// All callers share the catalog. The test measures its memory and time, and those of fifty classes with different settings.
func TestMemoryAndTimeOfCatalogs(t *testing.T) {
	w := everything(t)
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc) / (1 << 20)
	}
	empty := heap()
	if err := w.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered, begin := heap(), time.Now()
	types := must(t, w, want(0))
	took, one := time.Since(begin), heap()
	for i := range 50 {
		must(t, w, want(i))
	}
	fifty := heap()
	t.Logf("%d types: answers %.1f MB, a catalog %.1f MB in %s, fifty %.1f MB", len(types), answered-empty, one-answered, took, fifty-answered)
	if took > time.Second || one-answered > 40 || fifty-answered > 60 {
		t.Errorf("a catalog takes %.1f MB, at most 40, and %s, at most 1s; fifty take %.1f MB, at most 60", one-answered, took, fifty-answered)
	}
	runtime.KeepAlive(types)
	runtime.KeepAlive(w)
}
