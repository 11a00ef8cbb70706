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
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
)

// begun are machines that were started in parallel.
type begun struct {
	claims   []*v1.NodeClaim
	machines []engine.Machine
	calls    int // to EC2, before
	// took is the duration of the launches. allowed is the shortest duration that EC2's limits permit for them.
	took, allowed time.Duration
}

// begin starts n machines in parallel under EC2's limits. Before that, it starts `others` machines, which are not measured.
func (w *world) begin(others, n, atOnce int) (x begun) {
	w.Helper()
	network := w.account.NewNetwork()
	for i, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} { // room for all in any zone
		w.account.NewSubnet(network, zone, fmt.Sprintf("10.0.%d.0/19", 32*i), map[string]string{"large": "yes"})
	}
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"large": "yes"}}}
	})
	for i := range others + n {
		x.claims = append(x.claims, w.claim(fmt.Sprintf("claim-%d", i), c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge", "c5.large")))
	}
	w.catalog(c)
	w.account.Enforce()
	x.calls, x.machines = w.calls(), make([]engine.Machine, others+n)
	launch := func(i int) error {
		for {
			m, err := w.provider.Launch(w.Context(), x.claims[i], seen(c))
			if throttled := (*provider.ThrottledError)(nil); errors.As(err, &throttled) {
				time.Sleep(throttled.RetryAfter)
				continue
			}
			x.machines[i] = m
			return err
		}
	}
	w.atOnce(others, atOnce, launch)
	least, began := w.account.Meter(), time.Now()
	w.atOnce(n, atOnce, func(i int) error { return launch(others + i) })
	x.took, x.allowed = time.Since(began), least()
	return x
}

// lives starts n machines in parallel, registers their nodes, and stops them in parallel, under EC2's limits. It returns the calls to EC2 per
// machine, and the result of the launches.
func (w *world) lives(n, atOnce int) (calls float64, x begun) {
	w.Helper()
	x = w.begin(0, n, atOnce)
	for i, m := range x.machines {
		changed := lifecycle.Launched(w.stored(x.claims[i]), m, w.clock.Now())
		changed.Status.NodeName = "node-" + x.claims[i].Name
		w.must(w.client.Status().Update(w.Context(), changed))
	}
	w.wantOneEach()
	w.clean()
	w.atOnce(n, atOnce, func(i int) error { _, err := w.provider.Machine(w.Context(), x.machines[i].ID); return err })
	for _, last := range []bool{false, true} {
		w.atOnce(n, atOnce, func(i int) error {
			err := w.provider.Terminate(w.Context(), x.machines[i].ID)
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
	return float64(w.calls()-x.calls) / float64(n), x
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
	w := newWorld(t, untilThereAre(100))
	calls, x := w.lives(100, 100)
	t.Logf("%.2f calls for each machine, launched in %s, %d calls refused", calls, x.took.Round(time.Millisecond), w.account.Refused())
	if calls > 6 {
		t.Errorf("%.2f calls to EC2 for each machine, want 6 at most", calls)
	}
	if x.allowed != 0 {
		t.Errorf("a hundred machines are said to take %s by EC2's limits, which let a thousand be started at once", x.allowed)
	}
	if n := w.account.Refused(); n > 0 {
		t.Errorf("%d calls were more than EC2 allows", n)
	}
}

// An account without recent launches may start a thousand machines immediately: EC2's limits require no wait, so the launches take only the
// time of the calls, including moto's. After a hundred other launches, the limits require most of a minute. The benchmark reports how many times
// longer the launches took than the limits require; it should be at most 1.2. The case "lives" also tags and stops the machines, so it takes
// minutes.
//
//	go test -run '^$' -bench Thousand -benchtime 1x
func BenchmarkAThousandMachinesAtOnce(b *testing.B) {
	report := func(b *testing.B, w *world, x begun) {
		b.ReportMetric(x.took.Seconds(), "s/launches")
		b.ReportMetric(x.allowed.Seconds(), "s/allowed")
		if x.allowed > 0 {
			b.ReportMetric(x.took.Seconds()/x.allowed.Seconds(), "launches/allowed")
		}
		b.ReportMetric(float64(w.account.Refused()), "refused")
	}
	b.Run("lives", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b, nil)
			calls, x := w.lives(1000, 1000)
			b.ReportMetric(calls, "calls/machine")
			report(b, w, x)
		}
	})
	b.Run("after-100", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b, nil)
			x := w.begin(100, 1000, 1000)
			report(b, w, x)
			if n := len(w.account.Machines()); n != len(x.claims) {
				b.Errorf("%d machines for %d claims", n, len(x.claims))
			}
		}
	})
}
