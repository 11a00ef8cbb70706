package market_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/market"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/soldout"
)

const od, spot = v1.CapacityTypeOnDemand, v1.CapacityTypeSpot

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// world is a subscription and its market.
type world struct {
	*azuretest.Subscription
	*market.Market
	t     testing.TB
	clock *clocktesting.FakeClock
	marks *soldout.Marks
}

func newWorld(t testing.TB, change ...func(*market.Config)) *world {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, clock)
	c, err := cloud.New(cloud.Config{Subscription: s.ID, Location: azuretest.Location, Credential: &azfake.TokenCredential{}, Options: *s.Options(), PricesURL: s.PricesURL(), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Subscription: s, t: t, clock: clock, marks: soldout.New(clock)}
	config := market.Config{Cloud: c, Clock: clock, Marks: w.marks}
	for _, f := range change {
		f(&config)
	}
	w.Market = market.New(config)
	return w
}

func (w *world) catalog(change ...func(*size.Settings)) []engine.InstanceType {
	w.t.Helper()
	s := size.Defaults(azuretest.Location)
	for _, f := range change {
		f(&s)
	}
	types, err := w.Catalog(context.Background(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return types
}

// price returns the price of a size in zone 1 or, if it is not sold there, in zone 3; 0 if it is not sold with this capacity type.
func (w *world) price(name, capacityType string) float64 {
	w.t.Helper()
	for _, it := range w.catalog() {
		for _, o := range it.Offerings {
			if it.Name == "Standard_"+name && o.CapacityType == capacityType {
				if o.PriceUnknown != (o.Price == assortment.UnknownPrice) {
					w.t.Errorf("%s costs %v, which nobody knows: %v", name, o.Price, o.PriceUnknown)
				}
				return o.Price
			}
		}
	}
	return 0
}

// soldOut lists the sold-out offerings in zone 1 of sizes with the prefix.
func (w *world) soldOut(prefix string) string {
	w.t.Helper()
	var out []string
	for _, it := range w.catalog() {
		for _, o := range it.Offerings {
			if short := strings.TrimPrefix(it.Name, "Standard_"); o.SoldOut && o.Zone == "eastus-1" && strings.HasPrefix(short, prefix) {
				out = append(out, short+"/"+o.CapacityType)
			}
		}
	}
	return strings.Join(out, " ")
}

// until waits for work in the background.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		if t.Context().Err() != nil {
			t.Fatal("it never was so")
		}
		runtime.Gosched()
	}
}

func (w *world) count(operation string) int { return len(w.Calls(operation)) }

func TestACatalogIsWhatTheSubscriptionCanBuy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Restrict("Standard_D2s_v5", "*")
	w.Restrict("Standard_D4s_v5", "1", "3")
	var got []string
	for _, it := range w.catalog() {
		var offerings []string
		for _, o := range it.Offerings {
			offerings = append(offerings, fmt.Sprintf("%s/%s/%v", strings.TrimPrefix(o.Zone, "eastus-"), o.CapacityType, o.Price))
		}
		got = append(got, strings.TrimPrefix(it.Name, "Standard_")+" "+strings.Join(offerings, " "))
	}
	for _, want := range []string{
		"B2s 1/on-demand/0.0416 2/on-demand/0.0416 3/on-demand/0.0416", // it is not sold as spot
		"D4s_v5 2/on-demand/0.192 2/spot/0.040531",
		"NC24ads_A100_v4 3/on-demand/3.673 3/spot/0.67877",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 11 || !slices.IsSorted(got) {
		t.Errorf("%d sizes: %s", len(got), strings.Join(got, "\n"))
	}
	left := w.Left(t.Context(), size.Defaults(azuretest.Location))
	if want := []assortment.Left{
		{Size: "Standard_D2s_v5", Why: "the subscription may not have it in this region"}, {Size: "Standard_DC2s_v3", Why: "it is for confidential computing"},
		{Size: "Standard_E16-4ads_v5", Why: "its number of cores is constrained"},
	}; !slices.Equal(left, want) {
		t.Errorf("left out %v, want %v", left, want)
	}
	if f, found := w.Size("Standard_E16-4ads_v5"); !found || f.QuotaFamily != "standardEADSv5Family" || f.VCPUs != 16 || f.AvailableVCPUs != 4 {
		t.Errorf("E16-4ads_v5 is %+v, %v", f, found)
	}
	if _, found := w.Size("Standard_None"); found {
		t.Error("a size is known that there is not")
	}
	if got := w.PricesNote(); got != "" {
		t.Errorf("note on prices of Azure: %s", got)
	}
}

func TestWithoutSizesThereIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hurt func(*world)
		want []string
	}{
		"none":   {func(w *world) { w.SetSizes() }, []string{"no instance types found", `"eastus"`, "Microsoft.Compute/skus/read", "LOCATION"}},
		"denied": {func(w *world) { w.Fail("ResourceSkus_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed"}) }, []string{"ResourceSkus_List", "AuthorizationFailed", "Microsoft.Compute/skus/read"}},
		"broken": {func(w *world) { w.Fail("ResourceSkus_List", azuretest.Fault{Status: 501, Code: "NotImplemented"}) }, []string{"NotImplemented"}},
	} {
		w := newWorld(t)
		if _, known := w.Size("Standard_D2s_v5"); known {
			t.Errorf("%s: a size is known before anything was asked", name)
		}
		test.hurt(w)
		types, err := w.Catalog(t.Context(), size.Defaults(azuretest.Location))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %d types, %v; want %q", name, len(types), err, want)
			}
		}
		if left := w.Left(t.Context(), size.Defaults(azuretest.Location)); len(left) > 0 {
			t.Errorf("%s: left out %v of nothing", name, left)
		}
		calls := w.count("ResourceSkus_List")
		if _, again := w.Catalog(t.Context(), size.Defaults(azuretest.Location)); again == nil || w.count("ResourceSkus_List") != calls {
			t.Errorf("%s: whoever asks at once again has Azure asked again", name)
		}
		w.Heal()
		w.SetSizes(azuretest.Size{Name: "Standard_D2s_v5", CPUs: 2, MemoryGiB: 8, Zones: []string{"1"}, Price: 0.1})
		w.clock.Step(5 * time.Second)
		if got := len(w.catalog()); got != 1 {
			t.Errorf("%s: when it is over, %d types", name, got)
		}
	}
}

func TestASizeThatCannotBeReadIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetSizes(azuretest.Size{Name: "Standard_D2s_v5", CPUs: 2, MemoryGiB: 8, Zones: []string{"1"}}, azuretest.Size{Name: "Standard_D1_v2", CPUs: 1, MemoryGiB: 3.5},
		azuretest.Size{Name: "Standard_D4s_v5", CPUs: 4, MemoryGiB: math.NaN()}, azuretest.Size{Name: "Standard_D2s_v5", CPUs: 2, MemoryGiB: 8})
	want := []assortment.Left{{Size: "Standard_D1_v2", Why: "it has too few cores"}, {Size: "Standard_D4s_v5", Why: `capability MemoryGB is "NaN": want a number`}}
	if got := w.Left(t.Context(), size.Defaults(azuretest.Location)); len(w.catalog()) != 1 || !slices.Equal(got, want) { // and none is listed twice
		t.Errorf("%d types, left out %q, want %q", len(w.catalog()), got, want)
	}
}

func TestAzureIsNotAskedBeforeItSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Fail("ResourceSkus_List", azuretest.Fault{Status: 429, Code: "TooManyRequests", RetryAfter: 2 * time.Minute})
	for _, test := range []struct {
		after time.Duration
		again bool
	}{{0, true}, {2*time.Minute - time.Second, false}, {time.Second, true}} {
		w.clock.Step(test.after)
		calls := w.count("ResourceSkus_List")
		if _, err := w.Catalog(t.Context(), size.Defaults(azuretest.Location)); err == nil || (w.count("ResourceSkus_List") > calls) != test.again {
			t.Errorf("%s later: %d calls, then %d: %v", test.after, calls, w.count("ResourceSkus_List"), err)
		}
	}
}

func TestSizesAreRenewedAndStayIfTheyCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.catalog()
	w.SetSizes(azuretest.Size{Name: "Standard_D2s_v5", Family: "standardDSv5Family", CPUs: 2, MemoryGiB: 8, Zones: []string{"1"}, Price: 0.1})
	if w.clock.Step(12*time.Hour - time.Second); len(w.catalog()) != len(before) {
		t.Error("sizes were asked for too early")
	}
	w.Fail("ResourceSkus_List", azuretest.Fault{Status: 501, Code: "NotImplemented"})
	w.clock.Step(time.Second)
	if w.catalog(); w.count("ResourceSkus_List") != 2 || len(w.catalog()) != len(before) {
		t.Error("old sizes are gone, or Azure was not asked once more")
	}
	w.Heal()
	if w.clock.Step(5*time.Minute - time.Second); len(w.catalog()) != len(before) {
		t.Error("sizes were asked for again too early")
	}
	if w.clock.Step(time.Second); len(w.catalog()) != 1 {
		t.Error("sizes were not renewed")
	}
	w.SetSizes() // an answer without any sizes is not believed
	w.clock.Step(12 * time.Hour)
	if got := w.catalog(); len(got) != 1 || w.count("ResourceSkus_List") != 4 {
		t.Errorf("%d types", len(got))
	}
}

func TestCatalogsAreSharedByThoseWhoAskForTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.catalog()
	if again := w.catalog(); &again[0] != &first[0] {
		t.Error("the same question, another list")
	}
	seen := map[*engine.InstanceType]string{&first[0]: "no change"}
	for name, change := range map[string]func(*size.Settings){
		"Region": func(s *size.Settings) { s.Region = "westus" }, "Cluster": func(s *size.Settings) { s.Cluster = "c" },
		"ImageFamily": func(s *size.Settings) { s.ImageFamily = size.AzureLinux }, "Images": func(s *size.Settings) { s.Images = []map[string][]string{{"kubernetes.io/arch": {"amd64"}}} },
		"FIPS": func(s *size.Settings) { s.FIPS = true }, "EncryptionAtHost": func(s *size.Settings) { s.EncryptionAtHost = true }, "TrustedLaunch": func(s *size.Settings) { s.TrustedLaunch = true },
		"LocalDNS": func(s *size.Settings) { s.LocalDNS = true }, "ArtifactStreaming": func(s *size.Settings) { s.ArtifactStreaming = true }, "NoGPUDriver": func(s *size.Settings) { s.NoGPUDriver = true },
		"OSDiskGB": func(s *size.Settings) { s.OSDiskGB = 64 }, "MaxPods": func(s *size.Settings) { s.MaxPods = 30 }, "Plugin": func(s *size.Settings) { s.Plugin = size.PluginNone }, "Mode": func(s *size.Settings) { s.Mode = "" },
		"MemoryOverhead": func(s *size.Settings) { s.MemoryOverhead = 0 }, "Reserves": func(s *size.Settings) { s.Kubelet.Reserves = size.ByPods }, "KubeReserved": func(s *size.Settings) { s.Kubelet.KubeReserved = map[string]string{"cpu": "1"} },
		"SystemReserved": func(s *size.Settings) { s.Kubelet.SystemReserved = map[string]string{"cpu": "1"} }, "EvictionHard": func(s *size.Settings) { s.Kubelet.EvictionHard = map[string]string{"memory.available": "1Gi"} },
		"SelfManaged": func(s *size.Settings) { s.SelfManaged = true }, "Regional": func(s *size.Settings) { s.Regional = true },
	} {
		types := w.catalog(change)
		if other, taken := seen[&types[0]]; taken {
			t.Errorf("with another %s the catalog is that of %s", name, other)
		}
		seen[&types[0]] = name
		if again := w.catalog(change); &again[0] != &types[0] {
			t.Errorf("%s: the same question, another list", name)
		}
	}
}

func TestOnlyCatalogsThatSomebodyAsksForAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := func(n int) func(*size.Settings) { return func(s *size.Settings) { s.MaxPods = n } }
	first := w.catalog(pods(1))
	w.clock.Step(14 * time.Minute)
	if again := w.catalog(pods(1)); &again[0] != &first[0] {
		t.Error("the catalog was made again within 15 minutes")
	}
	w.clock.Step(16 * time.Minute)
	w.catalog(pods(2))
	again := w.catalog(pods(1))
	if &again[0] == &first[0] {
		t.Error("a catalog was kept that nobody asked for")
	}
	for n := range 40 {
		w.clock.Step(time.Second)
		w.catalog(pods(100 + n))
	}
	if last := w.catalog(pods(1)); &last[0] == &again[0] {
		t.Error("more than 32 catalogs are kept")
	}
}

func TestManyWhoAskAreOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Azure answers when all callers wait, and the first one has given up. The others must not notice.
	arrived, gone := make(chan struct{}), make(chan struct{})
	w.Fail("ResourceSkus_List", azuretest.Fault{Hang: true, Times: 1, Hung: func() { close(arrived); <-gone; w.clock.Step(cloud.Patience) }})
	impatient, giveUp := context.WithCancel(t.Context())
	ask := func(ctx context.Context) {
		types, err := w.Catalog(ctx, size.Defaults(azuretest.Location))
		if ctx == impatient && !errors.Is(err, context.Canceled) || ctx != impatient && (err != nil || len(types) != 12) {
			t.Errorf("%d types, %v", len(types), err)
		}
	}
	var first, others sync.WaitGroup
	first.Go(func() { ask(impatient) })
	<-arrived
	for range 20 {
		others.Go(func() { ask(t.Context()) })
	}
	giveUp()
	first.Wait()
	close(gone)
	others.Wait()
	if got := w.count("ResourceSkus_List"); got != 2 { // the SDK's second attempt
		t.Errorf("%d calls for sizes", got)
	}
}

func TestMarksShowAtOnceAndTakeNoLabelAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.catalog()
	d4, _ := w.Size("Standard_D4s_v5")
	w.marks.RefusedCode("ZonalAllocationFailed", "", soldout.Attempt{Size: d4, Zone: "eastus-1", CapacityType: od})
	if got, want := w.soldOut("D"), "D16s_v5/on-demand D16s_v5/spot D4s_v5/on-demand D4s_v5/spot D8s_v5/on-demand D8s_v5/spot"; got != want {
		t.Errorf("sold out: %s, want %s", got, want)
	}
	after := w.catalog()
	shared := 0
	for i := range after {
		if len(after[i].Offerings) != len(before[i].Offerings) || fmt.Sprint(after[i].Labels) != fmt.Sprint(before[i].Labels) {
			t.Errorf("%s lost offerings or labels", after[i].Name)
		}
		if &after[i].Offerings[0] == &before[i].Offerings[0] {
			shared++
		}
	}
	if again := w.catalog(); &again[0] != &after[0] || shared != len(before)-3 {
		t.Errorf("the same question, another list; %d of %d types are shared", shared, len(before))
	}
	w.clock.Step(3 * time.Minute)
	if got := w.soldOut("D"); got != "D4s_v5/on-demand D4s_v5/spot" {
		t.Errorf("after three minutes sold out: %s", got)
	}
	w.clock.Step(time.Hour)
	if again := w.catalog(); &again[0] != &before[0] {
		t.Errorf("when the marks have ended, sold out: %s", w.soldOut(""))
	}
}

func TestMemoryThatNodesHaveIsCountedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	memory := func() string {
		types := w.catalog()
		i := slices.IndexFunc(types, func(it engine.InstanceType) bool { return it.Name == "Standard_D4s_v5" })
		q := types[i].Capacity.Memory()
		return fmt.Sprintf("%.2f", float64(q.Value())/(1<<30))
	}
	estimate := memory()
	for _, saw := range []struct {
		size, image string
		gib         float64
		want        string
	}{
		{"Standard_D4s_v5", "a", 15.75, "15.75"}, {"Standard_D4s_v5", "a", 15.9, "15.75"}, {"Standard_D4s_v5", "b", 15.5, "15.50"}, {"Standard_D4s_v5", "b", 15.25, "15.25"},
		{"Standard_D8s_v5", "a", 1, "15.25"}, {"Standard_D4s_v5", "", 1, "15.25"}, {"", "a", 1, "15.25"}, {"Standard_D4s_v5", "a", -1, "15.25"},
	} {
		w.Memory.Saw(saw.size, saw.image, int64(saw.gib*(1<<30)))
		if got := memory(); got != saw.want {
			t.Errorf("after %+v a node is expected to have %s GiB", saw, got)
		}
	}
	types := w.catalog()
	w.Memory.Saw("Standard_D4s_v5", "b", int64(15.25*(1<<30))) // the same value again
	if again := w.catalog(); &again[0] != &types[0] {
		t.Error("a node like others made the catalog anew")
	}
	w.clock.Step(60 * 24 * time.Hour)
	if got := memory(); got != estimate {
		t.Errorf("after 60 days a node is expected to have %s GiB, want %s", got, estimate)
	}
}
