package image_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/image"
)

func TestAnImageOfOnesOwnSaysWhichMachinesItIsFor(t *testing.T) {
	w := newWorld(t, nil)
	versions := []azuretest.Version{{Name: "1.0.0"}, {Name: "1.2.0"}}
	w.AddImage(azuretest.Image{ID: w.managed("golden"), Generation: "V1"})
	w.AddImage(azuretest.Image{ID: w.gallery("golden"), Architecture: "Arm64", Versions: versions})
	w.AddImage(azuretest.Image{ID: "/CommunityGalleries/flatcar/images/stable", Versions: versions, Generation: "V1"})
	w.AddImage(azuretest.Image{ID: "Canonical:ubuntu:server", Versions: versions})
	for id, want := range map[string]string{
		w.managed("golden"):                                        w.managed("golden") + " amd64 gen1",
		strings.ToUpper(w.managed("")) + "golden":                  strings.Replace(w.managed("golden"), "/nodes/", "/NODES/", 1) + " amd64 gen1",
		w.gallery("golden"):                                        w.gallery("golden") + "/versions/1.2.0 arm64 gen2",
		w.gallery("golden") + "/versions/1.0.0":                    w.gallery("golden") + "/versions/1.0.0 arm64 gen2",
		w.gallery("golden") + "/versions/latest":                   w.gallery("golden") + "/versions/1.2.0 arm64 gen2",
		"/communityGalleries/flatcar/images/stable":                "/CommunityGalleries/flatcar/images/stable/versions/1.2.0 amd64 gen1",
		"/communityGalleries/flatcar/images/stable/versions/1.0.0": "/CommunityGalleries/flatcar/images/stable/versions/1.0.0 amd64 gen1",
		"Canonical:ubuntu:server:latest":                           "Canonical:ubuntu:server:1.2.0 amd64 gen2",
		"Canonical:ubuntu:server:1.0.0":                            "Canonical:ubuntu:server:1.0.0 amd64 gen2",
	} {
		w.expect(w.find(custom(id)), want)
	}
}

func TestTheNewestVersionIsTheOneWithTheHighestNumber(t *testing.T) {
	w := newWorld(t, nil)
	w.AddImage(azuretest.Image{ID: w.gallery("golden"), Versions: []azuretest.Version{
		{Name: "1.10.0", Regions: []string{"West US", "East US"}}, {Name: "1.9.0", Published: w.clock.Now()}, {Name: "2.0.0", Excluded: true}, {Name: "1.11.0", Regions: []string{"West US"}},
		{Name: "1.12.0", State: "Creating"}, {Name: "1.13.0", State: "Failed"},
	}})
	w.expect(w.find(custom(w.gallery("golden"))), w.gallery("golden")+"/versions/1.10.0 amd64 gen2")
	w.expect(w.find(custom(w.gallery("golden")+"/versions/2.0.0")), w.gallery("golden")+"/versions/2.0.0 amd64 gen2") // excluded, but requested
	w.publish("p:o:s", "22.4.9", "22.4.10", "22.4.x", "22.4.beta", "22.10")
	w.expect(w.find(custom("p:o:s:latest")), "p:o:s:22.10 amd64 gen2")
}

func TestANewVersionIsSeenWithinFiveMinutes(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(w.gallery("golden"), "1.0.0")
	latest, pinned := custom(w.gallery("golden")), custom(w.gallery("golden")+"/versions/1.0.0")
	w.find(latest)
	w.find(pinned)
	w.publish(w.gallery("golden"), "1.0.0", "1.1.0")
	w.expect(w.find(latest), w.gallery("golden")+"/versions/1.0.0 amd64 gen2")
	w.clock.Step(5 * time.Minute)
	w.expect(w.find(latest), w.gallery("golden")+"/versions/1.1.0 amd64 gen2")
	w.expect(w.find(pinned), w.gallery("golden")+"/versions/1.0.0 amd64 gen2")
	// Outside a maintenance window the image stays, unless the class itself names another version, or the image no longer exists.
	w.window = map[string]string{"aksManagedNodeOSUpgradeSchedule-start": "2027-03-01T12:00:00Z", "aksManagedNodeOSUpgradeSchedule-end": "2027-03-01T13:00:00Z"}
	w.publish(w.gallery("golden"), "1.0.0", "1.1.0", "1.2.0")
	w.clock.Step(5 * time.Minute)
	w.expect(w.find(latest), w.gallery("golden")+"/versions/1.1.0 amd64 gen2")
	pinned.Spec.ImageID = w.gallery("golden") + "/versions/1.2.0"
	w.expect(w.find(pinned), w.gallery("golden")+"/versions/1.2.0 amd64 gen2")
	w.publish(w.gallery("golden"), "1.0.0", "1.2.0")
	w.clock.Step(5 * time.Minute)
	w.expect(w.find(latest), w.gallery("golden")+"/versions/1.2.0 amd64 gen2")
}

func TestWhatIsWrongWithAnImageOfOnesOwnIsSaid(t *testing.T) {
	w := newWorld(t, nil)
	one := []azuretest.Version{{Name: "1.0.0"}}
	w.AddImage(azuretest.Image{ID: w.gallery("unsaid"), Unsaid: true, Versions: one})
	w.AddImage(azuretest.Image{ID: w.gallery("odd"), Generation: "V3", Versions: one})
	w.AddImage(azuretest.Image{ID: w.gallery("windows"), System: "Windows", Versions: one})
	w.AddImage(azuretest.Image{ID: w.gallery("copy"), Specialized: true, Versions: one})
	w.AddImage(azuretest.Image{ID: w.gallery("empty")})
	w.AddImage(azuretest.Image{ID: w.gallery("far"), Versions: []azuretest.Version{{Name: "1.0.0", Regions: []string{"West US"}}}})
	w.AddImage(azuretest.Image{ID: w.gallery("old"), Versions: []azuretest.Version{{Name: "1.0.0", Excluded: true}}})
	w.AddImage(azuretest.Image{ID: w.managed("windows"), System: "Windows"})
	w.AddImage(azuretest.Image{ID: w.managed("copy"), Specialized: true})
	w.AddImage(azuretest.Image{ID: w.managed("far"), Region: "westus"})
	w.AddImage(azuretest.Image{ID: "p:o:windows", System: "Windows", Versions: one})
	w.publish("p:o:s", "1", "2", "3", "4", "5", "6")
	for id, want := range map[string]string{
		"":                               `spec.imageID: image ""`,
		"ubuntu":                         `spec.imageID: image "ubuntu": it must be the ID of an image`,
		w.gallery("unsaid"):              `says of its architecture ""`,
		w.gallery("odd"):                 `says of its Hyper-V generation "V3"`,
		w.gallery("windows"):             "is of Windows: nodes must be of Linux",
		w.managed("windows"):             "is of Windows: nodes must be of Linux",
		"p:o:windows:latest":             "is of Windows: nodes must be of Linux",
		w.gallery("copy"):                "is specialized",
		w.managed("copy"):                "is specialized",
		w.gallery("empty"):               "has no version that can be used in eastus",
		w.gallery("far"):                 "excluded from being the latest, or not replicated to eastus: name one of 1.0.0",
		w.gallery("far/versions/1.0.0"):  "is not replicated to eastus: add that region",
		w.gallery("old"):                 "excluded from being the latest",
		w.gallery("old/versions/2.0.0"):  "has no version 2.0.0: it has 1.0.0",
		"p:o:s:7":                        "image p:o:s has no version 7: it has … 2, 3, 4, 5, 6",
		w.gallery("none"):                "there is no image " + w.gallery("none") + " for machines in eastus: GalleryImageVersions_ListByGalleryImage none: ResourceNotFound",
		w.managed("far"):                 "is in westus, and machines in eastus cannot be started from it",
		w.managed("none"):                "there is no image " + w.managed("none"),
		"/communityGalleries/x/images/y": "there is no image /CommunityGalleries/x/images/y",
		"a:b:c:latest":                   "there is no image a:b:c:latest",
		"/subscriptions/other/resourceGroups/nodes/providers/Microsoft.Compute/images/x": "SubscriptionNotFound",
	} {
		w.problem(custom(id), notFound, want)
	}
	w.Put(azuretest.Group, "Microsoft.Compute/images", "unknown", map[string]any{}) // from the time before generations
	w.expect(w.find(custom(w.managed("unknown"))), w.managed("unknown")+" amd64 gen1")
}

func TestTrustedLaunchNeedsGeneration2(t *testing.T) {
	w := newWorld(t, nil)
	w.AddImage(azuretest.Image{ID: w.managed("old"), Generation: "V1"})
	w.AddImage(azuretest.Image{ID: w.managed("new")})
	trusted := &azurev1beta1.Security{TrustedLaunch: &azurev1beta1.TrustedLaunch{VTPM: true}}
	c := custom(w.managed("old"))
	w.find(c)
	c.Spec.Security = trusted
	w.problem(c, notFound, "is of Hyper-V generation 1, and trusted launch needs 2")
	c = custom(w.managed("new"))
	c.Spec.Security = trusted
	w.find(c)
}

func TestWhoMayNotReadAnImageHearsWhatToGrant(t *testing.T) {
	w := newWorld(t, nil)
	denied := azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed", Message: "no"}
	for _, call := range []string{"Images_Get", "GalleryImages_Get", "GalleryImageVersions_ListByGalleryImage", "CommunityGalleryImages_Get", "VirtualMachineImages_List", "VirtualMachineImages_Get"} {
		w.Fail(call, denied)
	}
	w.publish("/CommunityGalleries/x/images/y", "1")
	const onIt = "AuthorizationFailed: no: give Tenon's identity the role Reader on it, or on its gallery or resource group"
	w.fails(custom(w.managed("x")), onIt)
	w.fails(custom(w.gallery("x")), onIt)
	w.fails(custom("/communityGalleries/x/images/y"), "the role Reader on subscription "+w.ID)
	w.fails(custom("a:b:c:latest"), "the role Reader on subscription "+w.ID)
}

func TestPlansAreThoseOfThePublisher(t *testing.T) {
	w := newWorld(t, nil)
	one := []azuretest.Version{{Name: "1.0.0"}}
	w.AddImage(azuretest.Image{ID: "p:o:s", Plan: true, Versions: one})
	w.AddImage(azuretest.Image{ID: "p:o:free", Versions: one})
	w.AddImage(azuretest.Image{ID: w.gallery("paid"), Plan: true, Versions: one})
	w.AddImage(azuretest.Image{ID: "/CommunityGalleries/x/images/paid", Plan: true, Versions: one})
	for id, want := range map[string]string{
		"p:o:s:1.0.0": "p o s", "p:o:s:latest": "p o s", "p:o:free:1.0.0": "", w.gallery("paid/versions/1.0.0"): "publisher offer sku",
		"/CommunityGalleries/x/images/paid/versions/1.0.0": "publisher offer sku", w.managed("any"): "", ubuntu + "2404gen2containerd/versions/1": "",
	} {
		plan, err := w.Plan(t.Context(), id)
		w.must(err)
		got := ""
		if plan != nil {
			got = *plan.Publisher + " " + *plan.Product + " " + *plan.Name
			*plan.Name = "somebody else's"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	before := len(w.Calls(""))
	if again, err := w.Plan(t.Context(), "p:o:s:1.0.0"); err != nil || *again.Name != "s" {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if calls := len(w.Calls("")) - before; calls != 0 {
		t.Errorf("%d calls for what is known", calls)
	}
	if _, err := w.Plan(t.Context(), "p:o:gone:1"); err == nil {
		t.Error("no error about an image that is not there")
	}
	if _, err := w.Plan(t.Context(), "?"); err == nil {
		t.Error("no error about what is no ID")
	}
}

func TestReferencesAreAsMachinesNameImages(t *testing.T) {
	t.Parallel()
	const rg = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
	for id, want := range map[string]string{
		rg + "images/x": "id " + rg + "images/x",
		strings.ToLower(rg) + "galleries/g/images/x": "id /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/g/images/x",
		rg + "galleries/g/images/x/versions/1.0.0":   "id " + rg + "galleries/g/images/x/versions/1.0.0",
		"/communityGalleries/g/images/x/versions/1":  "community /CommunityGalleries/g/images/x/versions/1",
		"/CommunityGalleries/g/images/x":             "community /CommunityGalleries/g/images/x",
		"p:o:s:1.0.0":                                "market p o s 1.0.0",
		"p:o:s:Latest":                               "market p o s latest",
		"p:o:s":                                      "error",
		"/CommunityGalleries/g/images/x/versions/":   "error",
		rg + "disks/x":                               "error",
		"":                                           "error",
	} {
		r, err := image.Reference(id)
		got := "error"
		switch {
		case err != nil:
		case r.ID != nil:
			got = "id " + *r.ID
		case r.CommunityGalleryImageID != nil:
			got = "community " + *r.CommunityGalleryImageID
		default:
			got = fmt.Sprintf("market %s %s %s %s", *r.Publisher, *r.Offer, *r.SKU, *r.Version)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestTheFirstImageThatFitsIsChosen(t *testing.T) {
	t.Parallel()
	const gen = azurev1beta1.SKUHyperVGenerationLabelKey
	needs := func(id string, r ...corev1.NodeSelectorRequirement) azurev1beta1.NodeImage {
		return azurev1beta1.NodeImage{ID: id, Requirements: r}
	}
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	of := func(operator corev1.NodeSelectorOperator, values ...string) []azurev1beta1.NodeImage {
		return []azurev1beta1.NodeImage{needs("x", corev1.NodeSelectorRequirement{Key: gen, Operator: operator, Values: values})}
	}
	images := []azurev1beta1.NodeImage{
		needs("gen2", in(corev1.LabelArchStable, "amd64"), in(gen, "2")), needs("gen1", in(corev1.LabelArchStable, "amd64"), in(gen, "1")), needs("arm", in(corev1.LabelArchStable, "arm64"), in(gen, "2")),
	}
	for _, c := range []struct {
		images      []azurev1beta1.NodeImage
		arch, want  string
		generations []string
	}{
		{images, "amd64", "gen2", []string{"2", "1"}}, {images, "amd64", "gen1", []string{"1"}}, {images, "arm64", "arm", []string{"2"}},
		{images, "arm64", "", []string{"1"}}, {images, "amd64", "", nil}, {nil, "amd64", "", []string{"2"}},
		{of("NotIn", "2"), "", "x", []string{"2", "1"}}, {of("NotIn", "2"), "", "", []string{"2"}}, {of("NotIn", "2"), "", "x", nil},
		{of("Exists"), "", "x", []string{"1"}}, {of("Exists"), "", "", nil}, {of("DoesNotExist"), "", "x", nil}, {of("DoesNotExist"), "", "", []string{"1"}}, {of("Gt", "1"), "", "", []string{"2"}},
	} {
		got, found := image.Choose(c.images, map[string][]string{corev1.LabelArchStable: {c.arch}, gen: c.generations})
		if got.ID != c.want || found != (c.want != "") {
			t.Errorf("%s %v: %q %t, want %q", c.arch, c.generations, got.ID, found, c.want)
		}
	}
}
