package azuretest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm/runtime"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"k8s.io/utils/clock"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
)

func TestFaults(t *testing.T) {
	w := newWorld(t)
	const list = "VirtualMachines_List"
	ask := func() error {
		_, err := w.cloud.VMs(t.Context(), azuretest.Group)
		return err
	}
	for _, test := range []struct {
		fault    azuretest.Fault
		attempts int
		passing  bool
		code     string
	}{
		{azuretest.Fault{Status: 500, Code: "InternalServerError"}, 4, true, "InternalServerError"},
		{azuretest.Fault{Status: 500, Code: "InternalServerError", Times: 2}, 3, false, ""},
		{azuretest.Fault{Status: 500, Code: "InternalServerError", After: 1}, 1, false, ""},
		{azuretest.Fault{Status: -1}, 0, true, ""}, // HTTP itself may try again
		{azuretest.Fault{Status: 502, Text: "<html>Bad Gateway</html>"}, 4, true, "502"},
		{azuretest.Fault{Status: 200, Text: "<html>Welcome to the hotel</html>"}, 1, true, ""},
		{azuretest.Fault{Status: 403, Code: "AuthorizationFailed", Message: "does not have authorization to perform action"}, 1, false, "AuthorizationFailed"},
		{azuretest.Fault{Status: 409, Code: "DeploymentFailed", Details: []azuretest.Detail{{Code: "SkuNotAvailable", Message: "inner"}}}, 1, false, "DeploymentFailed"},
		{azuretest.Fault{Status: 429, Code: "TooManyRequests", RetryAfter: 17 * time.Second}, 1, true, "TooManyRequests"},
	} {
		before := len(w.Calls(list))
		w.Fail(list, test.fault)
		err := ask()
		w.Heal()
		if attempts := len(w.Calls(list)) - before; attempts != test.attempts && test.attempts > 0 || cloud.Passing(err) != test.passing || cloud.Code(err) != test.code {
			t.Errorf("%+v: %d attempts, passing %v, code %q: %v", test.fault, attempts, cloud.Passing(err), cloud.Code(err), err)
		}
		if want := test.fault.RetryAfter; cloud.RetryAfter(err) != want {
			t.Errorf("%+v: come again after %s", test.fault, cloud.RetryAfter(err))
		}
		if test.fault.Details != nil {
			w.fails(err, "SkuNotAvailable", "inner")
		}
	}
}

func TestAnAnswerMayBeLostThoughTheCallWasCarriedOut(t *testing.T) {
	w := newWorld(t)
	w.Fail("NetworkInterfaces_CreateOrUpdate", azuretest.Fault{Status: -1, Done: true, Times: 1})
	w.must(w.launch("a", nil))
	if got := len(w.Calls("NetworkInterfaces_CreateOrUpdate")); got != 2 || w.left() != 3 {
		t.Errorf("%d calls, %d resources", got, w.left())
	}
}

func TestACallThatIsNeverAnsweredIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.Fail("VirtualMachines_List", azuretest.Fault{Hang: true, Hung: func() { w.clock.Step(cloud.Patience) }})
	_, err := w.cloud.VMs(t.Context(), azuretest.Group)
	if !cloud.Passing(err) || !strings.Contains(fmt.Sprint(err), "did not answer within 1m0s") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.Heal()
	w.Fail("VirtualMachines_List", azuretest.Fault{Hang: true, Hung: cancel})
	if _, err = w.cloud.VMs(ctx, azuretest.Group); !cloud.Canceled(err) || cloud.Passing(err) {
		t.Errorf("got %v", err)
	}
}

func TestWaitingOutlivesTroubleAndEndsWithTheContext(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Create: time.Minute})
	w.Fail("Operations_Get", azuretest.Fault{Status: 503, Code: "ServiceUnavailable", Times: 9})
	w.must(w.launch("a", nil))
	w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, "b", w.nic()))
	o, err := w.cloud.BeginVM(t.Context(), azuretest.Group, "b", w.vm("b"))
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Wait(ctx); !cloud.Canceled(err) || cloud.Accepted(err) {
		t.Errorf("got %v", err)
	}
}

func TestLimitsOfCalls(t *testing.T) {
	w := newWorld(t)
	w.Enforce()
	ask := func() error {
		_, err := w.cloud.VMs(t.Context(), azuretest.Group)
		return err
	}
	another, err := cloud.New(w.config()) // each keeps to the limits on its own
	w.must(err)
	for range 125 {
		w.must(ask())
		_, err := another.VMs(t.Context(), azuretest.Group)
		w.must(err)
	}
	err = ask()
	if !cloud.Throttled(err) || cloud.RetryAfter(err) != time.Second || w.Refused() == 0 {
		t.Errorf("got %v, come again after %s", err, cloud.RetryAfter(err))
	}
	w.must(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "none")) // another bucket
	w.clock.Step(time.Second)
	w.must(ask())
}

func TestListsAndTheGraphLagBehind(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Lists: 10 * time.Second, Graph: time.Minute})
	seen := func() (out [2]int) {
		list, err := w.cloud.VMs(t.Context(), azuretest.Group)
		w.must(err)
		rows, err := w.cloud.Query(t.Context(), "Resources | where type == 'microsoft.compute/virtualmachines'")
		w.must(err)
		return [2]int{len(list), len(rows)}
	}
	expect := func(want [2]int) {
		t.Helper()
		if got := seen(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	w.must(w.launch("a", nil))
	expect([2]int{0, 0})
	if provisioning, _ := w.state("a"); provisioning != "Succeeded" {
		t.Errorf("a GET lags as well: %s", provisioning)
	}
	w.clock.Step(10 * time.Second)
	expect([2]int{1, 0})
	w.clock.Step(50 * time.Second)
	expect([2]int{1, 1})
	w.delete("a")
	expect([2]int{1, 1})
	w.clock.Step(10 * time.Second)
	expect([2]int{0, 1})
	w.clock.Step(50 * time.Second)
	expect([2]int{0, 0})
}

func TestTheGraphFindsByTagAndRefusesWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	w.must(w.launch("a", nil))
	w.must(w.launch("b", nil))
	w.must(w.cloud.TagNIC(t.Context(), azuretest.Group, "b", tags("cluster", "other")))
	find := func(where string) (names []string) {
		rows, err := w.cloud.Query(t.Context(), "Resources | where type =~ 'Microsoft.Network/networkInterfaces' | where "+where+" | order by id asc")
		w.must(err)
		for _, row := range rows {
			names = append(names, row["name"].(string))
		}
		return names
	}
	for where, want := range map[string][]string{
		"tags['cluster'] == 'demo'":                                         {"a"},
		"tags['cluster'] != 'demo' and resourceGroup == 'nodes'":            {"b"},
		"tags has_cs 'cluster' | where not(tags has_cs 'other')":            {"a"},
		"resourceGroup == 'elsewhere'":                                      nil,
		"resourceGroup == 'nodes' | where subscriptionId == '" + w.ID + "'": {"a", "b"},
	} {
		if got := find(where); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
	_, err := w.cloud.Query(t.Context(), "Resources | summarize count()")
	w.fails(err, "BadRequest", "summarize")
}

func TestListsComeInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, fmt.Sprint("nic-", i), w.nic()))
	}
	list, err := w.cloud.NICs(t.Context(), azuretest.Group)
	w.must(err)
	if len(list) != 60 || len(w.Calls("NetworkInterfaces_List")) != 2 {
		t.Errorf("%d of 60 with %d calls", len(list), len(w.Calls("NetworkInterfaces_List")))
	}
}

func TestSizesQuotasAndPrices(t *testing.T) {
	w := newWorld(t)
	w.Restrict("Standard_D4s_v5", "2")
	list, err := w.cloud.Sizes(t.Context())
	w.must(err)
	found := 0
	for _, sku := range list {
		capabilities := map[string]string{}
		for _, c := range sku.Capabilities {
			capabilities[*c.Name] = *c.Value
		}
		switch *sku.Name {
		case "Standard_D4s_v5":
			found++
			if *sku.Family != "standardDSv5Family" || len(sku.LocationInfo[0].Zones) != 3 || *sku.Restrictions[0].RestrictionInfo.Zones[0] != "2" || capabilities["MemoryGB"] != "16" {
				t.Errorf("got %+v, %v", sku, capabilities)
			}
		case "Standard_E16-4ads_v5":
			found++
			if capabilities["vCPUs"] != "16" || capabilities["vCPUsAvailable"] != "4" {
				t.Errorf("got %v", capabilities)
			}
		}
	}
	if found != 2 || len(list) < 10 {
		t.Errorf("%d sizes, %d of 2", len(list), found)
	}

	w.SetQuota("standardDSv5Family", 10)
	w.must(w.launch("a", nil))
	usages, err := w.cloud.Usages(t.Context())
	w.must(err)
	got := map[string]string{}
	for _, u := range usages {
		got[*u.Name.Value] = fmt.Sprintf("%d of %d", *u.CurrentValue, *u.Limit)
	}
	if got["standardDSv5Family"] != "2 of 10" || got[azuretest.RegionalQuota] != "2 of 1000000" || got[azuretest.SpotQuota] != "0 of 1000000" {
		t.Errorf("usages %v", got)
	}

	prices, err := w.cloud.Prices(t.Context())
	w.must(err)
	kinds := map[string]float64{}
	for _, p := range prices {
		if p.ArmSkuName == "Standard_D2s_v5" {
			kinds[strings.TrimPrefix(p.ProductName, "Virtual Machines standardDSv5Family")+strings.TrimPrefix(p.SkuName, "D2s v5")+fmt.Sprint(p.EffectiveStartDate.After(w.clock.Now()))] = p.RetailPrice
		}
	}
	linux := 0.096
	want := map[string]float64{"false": linux, "true": linux / 2, " Windowsfalse": 0.188, " Spotfalse": 0.020266, " Windows Spotfalse": 0.040532, " Low Priorityfalse": linux / 5}
	if fmt.Sprint(kinds) != fmt.Sprint(want) || len(w.Calls("RetailPrices")) < 2 {
		t.Errorf("prices %v\nwant   %v, in %d pages", kinds, want, len(w.Calls("RetailPrices")))
	}
	w.Fail("RetailPrices", azuretest.Fault{Status: 429, Code: "TooManyRequests", RetryAfter: time.Minute})
	if _, err := w.cloud.Prices(t.Context()); !cloud.Throttled(err) || cloud.RetryAfter(err) != time.Minute {
		t.Errorf("got %v", err)
	}
}

func TestImages(t *testing.T) {
	w := newWorld(t)
	published := w.clock.Now()
	image, err := w.cloud.GalleryImage(t.Context(), w.image)
	w.must(err)
	if *image.Properties.Architecture != "x64" || *image.Properties.HyperVGeneration != "V2" {
		t.Errorf("got %+v", image.Properties)
	}
	versions, err := w.cloud.GalleryVersions(t.Context(), w.image)
	w.must(err)
	if len(versions) != 1 || *versions[0].Name != "1.0.0" || !versions[0].Properties.PublishingProfile.PublishedDate.Equal(published) {
		t.Errorf("got %+v", versions)
	}
	w.AddImage(azuretest.Image{ID: "/CommunityGalleries/public/images/arm", Architecture: "Arm64", Versions: []azuretest.Version{{Name: "2.0.0", Published: published, Excluded: true}}})
	community, err := w.cloud.CommunityImage(t.Context(), "public", "arm")
	w.must(err)
	communityVersions, err := w.cloud.CommunityVersions(t.Context(), "public", "arm")
	w.must(err)
	if *community.Properties.Architecture != "Arm64" || len(communityVersions) != 1 || !*communityVersions[0].Properties.ExcludeFromLatest {
		t.Errorf("got %+v, %+v", community.Properties, communityVersions)
	}
	w.AddImage(azuretest.Image{ID: "canonical:ubuntu:24_04", Generation: "V1", Versions: []azuretest.Version{{Name: "24.4.1"}, {Name: "24.4.2"}}})
	names, err := w.cloud.MarketplaceVersions(t.Context(), "canonical", "ubuntu", "24_04")
	w.must(err)
	market, err := w.cloud.MarketplaceImage(t.Context(), "canonical", "ubuntu", "24_04", names[1])
	w.must(err)
	if !slices.Equal(names, []string{"24.4.1", "24.4.2"}) || *market.Properties.HyperVGeneration != "V1" {
		t.Errorf("got %v, %+v", names, market.Properties)
	}
	id := strings.Replace(w.image, "galleries/own/images", "images", 1)
	w.AddImage(azuretest.Image{ID: id})
	managed, err := w.cloud.ManagedImage(t.Context(), id)
	w.must(err)
	if *managed.Properties.HyperVGeneration != "V2" {
		t.Errorf("got %+v", managed.Properties)
	}
	if _, err := w.cloud.CommunityImage(t.Context(), "public", "none"); !cloud.NotFound(err) {
		t.Errorf("got %v", err)
	}
}

// call makes a call for which this test has no SDK client.
func (w *world) call(method, path string) error {
	w.t.Helper()
	pipeline, err := runtime.NewPipeline("test", "", w.Credential(), azruntime.PipelineOptions{}, w.Options())
	w.must(err)
	request, err := azruntime.NewRequest(w.t.Context(), method, w.URL+path)
	w.must(err)
	answer, err := pipeline.Do(request)
	w.must(err)
	return azruntime.NewResponseError(answer)
}

// recorder records the failures of another test.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func TestCallsThatAreNotKnownAreRefusedByName(t *testing.T) {
	w := newWorld(t)
	told := &recorder{TB: t}
	w.Subscription = azuretest.New(told, w.clock)
	pool := "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.ContainerService/managedClusters/c/agentPools/p"
	if err := w.call(http.MethodGet, pool+"?api-version=2024-01-01"); !strings.Contains(err.Error(), "501") || !strings.Contains(err.Error(), "azuretest does not know GET "+pool) {
		t.Errorf("got %v", err)
	}
	if told.failed != nil {
		t.Errorf("the test failed: %v", told.failed)
	}
	w.ForbidAKS()
	_ = w.call(http.MethodGet, pool+"?api-version=2024-01-01")
	if len(told.failed) != 1 || !strings.Contains(told.failed[0], pool) {
		t.Errorf("the test failed: %v", told.failed)
	}
	machine := "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/a"
	if err := w.call(http.MethodGet, machine); !strings.Contains(err.Error(), "MissingApiVersionParameter") {
		t.Errorf("got %v", err)
	}
	if err := w.call(http.MethodGet, strings.Replace(machine, "nodes", "none", 1)+"?api-version=1"); !strings.Contains(err.Error(), "ResourceGroupNotFound") {
		t.Errorf("got %v", err)
	}
}

// Another process, with a secret of its own instead of a credential object, because each process reads SSL_CERT_FILE only once.
func TestAnotherProcessFindsTheSubscriptionInItsEnvironment(t *testing.T) {
	const child = "TENON_TEST_CHILD"
	if os.Getenv(child) != "" {
		config, err := cloud.Load(clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := cloud.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.VMs(t.Context(), os.Getenv("AZURE_NODE_RESOURCE_GROUP")); err != nil {
			t.Fatal(err)
		}
		return
	}
	w := newWorld(t)
	program, err := os.Executable()
	w.must(err)
	other := exec.Command(program, "-test.run", "^"+t.Name()+"$")
	other.Env = append(w.Environment(), child+"=1")
	if text, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(w.Calls("VirtualMachines_List")) != 1 {
		t.Error("the call went elsewhere")
	}
}
