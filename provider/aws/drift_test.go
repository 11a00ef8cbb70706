package aws_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/images"
)

// claimOfType stores a claim whose machine has a type.
func (w *world) claimOfType(name string, class *awsv1.EC2NodeClass, kind string) *v1.NodeClaim {
	w.Helper()
	c := w.claim(name, class)
	c.Labels[corev1.LabelInstanceTypeStable] = kind
	w.must(w.client.Update(w.Context(), c))
	return c
}

// traits returns the class with the traits that its machines should have now.
func (w *world) traits(c *awsv1.EC2NodeClass) *engine.Class {
	w.Helper()
	traits, err := w.provider.Traits(w.Context(), seen(c))
	w.must(err)
	return &engine.Class{Ref: seen(c).Ref, Traits: traits}
}

// drift returns the reason of a claim's drift, "" if it has not drifted.
func (w *world) drift(c *awsv1.EC2NodeClass, claim *v1.NodeClaim) string {
	w.Helper()
	reason, _ := lifecycle.DriftOf(w.stored(claim), &v1.NodePool{}, w.traits(c), w.clock.Now())
	return reason
}

func (w *world) imageFor(c *awsv1.EC2NodeClass, kind string) string {
	w.Helper()
	image := images.For(c.Status.AMIs, typeOf(w.catalog(c), kind))
	if image == nil {
		w.Fatalf("%s has no image", kind)
	}
	return image.ID
}

func TestTraitsAreWhatTheClassWouldChooseNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetPlacementGroups(awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "cluster"})
	c := w.resolved("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
	})
	w.claimOfType("stored", c, "m5.large")
	class := w.traits(c)
	good := func() *v1.NodeClaim {
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "claim", CreationTimestamp: metav1.NewTime(w.clock.Now()),
			Annotations: map[string]string{
				awsv1.HashAnnotationKey: c.Hash(""), awsv1.HashVersionAnnotationKey: awsv1.HashVersion,
				awsv1.SubnetAnnotationKey: w.zones["us-west-2b"], awsv1.SecurityGroupsAnnotationKey: assortment.SecurityGroups([]string{w.group}),
			},
			Labels: map[string]string{awsv1.PlacementGroupIDLabelKey: "pg-1", corev1.LabelInstanceTypeStable: "m5.large"},
		}}
		claim.Status.ImageID = w.imageFor(c, "m5.large")
		return claim
	}
	for name, test := range map[string]struct {
		change func(*v1.NodeClaim)
		want   string
	}{
		"nothing":             {func(*v1.NodeClaim) {}, ""},
		"the class":           {func(c *v1.NodeClaim) { c.Annotations[awsv1.HashAnnotationKey] = "1" }, aws.NodeClassDrift},
		"the image":           {func(c *v1.NodeClaim) { c.Status.ImageID = "ami-old" }, assortment.AMIDrift},
		"the subnet":          {func(c *v1.NodeClaim) { c.Annotations[awsv1.SubnetAnnotationKey] = "subnet-old" }, assortment.SubnetDrift},
		"one group too many":  {func(c *v1.NodeClaim) { c.Annotations[awsv1.SecurityGroupsAnnotationKey] += ",sg-z" }, assortment.SecurityGroupDrift},
		"the reservation":     {func(c *v1.NodeClaim) { c.Labels[awsv1.ReservationIDLabelKey] = "cr-gone" }, aws.CapacityReservationDrift},
		"the placement group": {func(c *v1.NodeClaim) { c.Labels[awsv1.PlacementGroupIDLabelKey] = "pg-2" }, aws.PlacementGroupDrift},
		"what is not known":   {func(c *v1.NodeClaim) { c.Annotations, c.Labels, c.Status.ImageID = nil, nil, "" }, ""},
	} {
		claim := good()
		test.change(claim)
		if got, message := lifecycle.DriftOf(claim, &v1.NodePool{}, class, w.clock.Now()); got != test.want {
			t.Errorf("%s: reason %q (%s), want %q", name, got, message, test.want)
		}
	}
	if len(w.provider.Repairs()) != 7 {
		t.Errorf("%d repair policies", len(w.provider.Repairs()))
	}
}

// A class has several images. Each machine must have the image that its own type would get.
func TestAMachineHasDriftedIfItsTypeWouldGetAnotherImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	kinds := []string{"m5.large", "m6g.large", "g5.xlarge", "inf2.xlarge", "g5g.xlarge"}
	images := map[string]string{}
	for _, kind := range kinds {
		images[kind] = w.imageFor(c, kind)
	}
	if n := len(slices.Compact(slices.Sorted(maps.Values(images)))); n != len(kinds) {
		t.Fatalf("%d images for %d kinds of machines: %v", n, len(kinds), images)
	}
	for i, kind := range kinds {
		for _, other := range kinds {
			claim := w.claimOfType(strings.ReplaceAll(kind+"-"+other, ".", "-"), c, kind)
			claim.Status.ImageID = images[other]
			w.must(w.client.Status().Update(t.Context(), claim))
			want := assortment.AMIDrift
			if kind == other {
				want = ""
			}
			if i == 0 || kind == other { // one against all others, and each against its own
				if got := w.drift(c, claim); got != want {
					t.Errorf("%s with the image of %s: %q, want %q", kind, other, got, want)
				}
			}
		}
	}
	newer := awstest.Image{ID: "ami-0aa", Name: "newer", Created: w.clock.Now()}
	w.account.SetImages(newer)
	c.Spec.AMISelectorTerms, c.Spec.AMIFamily = []awsv1.AMISelectorTerm{{ID: "ami-0aa"}}, new("AL2023")
	w.resolve(c)
	for _, kind := range []string{"m5-large", "m6g-large"} {
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: kind + "-" + kind}}
		want := assortment.AMIDrift // the class has a new image for it
		if kind == "m6g-large" {
			want = "" // it has none: that is said of its type, not of its image
		}
		if got := w.drift(c, claim); got == assortment.AMIDrift != (want == assortment.AMIDrift) {
			t.Errorf("%s after a new image: %q, want %q", kind, got, want)
		}
	}
}

// node stores the claim's node, with the claim's labels.
func (w *world) node(claim *v1.NodeClaim) {
	w.Helper()
	changed := w.stored(claim)
	w.must(w.client.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + claim.Name, Labels: changed.Labels}}))
	changed.Status.NodeName = "node-" + claim.Name
	w.must(w.client.Status().Update(w.Context(), changed))
}

func (w *world) labelsOfNode(claim *v1.NodeClaim) map[string]string {
	w.Helper()
	node := &corev1.Node{}
	w.must(w.client.Get(w.Context(), nameOf("node-"+claim.Name), node))
	return node.Labels
}

// reserving returns a class with the reservation cr-0123, and a claim whose machine runs in it.
func (w *world) reserving(kind string, ends time.Time) (*awsv1.EC2NodeClass, *v1.NodeClaim) {
	w.Helper()
	w.account.SetReservations(awstest.Reservation{
		ID: "cr-0123", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: kind, Free: 2, Ends: ends, Tags: map[string]string{"use": "yes"},
	})
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "yes"}}}
	})
	w.must(w.client.Status().Update(w.Context(), c))
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"), in(v1.CapacityTypeLabelKey, "reserved"))
	m := w.launch(claim, c)
	if m.Labels[awsv1.ReservationIDLabelKey] != "cr-0123" {
		w.Fatalf("labels %v", m.Labels)
	}
	w.node(claim)
	return c, claim
}

func TestAMachineWhoseReservationEndsRunsOnAsOneOnDemand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c, claim := w.reserving("default", time.Time{})
	w.clean()
	if got := w.drift(c, claim); got != "" || w.stored(claim).Labels[v1.CapacityTypeLabelKey] != "reserved" {
		t.Errorf("while it lasts: drift %q, labels %v", got, w.stored(claim).Labels)
	}
	w.account.EndReservation("cr-0123")
	w.clock.Step(2 * time.Minute)
	w.resolve(c)
	if got := w.drift(c, claim); got != "" || len(c.Status.CapacityReservations) > 0 {
		t.Errorf("before the claim says so: drift %q, reservations %v", got, c.Status.CapacityReservations)
	}
	w.clean()
	for whose, labels := range map[string]map[string]string{"claim": w.stored(claim).Labels, "node": w.labelsOfNode(claim)} {
		_, id := labels[awsv1.ReservationIDLabelKey]
		_, kind := labels[awsv1.ReservationTypeLabelKey]
		_, interruptible := labels[awsv1.ReservationInterruptibleLabelKey]
		if labels[v1.CapacityTypeLabelKey] != "on-demand" || id || kind || interruptible {
			t.Errorf("%s has %v", whose, labels)
		}
	}
	if got := w.drift(c, claim); got != "" {
		t.Errorf("afterwards: drift %q", got)
	}
}

func TestAMachineInAReservationThatTheClassNamesNoMoreHasDrifted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c, claim := w.reserving("default", time.Time{})
	c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "no"}}}
	w.resolve(c)
	w.clean()
	if got := w.drift(c, claim); got != aws.CapacityReservationDrift || w.stored(claim).Labels[v1.CapacityTypeLabelKey] != "reserved" {
		t.Errorf("drift %q, labels %v", got, w.stored(claim).Labels)
	}
}

func TestWithoutTheGateReservationsSellNothingAndKeepTheirMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *aws.Config) { cfg.NoReserved = true })
	w.account.SetReservations(awstest.Reservation{
		ID: "cr-0123", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Free: 2, Tags: map[string]string{"use": "yes"},
	})
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "yes"}}}
	})
	reserved := 0
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.CapacityType != "reserved" {
			continue
		}
		if reserved++; !o.SoldOut {
			t.Errorf("%s sells machines", o.Reservation)
		}
	}
	if reserved == 0 {
		t.Error("what runs in the reservation is not offered any more, and would drift")
	}
}

func TestMachinesInACapacityBlockLeaveBeforeItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ends := w.clock.Now().Add(2 * time.Hour)
	c, claim := w.reserving("capacity-block", ends)
	if list := w.notices(); len(list) > 0 {
		t.Errorf("two hours before its end: %v", list)
	}
	w.clock.Step(81 * time.Minute)
	w.resolve(c)
	w.must(w.client.Status().Update(t.Context(), c))
	list := w.notices()
	if len(list) != 1 || list[0].Kind != engine.NoticeReservationExpiring || string(list[0].Machine) != w.stored(claim).Status.ProviderID {
		t.Fatalf("39 minutes before its end: %v", list)
	}
	w.must(w.acknowledge(list[0]))
	x := lifecycle.Interrupt(&engine.Snapshot{NodeClaims: []*v1.NodeClaim{w.stored(claim)}}, []engine.Notice{{ID: list[0].ID, Machine: list[0].Machine, Kind: list[0].Kind}})
	if len(x) != 1 || !x[0].Leave || x[0].AtOnce {
		t.Errorf("the engine makes of it %+v", x)
	}
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.CapacityType == "reserved" && !o.SoldOut {
			t.Error("machines are still started in it")
		}
	}
	changed := w.stored(claim)
	changed.Finalizers = []string{"example.com/stays"}
	w.must(w.client.Update(t.Context(), changed))
	w.must(w.client.Delete(t.Context(), changed))
	if list := w.notices(); len(list) > 0 {
		t.Errorf("once the claim goes: %v", list)
	}
}

func TestAReservationThatIsTakenBackCountsAsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	c, claim := w.reserving("default", time.Time{})
	_, id, _ := strings.Cut(w.stored(claim).Status.ProviderID, "us-west-2a/")
	w.account.Send(queue, about("EC2 Capacity Reservation Instance Interruption Warning", id))
	if list := w.notices(); len(list) != 1 || list[0].Kind != engine.NoticeReservationInterruption {
		t.Fatalf("notices %v", list)
	}
	_, err := w.provider.Launch(t.Context(), w.claim("b", c, in(v1.CapacityTypeLabelKey, "reserved")), seen(c))
	if sold := (*provider.SoldOutError)(nil); !errors.As(err, &sold) {
		t.Errorf("a launch in it: %v", err)
	}
}

func TestThePartitionThatEC2ChoseIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.SetPlacementGroups(awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "partition", Partitions: 3})
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
	})
	any, own := w.claim("any", c, in(corev1.LabelInstanceTypeStable, "m5.large")), w.claim("own", c, in(corev1.LabelInstanceTypeStable, "m5.large"), in(awsv1.PlacementGroupPartitionLabelKey, "2"))
	for claim, want := range map[*v1.NodeClaim]string{any: "", own: "2"} {
		m := w.launch(claim, c)
		if m.Labels[awsv1.PlacementGroupIDLabelKey] != "pg-1" || m.Labels[awsv1.PlacementGroupPartitionLabelKey] != want {
			t.Errorf("%s: labels %v", claim.Name, m.Labels)
		}
		w.node(claim)
		_, id, _ := strings.Cut(string(m.ID), m.Labels[corev1.LabelTopologyZone]+"/")
		w.account.Place(id, "pg-1", 3)
	}
	w.clean()
	if got := w.stored(any).Labels[awsv1.PlacementGroupPartitionLabelKey] + w.labelsOfNode(any)[awsv1.PlacementGroupPartitionLabelKey]; got != "33" {
		t.Errorf("partitions of claim and node %q, want 3 and 3", got)
	}
	if got := w.stored(own).Labels[awsv1.PlacementGroupPartitionLabelKey]; got != "2" {
		t.Errorf("the partition that was asked for became %q", got)
	}
	if got := w.drift(c, any); got != "" {
		t.Errorf("drift %q", got)
	}
}

func TestSecurityGroupsThatWereChangedByHandAreDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	w.launch(claim, c)
	w.node(claim)
	w.clean()
	if got := w.drift(c, claim); got != "" {
		t.Errorf("at first: drift %q", got)
	}
	for id := range w.account.Machines() {
		w.account.SetGroups(id, w.group, "sg-0ff")
	}
	w.clock.Step(time.Minute)
	w.clean()
	if got := w.drift(c, claim); got != assortment.SecurityGroupDrift {
		t.Errorf("drift %q", got)
	}
}
