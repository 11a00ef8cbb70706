package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func TestTheCatalogListsWhatEC2SellsInTheZonesOfTheClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetSpotPrices(map[[2]string]float64{{"m5.large", "us-west-2a"}: 0.03, {"m5.large", "us-west-2b"}: 0.04, {"c5.large", "us-west-2a"}: 0.02})
	c := w.resolved("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: w.zones["us-west-2a"]}, {ID: w.zones["us-west-2b"]}}
	})
	types := w.catalog(c)
	if len(types) < 700 || !slices.IsSortedFunc(types, func(a, b engine.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d types, or not in order", len(types))
	}
	keys := len(types[0].Labels)
	for _, it := range types {
		if len(it.Labels) != keys {
			t.Errorf("%s has %d labels, others have %d", it.Name, len(it.Labels), keys)
		}
		if strings.HasPrefix(it.Name, "a1.") {
			t.Errorf("%s does not run AL2023", it.Name)
		}
	}
	m5 := typeOf(types, "m5.large")
	var got []string
	for _, o := range m5.Offerings {
		got = append(got, fmt.Sprintf("%s %s %s %v %v", o.Zone, o.Labels[awsv1.ZoneIDLabelKey], o.CapacityType, o.Price, o.SoldOut))
	}
	want := []string{
		"us-west-2a usw2-az2 on-demand 0.096 false", "us-west-2a usw2-az2 spot 0.03 false",
		"us-west-2b usw2-az1 on-demand 0.096 false", "us-west-2b usw2-az1 spot 0.04 false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("m5.large:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	// EC2 has returned spot prices, but none for this one: the offering cannot be bought, but it remains in the catalog.
	for _, o := range typeOf(types, "c5.large").Offerings {
		if o.SoldOut != (o.Zone == "us-west-2b" && o.CapacityType == v1.CapacityTypeSpot) {
			t.Errorf("c5.large %s %s: sold out %v", o.Zone, o.CapacityType, o.SoldOut)
		}
	}
	if pods := m5.Capacity[corev1.ResourceName("vpc.amazonaws.com/pod-eni")]; pods.Value() != 9 {
		t.Errorf("m5.large has %s branch interfaces, want 9", pods.String())
	}
	if got := typeOf(types, "m5.large").Labels[awsv1.NetworkBandwidthLabelKey]; !slices.Equal(got, []string{"750"}) {
		t.Errorf("network of m5.large: %v", got)
	}
}

func TestTypesThatNoImageRunsOnAreNotListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetImages(awstest.Image{ID: "ami-mine", Name: "mine", Architecture: "arm64"})
	mine := w.catalog(w.resolved("mine", func(c *awsv1.EC2NodeClass) {
		c.Spec.AMIFamily, c.Spec.AMISelectorTerms = new("Custom"), []awsv1.AMISelectorTerm{{ID: "ami-mine"}}
	}))
	if typeOf(mine, "m5.large") != nil || typeOf(mine, "m6g.large") == nil {
		t.Error("an image for arm64 runs on arm64 and nothing else")
	}
	w.account.SetImages(awstest.Image{ID: "ami-5171d000000000001", Name: "windows"})
	windows := w.catalog(w.resolved("windows", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "windows2022@latest" }))
	if typeOf(windows, "m5.large") == nil || typeOf(windows, "m6g.large") != nil {
		t.Error("Windows runs on amd64 and nothing else")
	}
	if q := typeOf(windows, "m5.large").Capacity[corev1.ResourceName(awsv1.ResourcePrivateIPv4)]; q.Value() != 9 {
		t.Errorf("m5.large has %s addresses for pods, want 9", q.String())
	}
}

func TestPricesThatCannotBeHadAreThoseThatComeWithTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.Fail("pricing:GetProducts", awstest.Fault{Status: 400, Code: "AccessDeniedException"})
	w.account.Fail("ec2:DescribeSpotPriceHistory", awstest.Fault{Status: 500, Code: "InternalError"})
	c := w.resolved("default", nil)
	price := func(capacityType string) float64 {
		t.Helper()
		for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
			if o.CapacityType == capacityType && !o.SoldOut {
				return o.Price
			}
		}
		return -1
	}
	if onDemand, spot := price("on-demand"), price("spot"); onDemand != 0.096 || spot != onDemand {
		t.Errorf("on demand %v, spot %v; want 0.096, which is that of us-east-1", onDemand, spot)
	}
	calls := len(w.account.Calls("pricing:GetProducts"))
	price("spot")
	if n := len(w.account.Calls("pricing:GetProducts")); n != calls {
		t.Errorf("%d more calls at once", n-calls)
	}
	w.account.Heal()
	w.account.SetPrices(map[string]float64{"m5.large": 0.2, "m5.metal": 5})
	w.clock.Step(6 * time.Minute)
	if got := price("on-demand"); got != 0.2 {
		t.Errorf("once the price list service answers: %v, want 0.2", got)
	}
	w.account.Fail("pricing:GetProducts", awstest.Fault{Status: 500, Code: "InternalError"})
	w.clock.Step(13 * time.Hour)
	if got := price("on-demand"); got != 0.2 {
		t.Errorf("when it does not answer any more: %v, want 0.2", got)
	}
}

func TestAnIsolatedNetworkAsksForNoPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) { c.IsolatedVPC = true })
	if w.catalog(w.resolved("default", nil)); len(w.account.Calls("pricing:GetProducts")) != 0 {
		t.Error("the price list service was called")
	}
}

func TestWithoutTypesThereIsNoCatalogAndLaterTheOldOneStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("default", nil)
	w.account.Fail("ec2:DescribeInstanceTypes", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	if _, err := w.provider.Catalog(t.Context(), seen(c)); err == nil || !strings.Contains(err.Error(), "allow ec2:DescribeInstanceTypes") {
		t.Errorf("got %v", err)
	}
	w.account.Heal()
	before := w.catalog(c)
	w.account.Fail("ec2:DescribeInstanceTypeOfferings", awstest.Fault{Status: 500, Code: "InternalError"})
	w.clock.Step(13 * time.Hour)
	if after := w.catalog(c); len(after) != len(before) {
		t.Errorf("%d types, before %d", len(after), len(before))
	}
	w.account.Heal()
	w.clock.Step(10 * time.Minute)
	if after := w.catalog(c); &after[0] != &w.catalog(c)[0] {
		t.Error("the same question, another list")
	}
	if _, err := w.provider.Catalog(t.Context(), seen(w.class("fresh", nil))); err == nil || !strings.Contains(err.Error(), "no subnets found") {
		t.Errorf("a class without subnets: %v", err)
	}
}

func TestClassesThatAskForTheSameShareACatalog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.catalog(w.resolved("first", nil))
	same := func(a, b []engine.InstanceType) bool { return &a[0] == &b[0] }
	w.clock.Step(2 * time.Minute)
	if !same(first, w.catalog(w.resolved("again", nil))) {
		t.Error("two equal classes have two catalogs")
	}
	for name, change := range map[string]func(*awsv1.EC2NodeClass){
		"tags":      func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"a": "b"} },
		"user data": func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("echo") },
		"groups": func(c *awsv1.EC2NodeClass) {
			c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: w.group}}
		},
		"images": func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2023@v20260505" },
	} {
		if !same(first, w.catalog(w.resolved(strings.ReplaceAll(name, " ", "-"), change))) {
			t.Errorf("classes that differ in %s have two catalogs", name)
		}
	}
	for name, change := range map[string]func(*awsv1.EC2NodeClass){
		"kubelet": func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = kubeletOf(`{"maxPods":20}`) },
		"zones": func(c *awsv1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: w.zones["us-west-2a"]}}
		},
		"family":  func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" },
		"windows": func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "windows2022@latest" },
		"volumes": func(c *awsv1.EC2NodeClass) {
			c.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: new("/dev/xvda"), EBS: &awsv1.BlockDevice{VolumeSize: new(resource.MustParse("99Gi"))}}}
		},
	} {
		other := w.catalog(w.resolved(name, change))
		if same(first, other) {
			t.Errorf("classes that differ in %s have one catalog", name)
		}
		if again := w.catalog(w.resolved(name+"-again", change)); !same(other, again) {
			t.Errorf("two classes with the same %s have two catalogs", name)
		}
	}
}

func TestReservedMachinesAreOfferedAsManyAsThereAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetReservations(
		awstest.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Free: 3},
		awstest.Reservation{ID: "cr-2", InstanceType: "m5.large", Zone: "us-west-2d", Criteria: "targeted", Type: "default", Free: 3},
		awstest.Reservation{ID: "cr-3", InstanceType: "m5.large", Zone: "us-west-2b", Criteria: "targeted", Type: "capacity-block", Free: 5, Ends: w.clock.Now().Add(30 * time.Minute)},
	)
	c := w.resolved("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{InstanceMatchCriteria: "targeted"}}
	})
	var got []string
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.CapacityType == v1.CapacityTypeReserved {
			got = append(got, fmt.Sprintf("%s %s %d %v %s %s %s", o.Reservation, o.Zone, o.Slots, o.SoldOut,
				o.Labels[awsv1.ReservationIDLabelKey], o.Labels[awsv1.ReservationTypeLabelKey], o.Labels[awsv1.ReservationInterruptibleLabelKey]))
			if o.Price <= 0 || o.Price > 1e-6 {
				t.Errorf("price %v, want next to nothing", o.Price)
			}
		}
	}
	want := []string{"cr-1 us-west-2a 3 false cr-1 default false", "cr-3 us-west-2b 5 true cr-3 capacity-block false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	before := w.catalog(c)
	w.account.SetReservations(awstest.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Free: 1})
	w.clock.Step(2 * time.Minute)
	w.resolve(c)
	offerings := typeOf(w.catalog(c), "m5.large").Offerings
	if o := offerings[len(offerings)-1]; o.Slots != 1 || o.Reservation != "cr-1" || &before[0] == &w.catalog(c)[0] {
		t.Errorf("after two were used elsewhere: %+v", o)
	}
}

func TestAPlacementGroupLimitsTheTypesAndNamesItsPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetPlacementGroups(
		awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "partition", Partitions: 3},
		awstest.PlacementGroup{ID: "pg-2", Name: "close", Strategy: "cluster"})
	in := func(name string) []engine.InstanceType {
		return w.catalog(w.resolved(name, func(c *awsv1.EC2NodeClass) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: name} }))
	}
	racks, closely := in("racks"), in("close")
	if got := typeOf(racks, "m5.large").Labels; !slices.Equal(got[awsv1.PlacementGroupIDLabelKey], []string{"pg-1"}) || !slices.Equal(got[awsv1.PlacementGroupPartitionLabelKey], []string{"1", "2", "3"}) {
		t.Errorf("labels %v", got)
	}
	if typeOf(racks, "t3.large") == nil || typeOf(closely, "t3.large") != nil || typeOf(closely, "m5.large") == nil {
		t.Error("t3 takes part in partitions, not in clusters")
	}
	if got := typeOf(w.catalog(w.resolved("none", nil)), "m5.large").Labels; got[awsv1.PlacementGroupIDLabelKey] != nil {
		t.Errorf("without a group: %v", got)
	}
}

func TestMemoryThatNodesWereSeenToHaveIsLearned(t *testing.T) {
	t.Parallel()
	const image = "ami-a1202300000000000"
	machine := func(name, kind, image, memory string) (*v1.NodeClaim, *corev1.Node) {
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		claim.Status.NodeName, claim.Status.ImageID = name, image
		claim.Status.Conditions = []v1.NodeClaimCondition{{Type: v1.ConditionRegistered, Status: metav1.ConditionTrue}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: kind}}}
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		return claim, node
	}
	claimA, a := machine("a", "m5.large", image, "7800Mi")
	claimB, b := machine("b", "m5.large", image, "7790Mi")
	claimC, c := machine("c", "m5.xlarge", "ami-another", "15000Mi")
	w := newWorld(t, nil, claimA, a, claimB, b, claimC, c)
	class := w.resolved("default", nil)
	memory := func(kind string) string { return typeOf(w.catalog(class), kind).Capacity.Memory().String() }
	if got := memory("m5.large"); got != "7790Mi" {
		t.Errorf("m5.large has %s, the smaller of two nodes has 7790Mi", got)
	}
	estimate := memory("m5.xlarge")
	if estimate == "15000Mi" {
		t.Error("what a node of another image has was taken for one of this image")
	}
	for _, o := range []*corev1.Node{a, b, c} { // nodes are deleted, the learned values stay
		w.must(w.client.Delete(t.Context(), o))
	}
	w.clock.Step(24 * time.Hour)
	if got := memory("m5.large"); got != "7790Mi" {
		t.Errorf("a day later: %s", got)
	}
	other := w.resolved("bottlerocket", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" })
	if got := typeOf(w.catalog(other), "m5.large").Capacity.Memory().String(); got == "7790Mi" {
		t.Error("another image, the same memory")
	}
	w.clock.Step(61 * 24 * time.Hour)
	if got := memory("m5.large"); got == "7790Mi" {
		t.Error("it is remembered for ever")
	}
}

func TestAClassWhoseKubeletCannotBeReadHasNoCatalogAndOthersHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bad := w.class("bad", func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = kubeletOf(`{"podsPerCore":"many"}`) })
	w.resolve(bad)
	if _, err := w.provider.Catalog(t.Context(), seen(bad)); err == nil || !strings.Contains(err.Error(), "spec.kubelet") {
		t.Errorf("got %v", err)
	}
	w.catalog(w.resolved("good", nil))
}

// The label that marks interruptible machines for on-demand shares is a label of the machines.
func TestInterruptibleReservationsAreKnownByTheirLabel(t *testing.T) {
	t.Parallel()
	if kube.InterruptibleReservation != awsv1.ReservationInterruptibleLabelKey {
		t.Errorf("%s is not %s", kube.InterruptibleReservation, awsv1.ReservationInterruptibleLabelKey)
	}
}
