package booking_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/scenario/scenariotest"
)

func conditions(o *autoscalingv1.ProvisioningRequest, at time.Time, kinds ...string) {
	for _, kind := range kinds {
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Because", LastTransitionTime: metav1.NewTime(at)})
	}
}

// A request that has ended stays ended, whatever its other conditions are. Once room was found, it is held.
func TestARequestsPhaseFollowsFromItsConditions(t *testing.T) {
	t.Parallel()
	for kinds, want := range map[string]booking.Phase{
		"": booking.Seeking, "Accepted": booking.Seeking, "Accepted Provisioned": booking.Booked, "Provisioned BookingExpired": booking.Ended,
		"Provisioned CapacityRevoked": booking.Ended, "Provisioned Failed": booking.Ended, "Failed": booking.Ended,
	} {
		o := &autoscalingv1.ProvisioningRequest{}
		conditions(o, time.Time{}, strings.Fields(kinds)...)
		if got := booking.PhaseOf(o); got != want {
			t.Errorf("%q: phase %d, want %d", kinds, got, want)
		}
	}
}

// A request that cannot be served has a reason. It waits for objects that may still be created.
func TestARequestThatCannotBeFollowedSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *engine.Snapshot, o *autoscalingv1.ProvisioningRequest)
		want   string // the reason and a part of the message
		waits  bool
	}{
		"as it is":    {func(*engine.Snapshot, *autoscalingv1.ProvisioningRequest) {}, "", false},
		"no pods":     {func(_ *engine.Snapshot, o *autoscalingv1.ProvisioningRequest) { o.Spec.PodSets = nil }, "InvalidRequest spec.podSets has 0 entries", false},
		"no number":   {func(_ *engine.Snapshot, o *autoscalingv1.ProvisioningRequest) { o.Spec.PodSets[0].Count = 0 }, "InvalidRequest spec.podSets[0].count is 0", false},
		"many pods":   {func(_ *engine.Snapshot, o *autoscalingv1.ProvisioningRequest) { o.Spec.PodSets[0].Count = 1 << 30 }, "InvalidRequest the request is for more than", false},
		"a parameter": {with("colour", "red"), `InvalidRequest class best-effort-atomic-scale-up.autoscaling.x-k8s.io has no parameter "colour"`, false},
		"never":       {with(autoscalingv1.ValidUntilSeconds, "soon"), `InvalidRequest parameter ValidUntilSeconds is "soon"`, false},
		"no retries":  {with(autoscalingv1.NoRetry, "true"), "InvalidRequest", false}, // a parameter of the other class
		"no template": {func(s *engine.Snapshot, _ *autoscalingv1.ProvisioningRequest) { s.PodTemplates = nil }, "FailedToCreatePods there is no PodTemplate", true},
		"none for a minute": {func(s *engine.Snapshot, _ *autoscalingv1.ProvisioningRequest) {
			s.PodTemplates, s.Now = nil, s.Now.Add(time.Minute)
		}, "FailedToCreatePods there is no PodTemplate", false},
	} {
		s := scenariotest.Cluster(t, "pool general", "request r count=3 age=1s")
		c.change(s, s.ProvisioningRequests[0])
		r := booking.Resolve(s)[0]
		if got := r.Reason + " " + r.Message; !strings.HasPrefix(got, c.want) || (c.want == "") != (r.Reason == "") || r.Waits != c.waits || r.Wants(s.Now) != (c.want == "") {
			t.Errorf("%s: %q, waits %t, wants room %t; want %q", name, got, r.Waits, r.Wants(s.Now), c.want)
		}
	}
}

func with(key, value string) func(*engine.Snapshot, *autoscalingv1.ProvisioningRequest) {
	return func(_ *engine.Snapshot, o *autoscalingv1.ProvisioningRequest) {
		o.Spec.Parameters = map[string]string{key: value}
	}
}

// Room for all pods is held for ten minutes, room for fewer pods is not. It is released once it was used, was not used in time, or is gone.
func TestWhatARequestSaysAfterAPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		booked           time.Duration // the time since then; 0 for not yet
		age              time.Duration
		noRetry          bool
		existing, coming int
		come             int // the number of pods that have come
		want             string
	}{
		"nothing":                {age: time.Minute, want: "Waiting CapacityIsNotFound"},
		"room for some":          {age: time.Minute, existing: 2, want: "Waiting CapacityIsNotFound"},
		"room that comes":        {age: time.Minute, existing: 1, coming: 2, want: "Starting CapacityIsStarting"},
		"room for all":           {age: time.Minute, existing: 3, want: "Provisioned CapacityIsFound"},
		"nothing for a week":     {age: 7 * 24 * time.Hour, existing: 2, want: "Failed Expired"},
		"room after a week":      {age: 7 * 24 * time.Hour, existing: 3, want: "Provisioned CapacityIsFound"},
		"nothing, no retry":      {age: time.Minute, noRetry: true, existing: 2, want: "Failed CapacityIsNotFound"},
		"held":                   {age: time.Hour, booked: 9 * time.Minute, existing: 3, want: "Provisioned Because"},
		"held too long":          {age: time.Hour, booked: 10 * time.Minute, existing: 3, want: "Expired CapacityReservationTimeExpired"},
		"its room is gone":       {age: time.Hour, booked: time.Minute, existing: 2, want: "Expired CapacityIsLost"},
		"one has come":           {age: time.Hour, booked: time.Minute, existing: 2, come: 1, want: "Provisioned Because"},
		"all have come":          {age: time.Hour, booked: time.Minute, come: 3, want: "Consumed CapacityBookingConsumed"},
		"all have come, at last": {age: time.Hour, booked: time.Hour, come: 3, want: "Consumed CapacityBookingConsumed"},
	} {
		s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.1", "node n pool=general type=two zone=a", "pods web x3 cpu=100m node=n", "request r count=3 cpu=100m")
		o := s.ProvisioningRequests[0]
		o.CreationTimestamp = metav1.NewTime(s.Now.Add(-c.age))
		if c.noRetry {
			o.Spec.ProvisioningClassName = autoscalingv1.CheckCapacity
			with(autoscalingv1.NoRetry, "true")(s, o)
		}
		if c.booked > 0 {
			conditions(o, s.Now.Add(-c.booked), autoscalingv1.ConditionProvisioned)
		}
		for _, pod := range s.Pods[:c.come] {
			pod.Annotations = map[string]string{autoscalingv1.ConsumeAnnotationKey: "r"}
		}
		r := booking.Resolve(s)[0]
		room := &engine.RequestRoom{Existing: c.existing, Coming: c.coming}
		r.Conclude(room, s.Now)
		if got := string(room.Answer.Progress) + " " + room.Answer.Reason; got != c.want {
			t.Errorf("%s: %s, want %s (%s)", name, got, c.want, room.Answer.Message)
		}
		if unchanged := strings.HasSuffix(c.want, "Because"); unchanged != (room.Status == nil) {
			t.Errorf("%s: to be written: %+v", name, room.Status)
		}
	}
}
