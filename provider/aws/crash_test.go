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
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/awstest"
)

// settle acts like the controllers for some minutes: it launches claims without a machine, and terminates machines without a claim.
func (w *world) settle(class *awsv1.EC2NodeClass) {
	w.Helper()
	for range 12 {
		var claims v1.NodeClaimList
		w.must(w.client.List(w.Context(), &claims))
		for i := range claims.Items {
			c := &claims.Items[i]
			if c.Status.ProviderID != "" {
				continue
			}
			if m, err := w.provider.Launch(w.Context(), c, seen(class)); err == nil {
				w.record(c, m)
			}
		}
		machines, err := w.provider.Machines(w.Context())
		if err == nil {
			w.must(w.client.List(w.Context(), &claims))
			var list []*v1.NodeClaim
			for i := range claims.Items {
				list = append(list, &claims.Items[i])
			}
			for _, orphan := range lifecycle.Orphans(list, nil, machines, "", w.clock.Now()) {
				if err := w.provider.Terminate(w.Context(), orphan.Machine.ID); err != nil && !errors.Is(err, provider.ErrGone) {
					w.Log(err)
				}
			}
		}
		w.clock.Step(10 * time.Second)
	}
}

// wantOneEach checks that each claim has a machine of its own, and that no other machine runs.
func (w *world) wantOneEach() {
	w.Helper()
	var claims v1.NodeClaimList
	w.must(w.client.List(w.Context(), &claims))
	recorded := map[string]string{}
	for _, c := range claims.Items {
		id := c.Status.ProviderID
		if id == "" || recorded[id] != "" {
			w.Errorf("claim %s has machine %q, which %q has too", c.Name, id, recorded[id])
		}
		recorded[id] = c.Name
	}
	running := w.account.Machines()
	for id, i := range running {
		if recorded["aws:///"+*i.Placement.AvailabilityZone+"/"+id] == "" {
			w.Errorf("machine %s belongs to nobody", id)
		}
	}
	if len(running) != len(claims.Items) {
		w.Errorf("%d machines for %d claims: %v", len(running), len(claims.Items), slices.Sorted(maps.Keys(running)))
	}
}

// The process ends after any of a launch's calls, before its answer arrives, or after it without writing anything to the claim.
func TestAfterACrashMachinesEqualClaims(t *testing.T) {
	t.Parallel()
	lost := awstest.Fault{Status: -1, Done: true}
	for name, crash := range map[string]func(w *world, claims []*v1.NodeClaim, c *awsv1.EC2NodeClass){
		"before the templates": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Fail("ec2:CreateLaunchTemplate", awstest.Fault{Status: -1})
		},
		"after the templates": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Fail("ec2:CreateLaunchTemplate", lost)
		},
		"before the fleet": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Fail("ec2:CreateFleet", awstest.Fault{Status: -1})
		},
		"after the fleet": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) { w.account.Fail("ec2:CreateFleet", lost) },
		"after a fleet that lags": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Hide(2)
			w.account.Fail("ec2:CreateFleet", lost)
		},
		"after a fleet shown late": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Hide(9)
			w.account.Fail("ec2:CreateFleet", lost)
		},
		"after a partial fleet": func(w *world, _ []*v1.NodeClaim, _ *awsv1.EC2NodeClass) {
			w.account.Limit(awstest.Offering{InstanceType: "m5.large"}, 2, "")
			w.account.Fail("ec2:CreateFleet", lost)
		},
		"before it is written down": func(*world, []*v1.NodeClaim, *awsv1.EC2NodeClass) {},
		"while one is written down": func(w *world, claims []*v1.NodeClaim, c *awsv1.EC2NodeClass) { w.launch(claims[0], c) },
	} {
		for _, restarts := range []bool{true, false} {
			if !restarts && !strings.HasPrefix(name, "after a") {
				continue // the process goes on: the case is about lost answers
			}
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				w.account.SetLaunchTime(w.clock.Now())
				c := w.resolved("general", nil)
				var claims []*v1.NodeClaim
				for i := range 5 {
					claims = append(claims, w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), in(v1.CapacityTypeLabelKey, "on-demand")))
				}
				crash(w, claims, c)
				done := make(chan struct{})
				for _, claim := range claims {
					go func() {
						_, _ = w.provider.Launch(w.Context(), claim, seen(c)) // the result is lost
						done <- struct{}{}
					}()
				}
				for range claims {
					<-done
				}
				if restarts {
					w.restart()
				}
				w.account.Heal()
				w.settle(c)
				w.wantOneEach()
				// Machines that EC2 shows in time are used. Only machines that it shows later were started twice.
				if n := len(w.account.Calls("ec2:TerminateInstances")); n > 0 && name != "after a fleet shown late" {
					w.Errorf("%d calls to terminate machines that were started for claims", n)
				}
			})
		}
	}
}

func TestAMachineThatWasStartedIsThereBeforeEC2ShowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.account.Hide(4)
	m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	for range 3 {
		if _, err := w.provider.Machine(t.Context(), m.ID); err != nil {
			t.Errorf("a machine that was started a moment ago: %v", err)
		}
		if list, err := w.provider.Machines(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%d machines are listed, %v", len(list), err)
		}
	}
	for id := range w.account.Machines() {
		w.account.Kill(id)
	}
	if _, err := w.provider.Machine(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("a machine that was killed outside: %v, want ErrGone", err)
	}
	if err := w.provider.Terminate(t.Context(), m.ID); err != nil && !errors.Is(err, provider.ErrGone) {
		t.Error(err)
	}
}

func TestTroubleOfEC2IsPassedOn(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]awstest.Fault{
		"internal error": {Status: 500, Code: "InternalError", Message: "An internal error has occurred"},
		"unavailable":    {Status: 503, Code: "ServiceUnavailable"},
		"no answer":      {Status: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("general", nil)
			m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
			for _, action := range []string{"ec2:DescribeInstances", "ec2:TerminateInstances"} {
				w.account.Fail(action, fault)
			}
			if _, err := w.provider.Machine(t.Context(), m.ID); err == nil || errors.Is(err, provider.ErrGone) {
				t.Errorf("machine: %v, want an error other than ErrGone", err)
			}
			if _, err := w.provider.Machines(t.Context()); err == nil {
				t.Error("a list of machines that EC2 did not give")
			}
			if err := w.provider.Terminate(t.Context(), m.ID); err == nil || errors.Is(err, provider.ErrGone) {
				t.Errorf("terminate: %v, want an error other than ErrGone", err)
			}
			w.account.Heal()
			if err := w.provider.Terminate(t.Context(), m.ID); err != nil {
				t.Errorf("terminate: %v", err)
			}
		})
	}
}

// EC2 in the wrong region does not know the machine. This does not mean that the machine is gone.
func TestAMachineOfAnotherRegionIsNotGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const id = "aws:///eu-west-1a/i-0123456789abcdef0"
	_, err := w.provider.Machine(t.Context(), id)
	for _, err := range []error{err, w.provider.Terminate(t.Context(), id), w.provider.Release(t.Context(), id)} {
		if err == nil || errors.Is(err, provider.ErrGone) || !strings.Contains(err.Error(), "AWS_REGION") {
			t.Errorf("%v, want an error that names AWS_REGION", err)
		}
	}
}
