package aws_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/awstest"
)

// tryAll launches claims in parallel and stores their machines. It returns the errors of the claims without a machine, by the claim's name.
func (w *world) tryAll(claims []*v1.NodeClaim, class *awsv1.EC2NodeClass) map[string]error {
	w.Helper()
	type result struct {
		claim *v1.NodeClaim
		m     engine.Machine
		err   error
	}
	results := make(chan result)
	for _, c := range claims {
		go func() {
			m, err := w.provider.Launch(w.Context(), c, seen(class))
			results <- result{c, m, err}
		}()
	}
	failed, whose := map[string]error{}, map[engine.MachineID]string{}
	for range claims {
		r := <-results
		if r.err != nil {
			failed[r.claim.Name] = r.err
			continue
		}
		if other := whose[r.m.ID]; other != "" {
			w.Errorf("%s and %s both have machine %s", other, r.claim.Name, r.m.ID)
		}
		whose[r.m.ID] = r.claim.Name
		w.record(r.claim, r.m)
	}
	return failed
}

// equal returns n new claims with the same requirements.
func (w *world) equal(n int, class *awsv1.EC2NodeClass) (out []*v1.NodeClaim) {
	w.Helper()
	for i := range n {
		out = append(out, w.claim(fmt.Sprintf("claim-%d", i), class, in(corev1.LabelInstanceTypeStable, "m5.large"),
			in(corev1.LabelTopologyZone, "us-west-2a"), in(v1.CapacityTypeLabelKey, "on-demand")))
	}
	return out
}

// EC2 may start fewer machines than requested, or none, without an error. Only the claims without a machine get an error.
func TestAFleetThatIsShortWithoutAWord(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		machines int
		lost     bool // the process ends, and another one continues
	}{
		"short": {2, false}, "empty": {0, false}, "short, then a restart": {2, true}, "empty, then a restart": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untried)
			w.account.SetLaunchTime(w.clock.Now())
			c := w.resolved("general", nil)
			claims := w.equal(5, c)
			w.account.Limit(awstest.Offering{}, test.machines, "")
			w.account.Silence()
			failed := w.tryAll(claims, c)
			if len(failed) != 5-test.machines || len(w.account.Machines()) != test.machines {
				t.Fatalf("EC2 started %d machines, %d claims got none: %v", len(w.account.Machines()), len(failed), failed)
			}
			want := []engine.OfferingID{{InstanceType: "m5.large", Zone: "us-west-2a", CapacityType: "on-demand"}}
			for name, err := range failed {
				soldOut := (*provider.SoldOutError)(nil)
				if !errors.As(err, &soldOut) || !slices.Equal(soldOut.Offerings, want) || soldOut.Cause != "UnfulfillableCapacity" {
					t.Errorf("%s: %v, want it sold out", name, err)
				}
			}
			if n := len(w.account.Calls("ec2:CreateFleet")); n > 5*2 {
				t.Errorf("%d calls of CreateFleet", n)
			}
			w.account.Unlimit()
			if test.lost {
				w.restart()
			}
			w.clock.Step(4 * time.Minute)
			w.settle(c)
			w.wantOneEach()
			if n := len(w.account.Calls("ec2:TerminateInstances")); n > 0 {
				t.Errorf("%d calls to terminate machines", n)
			}
		})
	}
}

// A fleet that starts some of its machines each time shows that there is capacity. So no offering counts as sold out, and the claims without
// a machine get the reason.
func TestAFleetThatIsShortEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	w.account.SetLaunchTime(w.clock.Now())
	c := w.resolved("general", nil)
	claims := w.equal(30, c)
	w.account.Ration(1)
	failed := w.tryAll(claims, c)
	if len(failed) == 0 {
		t.Fatal("30 claims have got a machine each, one at a time")
	}
	if n := len(w.account.Machines()); n == 0 || n != 30-len(failed) {
		t.Errorf("EC2 started %d machines, %d claims got none", n, len(failed))
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		launch := (*provider.LaunchError)(nil)
		if err := failed[name]; !errors.As(err, &launch) || launch.Reason != "TooFewInstancesReturned" || !strings.Contains(err.Error(), "EC2 started 1 of ") {
			t.Errorf("%s: %v, want a LaunchError that says what EC2 did", name, err)
		}
	}
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.SoldOut {
			t.Errorf("%s %s is called sold out", o.Zone, o.CapacityType)
		}
	}
	w.account.Unlimit()
	var again []*v1.NodeClaim
	for _, claim := range claims {
		if failed[claim.Name] != nil {
			again = append(again, w.stored(claim))
		}
	}
	if failed := w.tryAll(again, c); len(failed) > 0 {
		t.Errorf("the next time %d claims got none: %v", len(failed), failed)
	}
	w.wantOneEach()
}
