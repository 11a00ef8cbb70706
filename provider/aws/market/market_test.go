package market_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/market"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/aws/soldout"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(awstest.Run(m))
}

// newMarket returns a market with moto's figures and known types and prices.
func newMarket(t testing.TB) (*market.Market, *soldout.Marks, *clocktesting.FakeClock) {
	t.Helper()
	account := awstest.New(t)
	c, err := cloud.New(account.Config())
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	finder := find.New(find.Config{Cloud: c, Clock: clock, Cluster: awstest.Cluster})
	marks := soldout.New(clock)
	m := market.New(market.Config{Cloud: c, Clock: clock, Marks: marks, Slots: finder.Slots})
	if err := m.Renew(context.Background()); err != nil {
		t.Fatal(err)
	}
	return m, marks, clock
}

// want returns the settings of class n. The volume and the kubelet's podsPerCore, which the sizes of its nodes depend on, differ from those of
// all other classes.
func want(n int) market.Want {
	kubelets := kubelet.Managed{PodsPerCore: n}
	class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: new("AL2023")}}
	if n > 0 {
		class.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{RootVolume: true, EBS: &awsv1.BlockDevice{VolumeSize: resource.NewQuantity(int64(20+n)<<30, resource.BinarySI)}}}
	}
	w := market.Want{Settings: size.SettingsOf(class, kubelets, 0.075, 0), Demands: size.DemandsOf(class, "")}
	for i, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
		w.Subnets = append(w.Subnets, awsv1.Subnet{ID: fmt.Sprintf("subnet-%d", i), Zone: zone, ZoneID: fmt.Sprintf("usw2-az%d", i)})
	}
	return w
}

func catalog(t testing.TB, m *market.Market, w market.Want) []engine.InstanceType {
	t.Helper()
	types, err := m.Catalog(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

func TestWhatIsSoldOutIsListedAsSuchAndEverythingElseIsShared(t *testing.T) {
	t.Parallel()
	m, marks, clock := newMarket(t)
	before := catalog(t, m, want(0))
	sold := func() (out []string) {
		for _, it := range catalog(t, m, want(0)) {
			for _, o := range it.Offerings {
				if o.SoldOut && (it.Name == "m5.large" || it.Name == "m5.xlarge") {
					out = append(out, it.Name+" "+o.Zone+" "+o.CapacityType)
				}
			}
		}
		return out
	}
	marks.Offering(engine.OfferingID{InstanceType: "m5.large", Zone: "us-west-2a", CapacityType: v1.CapacityTypeSpot}, "", "", "InsufficientInstanceCapacity")
	if got := sold(); !slices.Equal(got, []string{"m5.large us-west-2a spot"}) {
		t.Errorf("sold out: %q", got)
	}
	after := catalog(t, m, want(0))
	shared := 0
	for i := range after {
		if &after[i].Offerings[0] == &before[i].Offerings[0] {
			shared++
		}
	}
	if shared != len(before)-1 {
		t.Errorf("%d of %d types were copied, want one", len(before)-shared, len(before))
	}
	if again := catalog(t, m, want(0)); &again[0] != &after[0] {
		t.Error("the same question, another list")
	}
	marks.CapacityType(v1.CapacityTypeSpot, "MaxSpotInstanceCountExceeded")
	if got := sold(); len(got) != 6 {
		t.Errorf("without spot, sold out: %q", got)
	}
	clock.Step(4 * time.Minute)
	if again := catalog(t, m, want(0)); &again[0] != &before[0] {
		t.Errorf("when the marks have ended, sold out: %q", sold())
	}
	marks.Zones([]string{"usw2-az1"})
	if got := strings.Join(sold(), ", "); got != "m5.large us-west-2b on-demand, m5.large us-west-2b spot, m5.xlarge us-west-2b on-demand, m5.xlarge us-west-2b spot" {
		t.Errorf("with a zone that is moved out of, sold out: %s", got)
	}
}

// BenchmarkCatalog compiles a catalog from EC2's answers only.
func BenchmarkCatalog(b *testing.B) {
	m, _, _ := newMarket(b)
	n := 0
	for b.Loop() {
		n++
		types := catalog(b, m, want(n))
		offerings := 0
		for i := range types {
			offerings += len(types[i].Offerings)
		}
		b.ReportMetric(float64(len(types)), "types")
		b.ReportMetric(float64(offerings)/float64(len(types)), "offerings/type")
	}
}

// BenchmarkCatalogAgain requests a known catalog.
func BenchmarkCatalogAgain(b *testing.B) {
	m, _, _ := newMarket(b)
	for b.Loop() {
		catalog(b, m, want(0))
	}
}

// All callers share the catalog. The test measures its memory, and the additional memory for a hundred classes, of which every tenth has
// nodes with sizes of its own.
func TestMemoryOfCatalogs(t *testing.T) {
	newMarket(t) // the server's first answers are expensive
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc) / (1 << 20)
	}
	empty := heap()
	m, _, _ := newMarket(t)
	held := [][]engine.InstanceType{catalog(t, m, want(0))}
	one := heap()
	for i := range 100 {
		held = append(held, catalog(t, m, want(i%10)))
	}
	hundred := heap()
	t.Logf("%d types: %.1f MB, a hundred classes %.1f MB more", len(held[0]), one-empty, hundred-one)
	if one-empty > 60 || hundred-one > 10 {
		t.Errorf("the catalog takes %.1f MB, at most 60; a hundred classes %.1f MB more, at most 10", one-empty, hundred-one)
	}
	runtime.KeepAlive(held)
	runtime.KeepAlive(m)
}
