package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func event(source, kind, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":"x","source":%q,"detail-type":%q,"account":"1","region":"us-west-2","time":"2026-06-01T11:59:58Z","resources":[],"detail":%s}`, source, kind, detail)
}

func about(kind, instance string) string {
	return event("aws.ec2", kind, fmt.Sprintf(`{"instance-id":%q,"instance-action":"terminate"}`, instance))
}

func withQueue(c *aws.Config) { c.InterruptionQueue = "interruptions" }

// started stores a claim with a machine, without starting one.
func (w *world) started(name, instance string, class *awsv1.EC2NodeClass) *v1.NodeClaim {
	w.Helper()
	c := w.claim(name, class)
	labels := map[string]string{corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "us-west-2a", v1.CapacityTypeLabelKey: "spot"}
	w.record(c, engine.Machine{ID: engine.MachineID("aws:///us-west-2a/" + instance), Labels: labels})
	return c
}

func (w *world) notices() []provider.Notice {
	w.Helper()
	var list []provider.Notice
	for _, source := range w.provider.Sources() {
		from, err := source.Notices(w.Context())
		w.must(err)
		list = append(list, from...)
	}
	return list
}

// acknowledge acknowledges a notice at its source.
func (w *world) acknowledge(n provider.Notice) error {
	var errs []error
	for _, source := range w.provider.Sources() {
		errs = append(errs, source.Acknowledge(w.Context(), n))
	}
	return errors.Join(errs...)
}

// queue returns the source of notices from the queue.
func (w *world) queue() provider.Source {
	return w.provider.Sources()[1]
}

func TestEveryKindOfEventIsHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	c := w.resolved("general", nil)
	w.started("a", "i-0a", c)
	for name, test := range map[string]struct {
		body string
		want string
	}{
		"spot":        {about("EC2 Spot Instance Interruption Warning", "i-0a"), engine.NoticeSpotInterruption},
		"rebalance":   {about("EC2 Instance Rebalance Recommendation", "i-0a"), engine.NoticeRebalance},
		"reservation": {about("EC2 Capacity Reservation Instance Interruption Warning", "i-0a"), engine.NoticeReservationInterruption},
		"stopping":    {event("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-0a","state":"Stopping"}`), engine.NoticeStopping},
		"terminated":  {event("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-0a","state":"terminated"}`), engine.NoticeTerminating},
		"scheduled":   {event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-0a"}]}`), engine.NoticeScheduledChange},
	} {
		w.account.Send(queue, test.body)
		list := w.notices()
		if len(list) != 1 || list[0].Kind != test.want || list[0].Machine != "aws:///us-west-2a/i-0a" {
			t.Errorf("%s: notices %v", name, list)
			continue
		}
		w.must(w.acknowledge(list[0]))
	}
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if want := o.CapacityType == "spot" && o.Zone == "us-west-2a"; o.SoldOut != want {
			t.Errorf("after the interruption %s %s: sold out %t", o.Zone, o.CapacityType, o.SoldOut)
		}
	}
}

func TestMessagesThatMeanNothingDoNoHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	w.started("a", "i-0a", w.resolved("general", nil))
	bodies := []string{
		"not JSON", "[]", `{"version":"1"}`, "{}", event("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-0a","state":"running"}`),
		event("aws.ec2", "Something New", `{"instance-id":"i-0a"}`), event("aws.ec2", "EC2 Spot Instance Interruption Warning", `"x"`),
		event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{}`), event("aws.health", "AWS Health Event", `{"service":"RDS","eventTypeCategory":"scheduledChange"}`),
		event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[]}`), strings.Repeat("x", 100000),
	}
	w.account.Send(queue, bodies...)
	for range 3 {
		if list := w.notices(); len(list) > 0 {
			t.Errorf("notices %v", list)
		}
	}
	if deleted := w.deleted(); deleted != len(bodies) {
		t.Errorf("%d of %d messages were taken off the queue", deleted, len(bodies))
	}
}

// deleted returns the number of messages that were deleted from queues.
func (w *world) deleted() (n int) {
	for _, call := range w.account.Calls("sqs:DeleteMessageBatch") {
		n += strings.Count(string(call.Body), `"ReceiptHandle"`)
	}
	return n
}

func TestAMessageStaysUntilAllThatItSaysIsActedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	c := w.resolved("general", nil)
	w.started("a", "i-0a", c)
	w.started("b", "i-0b", c)
	w.account.Send(queue, event("aws.health", "AWS Health Event",
		`{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-0a"},{"entityValue":"i-0b"},{"entityValue":"i-0c"},{"entityValue":"i-0b"}]}`))
	list := w.notices()
	if len(list) != 3 || list[2].Machine != "i-0c" {
		t.Fatalf("notices %v", list)
	}
	for i, n := range list {
		if deleted := w.deleted(); deleted > 0 {
			t.Errorf("the message is gone after %d of 3 notices", i)
		}
		w.must(w.acknowledge(n))
	}
	if deleted := w.deleted(); deleted != 1 {
		t.Errorf("%d messages were taken off the queue", deleted)
	}
	w.must(w.acknowledge(list[0])) // a second time has no effect
}

// The cloud may take a machine away before its claim names it.
func TestAMessageAboutAMachineThatIsBeingStartedWaitsForItsClaim(t *testing.T) {
	t.Parallel()
	const warning = "EC2 Spot Instance Interruption Warning"
	launch := func(w *world, c *awsv1.EC2NodeClass, name string) (*v1.NodeClaim, engine.Machine) {
		claim := w.claim(name, c, in(corev1.LabelInstanceTypeStable, "m5.large"))
		m, err := w.provider.Launch(w.Context(), w.stored(claim), seen(c))
		w.must(err)
		return claim, m
	}
	name := func(m engine.Machine) string { return string(m.ID[strings.LastIndex(string(m.ID), "/")+1:]) }
	for _, test := range []struct {
		about string
		// before is called before the message is read. It returns the ID of the message's machine.
		before func(w *world, c *awsv1.EC2NodeClass, m engine.Machine) string
		waits  bool
	}{
		{"a machine that was started here", func(_ *world, _ *awsv1.EC2NodeClass, m engine.Machine) string { return name(m) }, true},
		{"a machine that another process started", func(w *world, _ *awsv1.EC2NodeClass, m engine.Machine) string { w.restart(); return name(m) }, true},
		{"a machine that EC2 does not show", func(w *world, _ *awsv1.EC2NodeClass, _ engine.Machine) string {
			w.restart()
			return "i-0123456789abcdef0"
		}, true},
		{"whatever, if EC2 does not say whose it is", func(w *world, _ *awsv1.EC2NodeClass, _ engine.Machine) string {
			w.account.Fail("ec2:DescribeInstances", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
			return w.account.StartMachine(nil)
		}, true},
		{"a stranger", func(w *world, _ *awsv1.EC2NodeClass, _ engine.Machine) string { return w.account.StartMachine(nil) }, false},
		{"a machine whose claim has gone", func(w *world, c *awsv1.EC2NodeClass, _ engine.Machine) string {
			other, m := launch(w, c, "other")
			w.must(w.client.Delete(w.Context(), other))
			return name(m)
		}, false},
		{"a machine of a claim that is going", func(w *world, c *awsv1.EC2NodeClass, m engine.Machine) string {
			claim := w.stored(&v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			claim.Finalizers = []string{"example.com/wait"}
			w.must(w.client.Update(w.Context(), claim))
			w.must(w.client.Delete(w.Context(), claim))
			return name(m)
		}, false},
	} {
		t.Run(test.about, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *aws.Config) { withQueue(c); untried(c) })
			w.account.HandOutAgain()
			queue, c := w.account.NewQueue("interruptions"), w.resolved("general", nil)
			_, m := launch(w, c, "a")
			w.account.Send(queue, about(warning, test.before(w, c, m)))
			for range 2 {
				list, err := w.queue().Notices(t.Context())
				w.must(err)
				if waits := len(list) == 0; waits != test.waits {
					t.Fatalf("notices %v, want the message to wait: %t", list, test.waits)
				}
				for _, n := range list {
					w.must(w.queue().Acknowledge(t.Context(), n))
				}
				if !test.waits {
					break
				}
			}
			if gone := w.deleted() > 0; gone == test.waits {
				t.Errorf("the message is off the queue: %t", gone)
			}
		})
	}
}

func TestAMessageThatWaitedIsHeardOnceTheClaimNamesItsMachine(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *aws.Config) { withQueue(c); untried(c); c.Registry = registry })
	w.account.HandOutAgain()
	queue, c := w.account.NewQueue("interruptions"), w.resolved("general", nil)
	w.started("known", "i-0a", c)
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	m, err := w.provider.Launch(t.Context(), w.stored(claim), seen(c))
	w.must(err)
	w.account.Send(queue, event("aws.health", "AWS Health Event", fmt.Sprintf(
		`{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-0a"},{"entityValue":%q}]}`, m.ID[strings.LastIndex(string(m.ID), "/")+1:])))
	hear := func(want ...engine.MachineID) {
		t.Helper()
		list, err := w.queue().Notices(t.Context())
		w.must(err)
		var heard []engine.MachineID
		for _, n := range list {
			heard = append(heard, n.Machine)
			w.must(w.queue().Acknowledge(t.Context(), n))
		}
		if !slices.Equal(heard, want) {
			t.Fatalf("heard of %v, want %v", heard, want)
		}
	}
	hear("aws:///us-west-2a/i-0a") // the other one is not waited for
	if n := w.deleted(); n > 0 {
		t.Fatal("half of the message is lost")
	}
	w.record(claim, m)
	hear("aws:///us-west-2a/i-0a", m.ID)
	if n := w.deleted(); n != 1 {
		t.Errorf("%d messages were taken off the queue", n)
	}
	if n := gathered(t, registry)["tenon_interruption_unclaimed_messages_total{}"]; n != 0 {
		t.Errorf("%v messages were given up", n)
	}
}

func TestAMessageDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *aws.Config) { withQueue(c); untried(c); c.Registry = registry })
	w.account.HandOutAgain()
	queue, c := w.account.NewQueue("interruptions"), w.resolved("general", nil)
	_, err := w.provider.Launch(t.Context(), w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), seen(c))
	w.must(err)
	w.account.Send(queue, about("EC2 Spot Instance Interruption Warning", "i-0123456789abcdef0"))
	for range 4 {
		if heard := w.hear(); len(heard) > 0 {
			t.Fatalf("heard of %v", heard)
		}
		w.clock.Step(30 * time.Second)
	}
	if heard := w.hear(); len(heard) != 1 || w.deleted() != 1 {
		t.Errorf("heard of %v, %d messages were taken off the queue", heard, w.deleted())
	}
	if n := gathered(t, registry)["tenon_interruption_unclaimed_messages_total{}"]; n != 1 {
		t.Errorf("%v messages were given up, want 1", n)
	}
}

// hear reads the queue until nothing is left, and acknowledges all notices in parallel.
func (w *world) hear() map[engine.MachineID]bool {
	w.Helper()
	heard := map[engine.MachineID]bool{}
	for {
		list, err := w.queue().Notices(w.Context())
		w.must(err)
		if len(list) == 0 {
			return heard
		}
		var group errgroup.Group
		for _, n := range list {
			heard[n.Machine] = true
			group.Go(func() error { return w.queue().Acknowledge(w.Context(), n) })
		}
		w.must(group.Wait())
	}
}

func TestManyMessagesAreReadWithFewCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	c := w.resolved("general", nil)
	var bodies []string
	for i := range 60 {
		id := fmt.Sprintf("i-%04d", i)
		w.started("claim-"+id, id, c)
		bodies = append(bodies, about("EC2 Spot Instance Interruption Warning", id))
	}
	w.account.Send(queue, bodies...)
	if heard := w.hear(); len(heard) != 60 || w.deleted() < 60 {
		t.Errorf("%d machines were heard of, %d messages taken off the queue", len(heard), w.deleted())
	}
	if n := len(w.account.Calls("sqs:DeleteMessageBatch")); n > 30 {
		t.Errorf("%d calls to delete 60 messages", n)
	}
}

// Any fault of the queue is reported with a remedy, stops nothing else, and passes.
func TestTroubleWithTheQueueIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action string
		fault  awstest.Fault
		says   []string
	}{
		"it does not exist":     {"", awstest.Fault{}, []string{"interruptions", "create it, or correct INTERRUPTION_QUEUE"}},
		"it may not be found":   {"sqs:GetQueueUrl", awstest.Fault{Status: 403, Code: "AccessDenied"}, []string{"allow sqs:GetQueueUrl", "AllowInterruptionQueueActions"}},
		"it may not be read":    {"sqs:ReceiveMessage", awstest.Fault{Status: 403, Code: "AccessDenied"}, []string{"interruptions", "allow sqs:ReceiveMessage", "AllowInterruptionQueueActions"}},
		"it was deleted":        {"sqs:ReceiveMessage", awstest.Fault{Code: "AWS.SimpleQueueService.NonExistentQueue"}, []string{"interruptions"}},
		"it does not answer":    {"sqs:ReceiveMessage", awstest.Fault{Status: -1}, []string{"read the interruption queue"}},
		"credentials are stale": {"sqs:ReceiveMessage", awstest.Fault{Status: 403, Code: "ExpiredToken"}, []string{"credentials have expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *aws.Config) { withQueue(c); untried(c) })
			c := w.resolved("general", nil)
			w.started("a", "i-0a", c)
			w.account.SetAilments(awstest.Ailment{ID: "i-0a", System: true, Since: w.clock.Now().Add(-time.Hour)})
			if test.action != "" {
				w.account.NewQueue("interruptions")
				w.account.Fail(test.action, test.fault)
			}
			for range 3 {
				_, err := w.queue().Notices(t.Context())
				for _, says := range test.says {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("%v does not say %q", err, says)
					}
				}
			}
			if n := len(w.account.Calls("sqs:GetQueueUrl")); n > 3 {
				t.Errorf("%d calls to find the queue", n)
			}
			if list, err := w.provider.Sources()[0].Notices(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("meanwhile EC2's checks say %v, %v", list, err)
			}
			w.account.Heal()
			w.account.Send(w.account.NewQueue("interruptions"), about("EC2 Spot Instance Interruption Warning", "i-0a"))
			w.clock.Step(time.Minute)
			if list, err := w.queue().Notices(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("afterwards %v, %v", list, err)
			}
		})
	}
}

// Useless messages that cannot be deleted do not hide the others.
func TestGarbageThatStaysDoesNotHideWhatMatters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	w.started("a", "i-0a", w.resolved("general", nil))
	var bodies []string
	for range 30 {
		bodies = append(bodies, "garbage")
	}
	w.account.Fail("sqs:DeleteMessageBatch", awstest.Fault{Status: 403, Code: "AccessDenied"})
	w.account.Send(queue, append(bodies, about("EC2 Spot Instance Interruption Warning", "i-0a"))...)
	heard := 0
	for range 5 {
		heard += len(w.notices())
	}
	if heard != 1 {
		t.Errorf("heard of %d interruptions", heard)
	}
}

func TestBrokenMachinesAreHeardOfUntilSomebodyActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	for _, id := range []string{"i-0a", "i-0b", "i-0c", "i-0d"} {
		w.started("claim-"+id, id, c)
	}
	long, short := w.clock.Now().Add(-3*time.Minute), w.clock.Now().Add(-time.Minute)
	w.account.SetAilments(
		awstest.Ailment{ID: "i-0a", Instance: true, Since: long}, awstest.Ailment{ID: "i-0b", System: true, Since: short},
		awstest.Ailment{ID: "i-0c", Event: "instance-retirement"}, awstest.Ailment{ID: "i-0f", System: true, Since: long})
	want := []string{"aws:///us-west-2a/i-0a " + engine.NoticeStatusCheck, "aws:///us-west-2a/i-0c " + engine.NoticeScheduledChange}
	for range 2 {
		list := w.notices()
		var got []string
		for _, n := range list {
			got = append(got, string(n.Machine)+" "+n.Kind)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("notices %v, want %v", got, want)
		}
	}
	for _, n := range w.notices() {
		w.must(w.acknowledge(n))
	}
	w.clock.Step(2 * time.Minute) // the second check has now failed for long enough
	if list := w.notices(); len(list) != 1 || list[0].Machine != "aws:///us-west-2a/i-0b" {
		t.Errorf("notices %v", list)
	}
}

// With the dry run of status checks, broken machines are only counted, once each until they recover.
func TestADryRunOfStatusChecksOnlyCounts(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *aws.Config) { c.StatusDryRun, c.Registry = true, registry; withQueue(c) })
	c, queue := w.resolved("general", nil), w.account.NewQueue("interruptions")
	w.started("claim-a", "i-0a", c)
	long := w.clock.Now().Add(-time.Hour)
	sick := awstest.Ailment{ID: "i-0a", Instance: true, System: true, Event: "instance-retirement", Since: long}
	for _, step := range []struct {
		about string
		sick  []awstest.Ailment
		want  float64
	}{
		{"broken", []awstest.Ailment{sick}, 1}, {"still broken", []awstest.Ailment{sick}, 1}, {"well again", nil, 1}, {"broken anew", []awstest.Ailment{sick}, 2},
	} {
		w.account.SetAilments(step.sick...)
		if list := w.notices(); len(list) > 0 {
			t.Errorf("%s: notices %v", step.about, list)
		}
		got := gathered(t, registry)
		for _, category := range []string{"InstanceStatus", "SystemStatus", "EventStatus"} {
			if n := got["karpenter_interruption_instance_status_unhealthy_total{category="+category+"}"]; n != step.want {
				t.Errorf("%s: %s has counted %v, want %v", step.about, category, n, step.want)
			}
		}
		w.clock.Step(2 * time.Minute)
	}
	w.account.Send(queue, about("EC2 Spot Instance Interruption Warning", "i-0a"))
	if list := w.notices(); len(list) != 1 {
		t.Errorf("notices %v: want the interruption, which is no status check", list)
	}
}

func TestStatusThatMayNotBeReadIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account.Fail("ec2:DescribeInstanceStatus", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	for range 3 {
		w.notices()
		w.clock.Step(2 * time.Minute)
	}
	if n := len(w.account.Calls("ec2:DescribeInstanceStatus")); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestNothingIsStoppedInAZoneThatIsBeingLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) { c.EnableZonalShift = true })
	c := w.resolved("general", nil)
	m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"), in(corev1.LabelTopologyZone, "us-west-2a")), c)
	w.account.SetZonalShifts(map[string]time.Time{m.Labels[awsv1.ZoneIDLabelKey]: w.clock.Now().Add(time.Hour)})
	w.notices()
	if err := w.provider.Terminate(t.Context(), m.ID); err == nil || !strings.Contains(err.Error(), "us-west-2a") {
		t.Errorf("got %v", err)
	}
	for _, o := range typeOf(w.catalog(c), "m5.large").Offerings {
		if o.SoldOut != (o.Zone == "us-west-2a") {
			t.Errorf("%s %s: sold out %t", o.Zone, o.CapacityType, o.SoldOut)
		}
	}
	w.account.SetZonalShifts(nil)
	w.clock.Step(time.Minute)
	w.notices()
	w.must(w.provider.Terminate(t.Context(), m.ID))
}
