package image_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/image"
)

const notFound = azurev1beta1.ReasonImagesNotFound

func TestEachFamilyHasItsImages(t *testing.T) {
	const sig = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/AKS-"
	const ofUbuntu, ofLinux = sig + "Ubuntu/providers/Microsoft.Compute/galleries/AKSUbuntu/images/", sig + "AzureLinux/providers/Microsoft.Compute/galleries/AKSAzureLinux/images/"
	w := newWorld(t, func(c *image.Config) { c.UseSIG, c.SIGSubscription = true, "00000000-0000-0000-0000-000000000001" })
	w.AddGroup("AKS-Ubuntu")
	w.AddGroup("AKS-AzureLinux")
	for _, prefix := range []string{"2204", "2404", "2004"} {
		for _, kind := range []string{"gen2", "", "gen2arm64", "gen2TL", "gen2fips", "fips", "gen2fipsTL"} {
			w.publish(ofUbuntu+prefix+kind+"containerd", "1")
		}
	}
	for _, prefix := range []string{"V2", "V3"} {
		for _, kind := range []string{"gen2", "", "gen2arm64", "gen2TL", "gen2fips", "fips", "gen2arm64fips"} {
			w.publish(ofLinux+prefix+kind, "1")
		}
	}
	for _, c := range []struct{ family, version, flags, want string }{
		{"", "1.33.9", "", "2204gen2containerd 2204containerd 2204gen2arm64containerd"},
		{"Ubuntu", "1.33.9", "", "2204gen2containerd 2204containerd 2204gen2arm64containerd"},
		{"Ubuntu", "1.34.0", "", "2404gen2containerd 2404containerd 2404gen2arm64containerd"},
		{"Ubuntu", "v2.0", "", "2404gen2containerd 2404containerd 2404gen2arm64containerd"},
		{"Ubuntu", "new", "", "2204gen2containerd 2204containerd 2204gen2arm64containerd"},
		{"Ubuntu", "1.34.0", "TL", "2204gen2TLcontainerd"},
		{"Ubuntu", "1.34.0", "FIPS", "2004gen2fipscontainerd 2004fipscontainerd"},
		{"Ubuntu", "1.34.0", "FIPS TL", "2204gen2fipsTLcontainerd"},
		{"Ubuntu2204", "1.34.0", "", "2204gen2containerd 2204containerd 2204gen2arm64containerd"},
		{"Ubuntu2204", "1.34.0", "TL", "2204gen2TLcontainerd"},
		{"Ubuntu2204", "1.34.0", "FIPS TL", "2204gen2fipsTLcontainerd"},
		{"Ubuntu2404", "1.31.0", "", "2404gen2containerd 2404containerd 2404gen2arm64containerd"},
		{"Ubuntu2404", "1.31.0", "TL", "2404gen2TLcontainerd"},
		{"AzureLinux", "1.31.0", "", "V2gen2 V2 V2gen2arm64"},
		{"AzureLinux", "?", "", "V2gen2 V2 V2gen2arm64"},
		{"AzureLinux", "1.32.0", "", "V3gen2 V3 V3gen2arm64"},
		{"AzureLinux", "1.31.0", "FIPS", "V2gen2fips V2fips"},
		{"AzureLinux", "1.32.0", "FIPS", "V3gen2fips V3fips V3gen2arm64fips"},
		{"AzureLinux", "1.32.0", "TL", "V3gen2TL"},
	} {
		asked := class(c.family)
		if strings.Contains(c.flags, "FIPS") {
			asked.Spec.FIPSMode = azurev1beta1.FIPSEnabled
		}
		if strings.Contains(c.flags, "TL") {
			asked.Spec.Security = &azurev1beta1.Security{TrustedLaunch: &azurev1beta1.TrustedLaunch{SecureBoot: true}}
		}
		var want []string
		for _, name := range strings.Fields(c.want) {
			kind := " amd64 gen1"
			if strings.Contains(name, "arm64") {
				kind = " arm64 gen2"
			} else if strings.Contains(name, "gen2") {
				kind = " amd64 gen2"
			}
			prefix := ofUbuntu
			if name[0] == 'V' {
				prefix = ofLinux
			}
			want = append(want, prefix+name+"/versions/1"+kind)
		}
		w.expect(w.findFor(asked, c.version), want...)
	}
	c := class("Ubuntu2404")
	c.Spec.FIPSMode = azurev1beta1.FIPSEnabled
	w.problem(c, notFound, "no images of Ubuntu2404 with what spec.fipsMode and spec.security.trustedLaunch ask for")
}

func TestImagesThatAreOpenToAllAreTakenAtTheirNewest(t *testing.T) {
	w := newWorld(t, nil)
	// The version that was published last counts, whatever its name.
	w.publish(ubuntu+"2404gen2containerd", "202603.1", "202602.9")
	w.publish(ubuntu + "2404containerd") // without a version, and the third one does not exist
	w.publish(azureLinux+"V3", "1")
	w.expect(w.find(class("Ubuntu")), ubuntu+"2404gen2containerd/versions/202602.9 amd64 gen2")
	w.expect(w.find(class("AzureLinux")), azureLinux+"V3/versions/1 amd64 gen1")
	w.problem(class("Ubuntu2204"), notFound, "no images of Ubuntu2204 in eastus: none of "+ubuntu+"2204gen2containerd, ")
}

func TestFIPSNeedsAKSsOwnGalleries(t *testing.T) {
	w := newWorld(t, nil)
	c := class("AzureLinux")
	c.Spec.FIPSMode = azurev1beta1.FIPSEnabled
	w.problem(c, azurev1beta1.ReasonSIGRequiredForFIPS, "set USE_SIG and SIG_SUBSCRIPTION_ID")
	if calls := w.Calls(""); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestTheNewestAreLookedForEveryThreeDays(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(ubuntu+"2404gen2containerd", "1")
	c := class("Ubuntu")
	w.find(c)
	w.publish(ubuntu+"2404gen2containerd", "1", "2")
	w.clock.Step(72*time.Hour - time.Second)
	w.expect(w.find(c), ubuntu+"2404gen2containerd/versions/1 amd64 gen2")
	w.expect(w.findFor(class("Ubuntu"), "1.35.0"), ubuntu+"2404gen2containerd/versions/2 amd64 gen2") // another version of Kubernetes
	w.clock.Step(time.Second)
	w.expect(w.find(c), ubuntu+"2404gen2containerd/versions/2 amd64 gen2")
	if calls := len(w.Calls("CommunityGalleryImageVersions_List")); calls != 9 {
		t.Errorf("%d calls, want three for each time", calls)
	}
}

func TestImagesMoveOnlyInTheMaintenanceWindow(t *testing.T) {
	const start, end = "aksManagedNodeOSUpgradeSchedule-start", "aksManagedNodeOSUpgradeSchedule-end"
	const open, closed = true, false
	for name, c := range map[string]struct {
		window map[string]string
		want   bool
		err    string
	}{
		"no ConfigMap":       {nil, open, ""},
		"an empty ConfigMap": {map[string]string{}, open, ""},
		"empty times":        {map[string]string{start: "", end: ""}, open, ""},
		"during it":          {map[string]string{start: "2026-03-01T11:59:59Z", end: "2026-03-01T12:00:01Z"}, open, ""},
		"in another zone":    {map[string]string{start: "2026-03-01T13:00:00+02:00", end: "2026-03-01T15:00:00+02:00"}, open, ""},
		"before it":          {map[string]string{start: "2026-03-01T12:00:01Z", end: "2026-03-01T13:00:00Z"}, closed, ""},
		"at its beginning":   {map[string]string{start: "2026-03-01T12:00:00Z", end: "2026-03-01T13:00:00Z"}, closed, ""},
		"at its end":         {map[string]string{start: "2026-03-01T11:00:00Z", end: "2026-03-01T12:00:00Z"}, closed, ""},
		"no end":             {map[string]string{start: "2026-03-01T12:00:01Z"}, closed, "it has " + start + " and no " + end},
		"no beginning":       {map[string]string{end: "2026-03-01T12:00:01Z"}, closed, "it has " + end + " and no " + start},
		"a bad beginning":    {map[string]string{start: "noon", end: "2026-03-01T12:00:01Z"}, closed, start + ` is "noon"`},
		"a bad end":          {map[string]string{start: "2026-03-01T12:00:01Z", end: "noon"}, closed, end + ` is "noon"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.publish(ubuntu+"2404gen2containerd", "2")
			asked := class("Ubuntu")
			asked.Status.Images = []azurev1beta1.NodeImage{{ID: ubuntu + "2404gen2containerd/versions/1"}}
			v1.SetCondition(asked, azurev1beta1.ConditionImagesReady, metav1.ConditionTrue, "", "", w.clock.Now())
			w.window = c.window
			if c.err != "" {
				w.fails(asked, "ConfigMap upcoming-maintenance-window: "+c.err)
				return
			}
			version := map[bool]string{open: "2", closed: "1"}[c.want]
			w.expect(w.find(asked), ubuntu+"2404gen2containerd/versions/"+version+" amd64 gen2")
		})
	}
}

func TestOutsideTheWindowOnlyWhatHasToChangesChanges(t *testing.T) {
	w := newWorld(t, nil)
	w.window = map[string]string{"aksManagedNodeOSUpgradeSchedule-start": "2027-03-01T12:00:00Z", "aksManagedNodeOSUpgradeSchedule-end": "2027-03-01T13:00:00Z"}
	const gen2, gen1, arm = ubuntu + "2404gen2containerd", ubuntu + "2404containerd", ubuntu + "2404gen2arm64containerd"
	w.publish(gen2, "1")
	w.publish(gen1, "1")
	c := class("Ubuntu2404")
	w.expect(w.find(c), gen2+"/versions/1 amd64 gen2", gen1+"/versions/1 amd64 gen1") // a new class
	w.publish(gen2, "1", "2")
	w.publish(gen1)
	w.publish(arm, "2")
	w.clock.Step(73 * time.Hour)
	w.expect(w.find(c), gen2+"/versions/1 amd64 gen2", arm+"/versions/2 arm64 gen2")
	// An ID without a version, which an older program may have written, is no version.
	c.Status.Images[0].ID = gen2 + "/versions/"
	w.expect(w.find(c), gen2+"/versions/2 amd64 gen2", arm+"/versions/2 arm64 gen2")
	// Another family.
	w.publish(azureLinux+"V3gen2", "5")
	c.Spec.ImageFamily = "AzureLinux"
	w.expect(w.find(c), azureLinux+"V3gen2/versions/5 amd64 gen2")
	// Kubernetes is newer, or the class is not ready for any reason.
	w.publish(azureLinux+"V3gen2", "5", "6")
	w.clock.Step(73 * time.Hour)
	w.expect(w.find(c), azureLinux+"V3gen2/versions/5 amd64 gen2")
	v1.SetCondition(c, azurev1beta1.ConditionImagesReady, metav1.ConditionFalse, azurev1beta1.ReasonKubernetesUpgrade, "", w.clock.Now())
	w.expect(w.find(c), azureLinux+"V3gen2/versions/6 amd64 gen2")
}

func TestAWindowThatCannotBeReadIsNoOpenOne(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(ubuntu+"2404gen2containerd", "1")
	c := class("Ubuntu")
	w.find(c)
	w.broken = errors.New("etcd is away")
	w.fails(c, "read the maintenance window: etcd is away")
	w.find(class("Ubuntu")) // a new class needs none
	none := newNone(w)
	if _, _, err := none.Find(t.Context(), c, kubernetes); err != nil {
		t.Errorf("outside of clusters that have a window: %v", err)
	}
}

func TestTroubleOfAzuresIsNoProblemOfAClass(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(ubuntu+"2404gen2containerd", "1")
	w.Fail("CommunityGalleryImageVersions_List", azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed", Message: "no"})
	w.fails(class("Ubuntu"), "AuthorizationFailed: no: give Tenon's identity the role Reader on subscription "+w.ID)
	w.Heal()
	w.clock.Step(time.Minute)
	w.Fail("CommunityGalleryImageVersions_List", azuretest.Fault{Status: http.StatusBadRequest, Code: "InternalExecutionError", Message: "no"})
	w.fails(class("Ubuntu"), "read image "+ubuntu+"2404gen2containerd: CommunityGalleryImageVersions_List")
}

func TestWhoGetsAListMayWriteIntoIt(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(ubuntu+"2404gen2containerd", "1")
	images, _, err := w.Find(t.Context(), class("Ubuntu"), kubernetes)
	w.must(err)
	images[0].ID, images[0].Requirements[0].Values[0] = "x", "x"
	w.expect(w.find(class("Ubuntu")), ubuntu+"2404gen2containerd/versions/1 amd64 gen2")
}
