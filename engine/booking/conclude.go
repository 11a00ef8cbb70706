package booking

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
)

// bookedUntil returns the time until which room is held for a request that has room. It returns the zero value if there is none.
func bookedUntil(o *autoscalingv1.ProvisioningRequest) time.Time {
	if p := apimeta.FindStatusCondition(o.Status.Conditions, autoscalingv1.ConditionProvisioned); p != nil {
		return p.LastTransitionTime.Add(heldFor)
	}
	return time.Time{}
}

func isFailed(o *autoscalingv1.ProvisioningRequest) bool {
	return apimeta.IsStatusConditionTrue(o.Status.Conditions, autoscalingv1.ConditionFailed)
}

// Wants reports whether plans have to find places for the request's pods.
func (r *Request) Wants(now time.Time) bool {
	return r.Phase != Ended && r.Reason == "" && r.Size > 0 && (r.Phase == Seeking || now.Before(r.until))
}

// Conclude computes the request's status after a plan that has found the room in room. room.Status stays nil if the status does not change.
func (r *Request) Conclude(room *engine.RequestRoom, now time.Time) {
	room.Problem = r.Message
	defer func() { room.Answer = r.answer(room) }()
	if r.Phase == Ended || r.Waits {
		return
	}
	c := conclusion{status: r.Object.Status.DeepCopy(), generation: r.Object.Generation, now: now}
	switch {
	case r.Phase == Booked:
		r.keep(&c, room)
	case r.Reason != "":
		c.say(autoscalingv1.ConditionFailed, metav1.ConditionTrue, r.Reason, r.Message)
	default:
		r.seek(&c, room)
	}
	if c.changed {
		room.Status = c.status
	}
}

// keep computes the next status of a request for which room is held.
func (r *Request) keep(c *conclusion, room *engine.RequestRoom) {
	reason, message := "", ""
	switch {
	case r.Reason != "":
		reason, message = autoscalingv1.CapacityIsLost, "nobody knows for what room is to be held: "+r.Message
	case r.Size == 0:
		reason, message = autoscalingv1.CapacityBookingSpent, "all pods of the request have a node"
	case !c.now.Before(r.until):
		reason, message = autoscalingv1.ReservationExpired, fmt.Sprintf("room was held for %s, and %s have not come: those that come now are served like any other pods",
			heldFor, engine.Plural(r.Size, "pod"))
	case room.Existing < r.Size:
		reason = autoscalingv1.CapacityIsLost
		message = fmt.Sprintf("nodes have gone or other pods run there, and there is room for %d of %s: those that come now are served like any other pods", room.Existing, engine.Plural(r.Size, "pod"))
	default:
		return
	}
	c.say(autoscalingv1.ConditionBookingExpired, metav1.ConditionTrue, reason, message)
}

// seek computes the next status of a request for which room is looked for.
func (r *Request) seek(c *conclusion, room *engine.RequestRoom) {
	c.say(autoscalingv1.ConditionAccepted, metav1.ConditionTrue, autoscalingv1.Accepted, "Tenon looks for room for it")
	was := apimeta.FindStatusCondition(c.status.Conditions, autoscalingv1.ConditionProvisioned)
	switch {
	case room.Existing == r.Size:
		reason, message := autoscalingv1.CapacityIsFound, "nodes have room"
		if was != nil && r.Buys() {
			reason, message = autoscalingv1.CapacityIsBought, "machines were started, and nodes have room"
		}
		until := c.now.Add(heldFor).UTC().Format(time.RFC3339)
		c.say(autoscalingv1.ConditionProvisioned, metav1.ConditionTrue, reason, fmt.Sprintf("%s for %s; it is held until %s", message, engine.Plural(r.Size, "pod"), until))
		c.status.ProvisioningClassDetails = map[string]string{autoscalingv1.BookedUntil: until}
	case room.Existing+room.Coming == r.Size:
		c.say(autoscalingv1.ConditionProvisioned, metav1.ConditionFalse, autoscalingv1.CapacityIsStarting,
			fmt.Sprintf("of %s, nodes have room for %d, and machines that start for %d", engine.Plural(r.Size, "pod"), room.Existing, room.Coming))
	case r.noRetry:
		c.say(autoscalingv1.ConditionFailed, metav1.ConditionTrue, autoscalingv1.CapacityIsNotFound, r.lacking(room)+"; parameter "+autoscalingv1.NoRetry+" has it not tried again")
	case !c.now.Before(r.validTo):
		c.say(autoscalingv1.ConditionFailed, metav1.ConditionTrue, autoscalingv1.Expired, fmt.Sprintf("%s, and room was looked for until %s: make another request", r.lacking(room), engine.ClockText(r.validTo)))
	default:
		c.say(autoscalingv1.ConditionProvisioned, metav1.ConditionFalse, autoscalingv1.CapacityIsNotFound, r.lacking(room)+"; it is tried again")
	}
}

// lacking describes the room that could be found, and why there is no more.
func (r *Request) lacking(room *engine.RequestRoom) string {
	if !r.Buys() {
		return fmt.Sprintf("nodes have room for %d of %s, and no machine is started for requests of this class", room.Existing, engine.Plural(r.Size, "pod"))
	}
	reasons, text := room.Reasons, "no machine is started, because not all pods would have a place"
	if len(reasons) > 0 && reasons[0].Code == engine.GangIncomplete {
		text = fmt.Sprintf("no machine is started, because of %s %s would have a place", engine.Plural(r.Size, "pod"), reasons[0].Have)
		reasons = reasons[1:]
	}
	if len(reasons) > 0 {
		text += ": " + engine.Sentence(reasons)
	}
	return text
}

// conclusion is a status that is being computed.
type conclusion struct {
	status     *autoscalingv1.ProvisioningRequestStatus
	generation int64
	now        time.Time
	changed    bool
}

func (c *conclusion) say(kind string, value metav1.ConditionStatus, reason, message string) {
	if apimeta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now),
	}) {
		c.changed = true
	}
}
