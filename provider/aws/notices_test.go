package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// started records a claim with a machine, without starting one.
func (w *world) started(name, instance string, class *awsv1.EC2NodeClass) *v1.NodeClaim {
	w.Helper()
	c := w.claim(name, class)
	labels := map[string]string{corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "us-west-2a", v1.CapacityTypeLabelKey: "spot"}
	w.record(c, engine.Machine{ID: engine.MachineID("aws:///us-west-2a/" + instance), Labels: labels})
	return c
}

func (w *world) notices() []provider.Notice {
	w.Helper()
	list, err := w.provider.Notices(w.Context())
	w.must(err)
	return list
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
		w.must(w.provider.Acknowledge(t.Context(), list[0]))
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

// deleted counts the messages that were taken off queues.
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
		w.must(w.provider.Acknowledge(t.Context(), n))
	}
	if deleted := w.deleted(); deleted != 1 {
		t.Errorf("%d messages were taken off the queue", deleted)
	}
	w.must(w.provider.Acknowledge(t.Context(), list[0])) // once more does no harm
}

func TestFiveHundredMessagesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	queue := w.account.NewQueue("interruptions")
	c := w.resolved("general", nil)
	var bodies []string
	for i := range 500 {
		id := fmt.Sprintf("i-%04d", i)
		w.started("claim-"+id, id, c)
		bodies = append(bodies, about("EC2 Spot Instance Interruption Warning", id))
	}
	w.account.Send(queue, bodies...)
	heard := map[engine.MachineID]bool{}
	for range 4 {
		list := w.notices()
		acknowledged := make(chan error)
		for _, n := range list {
			heard[n.Machine] = true
			go func() { acknowledged <- w.provider.Acknowledge(t.Context(), n) }()
		}
		for range list {
			w.must(<-acknowledged)
		}
	}
	if len(heard) != 500 || w.deleted() != 500 {
		t.Errorf("%d machines were heard of, %d messages taken off the queue", len(heard), w.deleted())
	}
	if n := len(w.account.Calls("sqs:ReceiveMessage")); n > 80 {
		t.Errorf("%d calls to read 500 messages", n)
	}
}

func TestAQueueThatIsGoneIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withQueue)
	_, err := w.provider.Notices(t.Context())
	if err == nil || !strings.Contains(err.Error(), "interruptions") || !strings.Contains(err.Error(), "INTERRUPTION_QUEUE") {
		t.Errorf("got %v", err)
	}
	w.account.NewQueue("interruptions")
	w.clock.Step(time.Minute)
	w.notices()
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
		w.must(w.provider.Acknowledge(t.Context(), n))
	}
	w.clock.Step(2 * time.Minute) // by now the second check has failed for long
	if list := w.notices(); len(list) != 1 || list[0].Machine != "aws:///us-west-2a/i-0b" {
		t.Errorf("notices %v", list)
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
