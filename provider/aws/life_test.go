package aws_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// lives starts n machines at once, has their nodes register, and stops them at once, below EC2's limits. It returns the
// calls to EC2 for each machine, and how long the launches took.
func (w *world) lives(n, atOnce int) (calls float64, took time.Duration) {
	w.Helper()
	network := w.account.NewNetwork()
	for i, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} { // room for all in any zone
		w.account.NewSubnet(network, zone, fmt.Sprintf("10.0.%d.0/19", 32*i), map[string]string{"large": "yes"})
	}
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"large": "yes"}}}
	})
	var claims []*v1.NodeClaim
	for i := range n {
		claims = append(claims, w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge", "c5.large")))
	}
	w.catalog(c)
	w.account.Enforce()
	before, began := w.calls(), time.Now()
	machines := make([]engine.Machine, n)
	w.atOnce(n, atOnce, func(i int) error {
		for {
			m, err := w.provider.Launch(w.Context(), claims[i], seen(c))
			if throttled := (*provider.ThrottledError)(nil); errors.As(err, &throttled) {
				time.Sleep(throttled.RetryAfter)
				continue
			}
			machines[i] = m
			return err
		}
	})
	took = time.Since(began)
	for i, m := range machines {
		changed := engine.Launched(w.stored(claims[i]), m, w.clock.Now())
		changed.Status.NodeName = "node-" + claims[i].Name
		w.must(w.client.Status().Update(w.Context(), changed))
	}
	w.wantOneEach()
	w.clean()
	w.atOnce(n, atOnce, func(i int) error { _, err := w.provider.Machine(w.Context(), machines[i].ID); return err })
	for _, last := range []bool{false, true} {
		w.atOnce(n, atOnce, func(i int) error {
			err := w.provider.Terminate(w.Context(), machines[i].ID)
			if last && errors.Is(err, provider.ErrGone) {
				return nil
			}
			return err
		})
		w.clock.Step(time.Minute)
	}
	if left := len(w.account.Machines()); left > 0 {
		w.Errorf("%d machines are left", left)
	}
	return float64(w.calls()-before) / float64(n), took
}

func (w *world) calls() (n int) {
	for _, call := range w.account.Calls("") {
		if len(call.Action) > 4 && call.Action[:4] == "ec2:" {
			n++
		}
	}
	return n
}

func (w *world) atOnce(n, most int, do func(i int) error) {
	w.Helper()
	var group sync.WaitGroup
	slots := make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			if err := do(i); err != nil {
				w.Errorf("number %d: %v", i, err)
			}
			<-slots
		})
	}
	group.Wait()
}

func TestAHundredMachinesLiveWithFewCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	calls, took := w.lives(100, 100)
	t.Logf("%.2f calls for each machine, launched in %s, %d calls refused", calls, took.Round(time.Millisecond), w.account.Refused())
	if calls > 6 {
		t.Errorf("%.2f calls to EC2 for each machine, want 6 at most", calls)
	}
	if n := w.account.Refused(); n > 0 {
		t.Errorf("%d calls were more than EC2 allows", n)
	}
}

// go test -bench Thousand -benchtime 1x
func BenchmarkAThousandMachinesAtOnce(b *testing.B) {
	for b.Loop() {
		w := newWorld(b, nil)
		calls, took := w.lives(1000, 1000)
		b.ReportMetric(calls, "calls/machine")
		b.ReportMetric(took.Seconds(), "s/launches")
		b.ReportMetric(float64(w.account.Refused()), "refused")
	}
}
