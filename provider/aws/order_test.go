package aws_test

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/awstest"
)

// ordered returns the type and the zone of each override in a request to EC2, and the images by type.
func ordered(form url.Values) (overrides []string, images map[string]string) {
	images = map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("LaunchTemplateConfigs.%d.LaunchTemplateSpecification.LaunchTemplateName", i)); i++ {
		for j := 1; ; j++ {
			prefix := fmt.Sprintf("LaunchTemplateConfigs.%d.Overrides.%d.", i, j)
			kind := form.Get(prefix + "InstanceType")
			if kind == "" {
				break
			}
			overrides = append(overrides, kind+" "+form.Get(prefix+"AvailabilityZone"))
			images[kind] = form.Get(prefix + "ImageId")
		}
	}
	return overrides, images
}

// All ways in which a claim, its class or the market changes the request to EC2.
func TestWhatEC2IsAskedFor(t *testing.T) {
	t.Parallel()
	const strategy, kind = "OnDemandOptions.AllocationStrategy", "TargetCapacitySpecification.DefaultTargetCapacityType"
	const data = "LaunchTemplateData."
	one := in(corev1.LabelInstanceTypeStable, "m5.large")
	onDemand, spot := in(v1.CapacityTypeLabelKey, "on-demand"), in(v1.CapacityTypeLabelKey, "spot")
	requests := func(c *v1.NodeClaim, name string) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
	}
	for name, test := range map[string]struct {
		requirements []v1.Requirement
		class        func(*awsv1.EC2NodeClass)
		claim        func(*v1.NodeClaim)
		fleet        map[string]string // fields of CreateFleet
		template     map[string]string // fields of CreateLaunchTemplate
	}{
		"spot rather than on demand": {requirements: []v1.Requirement{one}, fleet: map[string]string{kind: "spot", "SpotOptions.AllocationStrategy": "price-capacity-optimized", strategy: ""},
			template: map[string]string{"TagSpecification.1.ResourceType": "launch-template", data + "TagSpecification.2.ResourceType": "spot-instances-request"}},
		"on demand": {requirements: []v1.Requirement{one, onDemand}, fleet: map[string]string{kind: "on-demand", strategy: "lowest-price", "SpotOptions.AllocationStrategy": ""},
			template: map[string]string{data + "CapacityReservationSpecification.CapacityReservationPreference": "none", data + "Placement.Tenancy": "default", data + "EnclaveOptions.Enabled": "false"}},
		"prices of overlays, on demand": {requirements: []v1.Requirement{one, onDemand}, claim: func(c *v1.NodeClaim) { c.Annotations = map[string]string{v1.PriceOverlayAppliedAnnotationKey: "true"} },
			fleet: map[string]string{strategy: "prioritized"}},
		"prices of overlays, spot": {requirements: []v1.Requirement{one, spot}, claim: func(c *v1.NodeClaim) { c.Annotations = map[string]string{v1.PriceOverlayAppliedAnnotationKey: "true"} },
			fleet: map[string]string{"SpotOptions.AllocationStrategy": "capacity-optimized-prioritized"}},
		"no context": {requirements: []v1.Requirement{one}, fleet: map[string]string{"Context": ""}},
		"a context":  {requirements: []v1.Requirement{one}, class: func(c *awsv1.EC2NodeClass) { c.Spec.Context = new("ctx") }, fleet: map[string]string{"Context": "ctx"}},
		"no context where minValues were relaxed": {requirements: []v1.Requirement{one}, class: func(c *awsv1.EC2NodeClass) { c.Spec.Context = new("ctx") },
			claim: func(c *v1.NodeClaim) { c.Annotations = map[string]string{v1.MinValuesRelaxedAnnotationKey: "true"} }, fleet: map[string]string{"Context": ""}},
		"dedicated tenancy": {requirements: []v1.Requirement{one, onDemand, in(awsv1.TenancyLabelKey, "dedicated")}, template: map[string]string{data + "Placement.Tenancy": "dedicated"}},
		"any tenancy":       {requirements: []v1.Requirement{one, onDemand, in(awsv1.TenancyLabelKey, "dedicated", "default")}, template: map[string]string{data + "Placement.Tenancy": "default"}},
		"enclaves":          {requirements: []v1.Requirement{in(corev1.LabelInstanceTypeStable, "m5.xlarge"), onDemand}, claim: func(c *v1.NodeClaim) { requests(c, awsv1.ResourceNitroSandbox) }, template: map[string]string{data + "EnclaveOptions.Enabled": "true"}},
		"EFA": {requirements: []v1.Requirement{in(corev1.LabelInstanceTypeStable, "m6idn.32xlarge"), onDemand}, claim: func(c *v1.NodeClaim) { requests(c, awsv1.ResourceEFA) },
			template: map[string]string{data + "NetworkInterface.1.InterfaceType": "efa", data + "NetworkInterface.2.InterfaceType": "efa", data + "NetworkInterface.2.NetworkCardIndex": "1", data + "NetworkInterface.3.InterfaceType": ""}},
		"EFA for claims": {requirements: []v1.Requirement{in(corev1.LabelInstanceTypeStable, "m6idn.32xlarge"), onDemand}, claim: func(c *v1.NodeClaim) {
			c.Annotations = map[string]string{v1.RequestedDRADriversAnnotationKey: "dra.net,gpu.nvidia.com"}
		},
			template: map[string]string{data + "NetworkInterface.1.InterfaceType": "efa", data + "NetworkInterface.2.InterfaceType": "efa", data + "NetworkInterface.3.InterfaceType": ""}},
		"no EFA unless asked for": {requirements: []v1.Requirement{in(corev1.LabelInstanceTypeStable, "m6idn.32xlarge"), onDemand}, template: map[string]string{data + "NetworkInterface.1.InterfaceType": "", data + "NetworkInterface.2.InterfaceType": ""}},
		"monitoring":              {requirements: []v1.Requirement{one, onDemand}, class: func(c *awsv1.EC2NodeClass) { c.Spec.DetailedMonitoring = new(true) }, template: map[string]string{data + "Monitoring.Enabled": "true"}},
		"a partition": {requirements: []v1.Requirement{one, onDemand, in(awsv1.PlacementGroupPartitionLabelKey, "2")}, class: func(c *awsv1.EC2NodeClass) {
			c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
		},
			template: map[string]string{data + "Placement.GroupId": "pg-1", data + "Placement.PartitionNumber": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untried)
			w.account.SetPlacementGroups(awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "partition", Partitions: 3})
			c := w.resolved("general", test.class)
			claim := w.claim("a", c, test.requirements...)
			if test.claim != nil {
				test.claim(claim)
				w.must(w.client.Update(t.Context(), claim))
			}
			m := w.launch(claim, c)
			for call, fields := range map[string]map[string]string{"ec2:CreateFleet": test.fleet, "ec2:CreateLaunchTemplate": test.template} {
				form := w.account.Calls(call)[0].Form
				for field, want := range fields {
					if got := form.Get(field); got != want {
						t.Errorf("%s: %s is %q, want %q", call, field, got, want)
					}
				}
			}
			_, hasEFA := m.Capacity[awsv1.ResourceEFA]
			if hasEFA != (name == "EFA") {
				t.Errorf("the node is said to have %v", m.Capacity)
			}
		})
	}
}

func TestALaunchNamesManyTypesButNothingExotic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	w.launch(w.claim("a", c, in(v1.CapacityTypeLabelKey, "on-demand")), c)
	overrides, images := ordered(w.account.Calls("ec2:CreateFleet")[0].Form)
	if len(images) != 60 || len(overrides) <= 60 {
		t.Errorf("%d types, %d overrides", len(images), len(overrides))
	}
	types := w.catalog(c)
	for kind, image := range images {
		if it := typeOf(types, kind); image != w.imageFor(c, kind) || strings.Contains(kind, "metal") || len(it.Labels[awsv1.GPUCountLabelKey]) > 0 || len(it.Labels[awsv1.AcceleratorCountLabelKey]) > 0 {
			t.Errorf("%s with %s", kind, image)
		}
	}
	if n := len(slices.Compact(slices.Sorted(maps.Values(images)))); n != 2 {
		t.Errorf("%d images for two kinds of processors", n)
	}
	flexible := v1.Requirement{Key: awsv1.FamilyLabelKey, Operator: v1.In, Values: []string{"m5", "g5"}, MinValues: new(2)}
	w.launch(w.claim("b", c, flexible, in(v1.CapacityTypeLabelKey, "on-demand")), c)
	calls := w.account.Calls("ec2:CreateFleet")
	_, images = ordered(calls[len(calls)-1].Form)
	families := map[string]bool{}
	for kind := range images {
		family, _, _ := strings.Cut(kind, ".")
		families[family] = true
	}
	if len(families) != 2 || images["m5.metal"] == "" {
		t.Errorf("with minValues the families are %v, and m5.metal is %q", families, images["m5.metal"])
	}
}

func TestSpotThatCostsMoreThanOnDemandIsTheLastResort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	prices := map[[2]string]float64{}
	for zone := range w.zones {
		prices[[2]string{"m5.large", zone}], prices[[2]string{"m5.xlarge", zone}] = 0.03, 0.5
	}
	w.account.SetSpotPrices(prices)
	c := w.resolved("general", nil)
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"))
	w.account.Limit(awstest.Offering{InstanceType: "m5.large"}, 0, "")
	w.account.Limit(awstest.Offering{InstanceType: "m5.xlarge", CapacityType: "on-demand"}, 0, "")
	if m := w.launch(claim, c); m.Labels[v1.CapacityTypeLabelKey] != "spot" || m.Labels[corev1.LabelInstanceTypeStable] != "m5.xlarge" {
		t.Errorf("labels %v", m.Labels)
	}
	var asked []string
	for _, call := range w.account.Calls("ec2:CreateFleet") {
		_, images := ordered(call.Form)
		asked = append(asked, call.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType")+" "+strings.Join(slices.Sorted(maps.Keys(images)), "+"))
	}
	want := []string{"spot m5.large", "on-demand m5.large+m5.xlarge", "spot m5.xlarge"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// A type without a price must not make all others look expensive.
func TestAmongAllTypesSpotComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	if m := w.launch(w.claim("a", c), c); m.Labels[v1.CapacityTypeLabelKey] != "spot" {
		t.Errorf("labels %v", m.Labels)
	}
}

func TestReservationsOfOneKindAreAskedForAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	of := func(id, zone, kind string, free int, interruptible bool) awstest.Reservation {
		return awstest.Reservation{ID: id, InstanceType: "m5.large", Zone: zone, Criteria: "targeted", Type: kind, Free: free, Interruptible: interruptible, Tags: map[string]string{"use": "yes"}}
	}
	w.account.SetReservations(of("cr-0a", "us-west-2a", "default", 1, false), of("cr-0b", "us-west-2a", "default", 2, false), of("cr-0c", "us-west-2b", "default", 1, false),
		of("cr-0d", "us-west-2a", "capacity-block", 1, false), of("cr-0e", "us-west-2b", "capacity-block", 1, false), of("cr-0f", "us-west-2a", "default", 1, true))
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "yes"}}}
	})
	got := map[string]int{}
	for i := range 8 {
		m := w.launch(w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
		got[m.Labels[awsv1.ReservationIDLabelKey]]++
	}
	want := map[string]int{"cr-0a": 1, "cr-0b": 2, "cr-0c": 1, "cr-0d": 1, "cr-0e": 1, "cr-0f": 1, "": 1} // the last one is spot
	if !maps.Equal(got, want) {
		t.Errorf("machines by reservation %v, want %v", got, want)
	}
	kinds := map[string]bool{}
	for _, call := range w.account.Calls("ec2:CreateFleet") {
		overrides, _ := ordered(call.Form)
		if len(slices.Compact(slices.Sorted(slices.Values(overrides)))) != len(overrides) {
			t.Errorf("one call names a type twice in a zone: %v", overrides)
		}
		kind := call.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType")
		if kinds[kind] = true; kind == "capacity-block" && len(overrides) != 1 {
			t.Errorf("one call names %d capacity blocks", len(overrides))
		}
	}
	for _, kind := range []string{"on-demand", "capacity-block", "reserved-capacity", "spot"} {
		if !kinds[kind] {
			t.Errorf("no call for %s: %v", kind, kinds)
		}
	}
}

func TestAClassThatIsNotReadyStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	ready := w.resolved("general", nil)
	for name, test := range map[string]struct {
		change func(*awsv1.EC2NodeClass)
		says   string
	}{
		"deleted":   {func(c *awsv1.EC2NodeClass) { c.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()} }, "being deleted"},
		"changed":   {func(c *awsv1.EC2NodeClass) { c.Generation++ }, "not known yet"},
		"a tag":     {func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"eks:eks-cluster-name": "x"} }, "eks:eks-cluster-name"},
		"no status": {func(c *awsv1.EC2NodeClass) { c.Status.Conditions = nil }, "not known yet"},
		"not allowed": {func(c *awsv1.EC2NodeClass) {
			v1.SetCondition(c, awsv1.ConditionValidationSucceeded, "False", "X", "no permission", time.Time{})
		}, "no permission"},
	} {
		c := ready.DeepCopy()
		test.change(c)
		_, err := w.provider.Launch(t.Context(), w.claim(strings.ReplaceAll(name, " ", "-"), ready), seen(c))
		if notReady := (*provider.ClassNotReadyError)(nil); !errors.As(err, &notReady) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, test.says)
		}
	}
	if n := len(w.account.Calls("ec2:CreateFleet")); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// Existing tags of the machine are not changed.
func TestTagsThatAreThereAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"Name": "own"} })
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	w.launch(claim, c)
	w.node(claim)
	w.clean()
	for _, i := range w.account.Machines() {
		tags := map[string]string{}
		for _, tag := range i.Tags {
			tags[*tag.Key] = *tag.Value
		}
		if tags["Name"] != "own" || tags[awsv1.NodeClaimTagKey] != "a" {
			t.Errorf("tags %v", tags)
		}
	}
}

// Templates that cannot be deleted keep their class. Templates of other classes stay.
func TestAClassStaysUntilAllThatWasMadeForItIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.resolved("other", nil)
	w.resolved("general", func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", new("given") })
	w.clean()
	c := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(t.Context(), nameOf("general"), c))
	w.must(w.client.Delete(t.Context(), c))
	before := w.templates()
	w.account.Fail("ec2:DeleteLaunchTemplate", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	if err := w.provider.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), "AllowScopedDeletion") {
		t.Errorf("got %v", err)
	}
	w.must(w.client.Get(t.Context(), nameOf("general"), c))
	w.account.Heal()
	w.clock.Step(time.Minute)
	w.clean()
	if err := w.client.Get(t.Context(), nameOf("general"), c); err == nil || w.templates() != before-1 || w.profiles() != 1 {
		t.Errorf("the class is there: %t; %d of %d templates, %d instance profiles", err == nil, w.templates(), before, w.profiles())
	}
}
