package aws_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/batch"
	"tenon.sh/provider/providertest"
)

func in(key string, values ...string) v1.Requirement {
	return v1.Requirement{Key: key, Operator: v1.In, Values: values}
}

// claim stores a claim.
func (w *world) claim(name string, class *awsv1.EC2NodeClass, requirements ...v1.Requirement) *v1.NodeClaim {
	w.Helper()
	c := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{v1.NodePoolLabelKey: "general"}},
		Spec: v1.NodeClaimSpec{
			NodeClassRef: &v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: class.Name},
			Requirements: requirements,
		},
	}
	w.must(w.client.Create(w.Context(), c))
	return c
}

// stored returns the claim from the API server.
func (w *world) stored(c *v1.NodeClaim) *v1.NodeClaim {
	w.Helper()
	out := &v1.NodeClaim{}
	w.must(w.client.Get(w.Context(), nameOf(c.Name), out))
	return out
}

// launch starts the claim's machine and writes its status, like the controllers.
func (w *world) launch(c *v1.NodeClaim, class *awsv1.EC2NodeClass) engine.Machine {
	w.Helper()
	m, err := w.provider.Launch(w.Context(), w.stored(c), seen(class))
	w.must(err)
	w.record(c, m)
	return m
}

func (w *world) record(c *v1.NodeClaim, m engine.Machine) {
	w.Helper()
	changed := lifecycle.Launched(w.stored(c), m, w.clock.Now())
	w.must(w.client.Update(w.Context(), changed))
	changed = lifecycle.Launched(w.stored(c), m, w.clock.Now())
	w.must(w.client.Status().Update(w.Context(), changed))
}

func TestAMachineIsWhatTheClaimAndItsClassSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"team": "a"} })
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), in(v1.CapacityTypeLabelKey, v1.CapacityTypeOnDemand))
	m := w.launch(claim, c)

	if m.Labels[corev1.LabelInstanceTypeStable] != "m5.large" || m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand || m.Labels[awsv1.ZoneIDLabelKey] == "" ||
		m.Labels[awsv1.FamilyLabelKey] != "m5" || !strings.HasPrefix(string(m.ID), "aws:///us-west-2") || m.ImageID == "" || m.ClaimUID != "a-uid" {
		t.Errorf("machine %+v", m)
	}
	for key, want := range map[string]string{
		awsv1.HashVersionAnnotationKey: awsv1.HashVersion, awsv1.InstanceProfileAnnotationKey: c.Status.InstanceProfile,
		awsv1.SubnetAnnotationKey: w.zones[m.Labels[corev1.LabelTopologyZone]], awsv1.SecurityGroupsAnnotationKey: w.group,
	} {
		if m.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, m.Annotations[key], want)
		}
	}
	running := w.account.Machines()
	if len(running) != 1 {
		t.Fatalf("%d machines run", len(running))
	}
	token := w.stored(claim).Annotations[v1.LaunchTokenAnnotationKey]
	for _, i := range running {
		tags := map[string]string{}
		for _, tag := range i.Tags {
			tags[*tag.Key] = *tag.Value
		}
		for key, want := range map[string]string{
			"team": "a", "kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", v1.NodePoolLabelKey: "general",
			awsv1.NodeClassLabelKey: "general", v1.LaunchTokenAnnotationKey: token,
		} {
			if tags[key] != want || want == "" {
				t.Errorf("tag %s is %q, want %q", key, tags[key], want)
			}
		}
	}
	fleet := w.account.Calls("ec2:CreateFleet")[0].Form
	for key, want := range map[string]string{
		"Type": "instant", "TargetCapacitySpecification.DefaultTargetCapacityType": "on-demand", "OnDemandOptions.AllocationStrategy": "lowest-price",
		"TagSpecification.2.ResourceType": "volume", "TagSpecification.3.ResourceType": "fleet",
	} {
		if fleet.Get(key) != want {
			t.Errorf("CreateFleet: %s is %q, want %q", key, fleet.Get(key), want)
		}
	}
	if got, err := w.provider.Machine(t.Context(), m.ID); err != nil || got.ClaimUID != "a-uid" || got.Annotations[awsv1.SecurityGroupsAnnotationKey] != w.group {
		t.Errorf("machine later: %+v, %v", got, err)
	}
}

func TestEqualClaimsAreStartedByOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untilThereAre(100))
	c := w.resolved("general", nil)
	var claims []*v1.NodeClaim
	for i := range 100 {
		claims = append(claims, w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large")))
	}
	w.account.Enforce()
	rehearsed := len(w.account.Calls("ec2:CreateFleet"))
	ids := w.launchAll(claims, c)
	if len(ids) != 100 || len(w.account.Machines()) != 100 {
		t.Errorf("%d claims have a machine of their own, %d machines run", len(ids), len(w.account.Machines()))
	}
	if n := len(w.account.Calls("ec2:CreateFleet")) - rehearsed; n != 1 {
		t.Errorf("%d calls of CreateFleet for 100 equal claims", n)
	}
	if n := w.account.Refused(); n > 0 {
		t.Errorf("%d calls were more than EC2 allows", n)
	}
}

// untilThereAre makes each claim wait until there are n equal claims, so that the number of calls does not depend on the machine's speed.
func untilThereAre(n int) func(*aws.Config) {
	return func(c *aws.Config) { c.LaunchWindow = batch.Window{Idle: time.Minute, Most: time.Minute, Items: n} }
}

// launchAll launches claims in parallel, and returns the different machines that they got.
func (w *world) launchAll(claims []*v1.NodeClaim, class *awsv1.EC2NodeClass) map[engine.MachineID]string {
	w.Helper()
	type result struct {
		name string
		m    engine.Machine
		err  error
	}
	results := make(chan result)
	for _, c := range claims {
		go func() {
			m, err := w.provider.Launch(w.Context(), c, seen(class))
			results <- result{c.Name, m, err}
		}()
	}
	ids := map[engine.MachineID]string{}
	for range claims {
		r := <-results
		if r.err != nil {
			w.Errorf("launch %s: %v", r.name, r.err)
			continue
		}
		ids[r.m.ID] = r.name
	}
	return ids
}

func TestSpotFallsBackToOnDemandInTheSameCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.account.Limit(awstest.Offering{CapacityType: "spot"}, 0, "")
	m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	if m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand {
		t.Errorf("machine %v", m.Labels)
	}
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.SoldOut != (o.CapacityType == v1.CapacityTypeSpot) {
			t.Errorf("%s %s: sold out %t", o.Zone, o.CapacityType, o.SoldOut)
		}
	}
}

func TestAPartialFleetIsDealtAndTheRestFallsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.account.Limit(awstest.Offering{InstanceType: "m5.large"}, 3, "")
	var claims []*v1.NodeClaim
	for i := range 8 {
		claims = append(claims, w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), in(v1.CapacityTypeLabelKey, "on-demand")))
	}
	if ids := w.launchAll(claims, c); len(ids) != 8 || len(w.account.Machines()) != 8 {
		t.Errorf("%d claims have a machine, %d run", len(ids), len(w.account.Machines()))
	}
	kinds := map[string]int{}
	for _, i := range w.account.Machines() {
		kinds[string(i.InstanceType)]++
	}
	if kinds["m5.large"] != 3 || kinds["m5.xlarge"] != 5 {
		t.Errorf("machines %v", kinds)
	}
}

func TestARefusalIsNamed(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
		"MaxFleetCountExceeded", "ReservationCapacityExceeded", "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("general", nil)
			w.account.Limit(awstest.Offering{}, 0, code)
			claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"), in(corev1.LabelTopologyZone, "us-west-2a"), in(v1.CapacityTypeLabelKey, "spot"))
			_, err := w.provider.Launch(t.Context(), claim, seen(c))
			soldOut := (*provider.SoldOutError)(nil)
			want := []engine.OfferingID{{InstanceType: "m5.large", Zone: "us-west-2a", CapacityType: "spot"}}
			if !errors.As(err, &soldOut) || soldOut.Cause != code || !slices.Equal(soldOut.Offerings, want) {
				t.Errorf("got %v", err)
			}
		})
	}
	for code, want := range map[string]string{
		"PendingVerification": "AccountPendingVerification", "InvalidAMIID.NotFound": "AMINotFound", "InternalError": "InternalError",
		"UnauthorizedOperation": "Unauthorized", "SomethingNew": "LaunchFailed",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("general", nil)
			w.account.Limit(awstest.Offering{}, 0, code)
			_, err := w.provider.Launch(t.Context(), w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), seen(c))
			if launch := (*provider.LaunchError)(nil); !errors.As(err, &launch) || launch.Reason != want {
				t.Errorf("got %v, want reason %s", err, want)
			}
		})
	}
}

func TestAFailedCallIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action string
		fault  awstest.Fault
		want   func(error) string
	}{
		"throttled": {"ec2:CreateFleet", awstest.Fault{Status: 503, Code: "RequestLimitExceeded"}, func(err error) string {
			if throttled := (*provider.ThrottledError)(nil); !errors.As(err, &throttled) || throttled.RetryAfter < time.Second {
				return "want a ThrottledError"
			}
			return ""
		}},
		"denied":          {"ec2:CreateFleet", awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized."}, launchError("Unauthorized", "ec2:CreateFleet", "AllowScopedEC2InstanceAccessActions")},
		"denied template": {"ec2:CreateLaunchTemplate", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"}, launchError("Unauthorized", "ec2:CreateLaunchTemplate")},
		"profile":         {"ec2:CreateFleet", awstest.Fault{Code: "InvalidParameterValue", Message: "Value (x) for parameter iamInstanceProfile.name is invalid."}, launchError("InstanceProfileNameInvalid")},
		"networks":        {"ec2:CreateFleet", awstest.Fault{Code: "InvalidParameter", Message: "Security group sg-1 and subnet subnet-1 belong to different networks."}, launchError("SecurityGroupSubnetVPCMismatch")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("general", nil)
			w.account.Fail(test.action, test.fault)
			claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
			_, err := w.provider.Launch(t.Context(), claim, seen(c))
			if problem := test.want(err); problem != "" {
				t.Fatalf("got %v: %s", err, problem)
			}
			w.account.Heal()
			w.launch(claim, c) // it is known that no machine was started
			if n := len(w.account.Machines()); n != 1 {
				t.Errorf("%d machines", n)
			}
		})
	}
}

func launchError(reason string, parts ...string) func(error) string {
	return func(err error) string {
		launch := (*provider.LaunchError)(nil)
		if !errors.As(err, &launch) || launch.Reason != reason {
			return "want a LaunchError with reason " + reason
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				return "it does not name " + part
			}
		}
		return ""
	}
}

func TestATemplateThatWasDeletedOutsideIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	made := len(w.account.Calls("ec2:CreateLaunchTemplate"))
	w.launch(w.claim("b", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	if n := len(w.account.Calls("ec2:CreateLaunchTemplate")); n != made || made != 1 {
		t.Errorf("%d templates for two equal claims", n)
	}
	w.account.LoseTemplates()
	w.launch(w.claim("c", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	if n := len(w.account.Machines()); n != 3 {
		t.Errorf("%d machines", n)
	}
}

func TestAFullSubnetIsLeftForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	network := w.account.NewNetwork()
	tags := map[string]string{"pair": "yes"}
	large, small := w.account.NewSubnet(network, "us-west-2a", "10.0.0.0/20", tags), w.account.NewSubnet(network, "us-west-2a", "10.0.32.0/24", tags)
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"pair": "yes"}}}
	})
	launch := func(name string) string {
		return w.launch(w.claim(name, c, in(corev1.LabelInstanceTypeStable, "m5.large")), c).Annotations[awsv1.SubnetAnnotationKey]
	}
	if got := launch("a"); got != large {
		t.Errorf("the first machine is in %s, want the larger subnet %s", got, large)
	}
	w.account.FillSubnet(large)
	if got := launch("b"); got != small {
		t.Errorf("the second machine is in %s, want %s", got, small)
	}
	w.account.FillSubnet(small)
	_, err := w.provider.Launch(t.Context(), w.claim("c", c, in(corev1.LabelInstanceTypeStable, "m5.large")), seen(c))
	if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || soldOut.Cause != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("got %v", err)
	}
}

func TestASoldOutStormCausesNoStormOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.account.Limit(awstest.Offering{}, 0, "")
	storm := func(round int) int {
		before := len(w.account.Calls("ec2:CreateFleet"))
		errs := make(chan error)
		for i := range 100 {
			// Each claim has other requirements, so that no two share a call.
			claim := w.claim(fmt.Sprintf("claim-%d-%d", round, i), c, in(corev1.LabelInstanceTypeStable, "m5.large"), in(corev1.LabelTopologyZone, "us-west-2a"),
				in(v1.CapacityTypeLabelKey, "on-demand"), in("example.com/number", fmt.Sprint(i)))
			go func() {
				_, err := w.provider.Launch(w.Context(), claim, seen(c))
				errs <- err
			}()
		}
		for range 100 {
			if soldOut := (*provider.SoldOutError)(nil); !errors.As(<-errs, &soldOut) {
				t.Error("want a SoldOutError")
			}
		}
		return len(w.account.Calls("ec2:CreateFleet")) - before
	}
	storm(0)
	w.clock.Step(4 * time.Minute) // the marks are over, the memory is not
	if n := storm(1); n > 3 {
		t.Errorf("%d calls for an offering that was sold out a moment ago", n)
	}
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		reservation := awstest.Reservation{ID: "cr-0123", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Free: 2, Tags: map[string]string{"use": "yes"}}
		w := newWorld(t, nil)
		w.account.SetReservations(reservation)
		reserving := func(c *awsv1.EC2NodeClass) {
			c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "yes"}}}
		}
		c := w.resolved("general", reserving)
		broken := w.class("broken", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-0000"}} })
		w.resolve(broken)
		return providertest.Fixture{
			Provider: w.provider, Class: seen(c), NotReady: seen(broken),
			NewClaim: func(t *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
				claim := w.claim(name, c, requirements...)
				claim.Spec.Resources.Requests = requests
				return claim
			},
			Settle: func(t *testing.T) {
				w.clock.Step(time.Minute)
				for id := range w.gone() {
					if err := w.provider.Terminate(t.Context(), id); !errors.Is(err, provider.ErrGone) {
						t.Errorf("%s: %v", id, err)
					}
				}
				w.clock.Step(time.Minute)
			},
			SellOut: func(t *testing.T, offerings ...engine.OfferingID) {
				for _, o := range offerings {
					w.account.Limit(awstest.Offering{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}, 0, "")
				}
			},
		}
	})
}

// gone returns the machines that a request has terminated and that EC2 does not list any more.
func (w *world) gone() map[engine.MachineID]bool {
	out := map[engine.MachineID]bool{}
	for _, call := range w.account.Calls("ec2:TerminateInstances") {
		for _, id := range call.List("InstanceId") {
			for zone := range w.zones {
				machine := engine.MachineID("aws:///" + zone + "/" + id)
				if _, err := w.provider.Machine(context.Background(), machine); errors.Is(err, provider.ErrGone) {
					out[machine] = true
				}
			}
		}
	}
	return out
}
