package report

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
)

// RequestAnswered returns events for a ProvisioningRequest: the result of a plan. The request still has its status from before the plan. If the
// result is unchanged, RequestAnswered returns an event only while the request waits.
func RequestAnswered(o *autoscalingv1.ProvisioningRequest, room *engine.RequestRoom) (out []Event) {
	if room.Status != nil && !apimeta.IsStatusConditionTrue(o.Status.Conditions, autoscalingv1.ConditionAccepted) {
		if c := apimeta.FindStatusCondition(room.Status.Conditions, autoscalingv1.ConditionAccepted); c != nil {
			out = append(out, Event{Object: o, Reason: c.Reason, Message: c.Message})
		}
	}
	a := room.Answer
	waits := a.Progress == engine.RequestWaits
	if a.Reason == "" || room.Status == nil && !waits {
		return out
	}
	e := Event{Object: o, Reason: a.Reason, Message: withAdvice(a.Message, a.Advice), Key: string(a.Progress)}
	if e.Warning = waits || a.Progress == engine.RequestFailed || a.Progress == engine.RequestExpired; waits {
		e.Every = refusalEvery
	}
	return append(out, e)
}

// GangDecided returns an event for a PodGroup: the result of a plan; ok is false if there is no event.
func GangDecided(o *schedulingv1alpha3.PodGroup, room *engine.GangRoom) (e Event, ok bool) {
	e = Event{Object: o, Message: withAdvice(room.Sentence(), room.Advice()), Every: refusalEvery}
	switch room.Progress {
	case engine.GangWaits:
		e.Warning, e.Reason = true, string(engine.GangIncomplete)
		if len(room.Reasons) > 0 {
			e.Reason, e.Message = string(room.Reasons[0].Code), withAdvice(engine.Sentence(room.Reasons), room.Advice())
		}
	case engine.GangTooFew:
		e.Reason = string(engine.GangTooSmall)
		return e, room.Running+room.Left > 0
	case engine.GangStarts:
		e.Reason = GangStarting
	default:
		return Event{}, false
	}
	return e, true
}

func withAdvice(message, advice string) string {
	if advice == "" {
		return message
	}
	return message + "; to do: " + advice
}

// requestReasons are the reasons that this program writes in conditions of ProvisioningRequests; other programs may write other reasons.
var requestReasons = []string{
	"", autoscalingv1.Accepted, autoscalingv1.CapacityIsFound, autoscalingv1.CapacityIsBought, autoscalingv1.CapacityIsNotFound,
	autoscalingv1.CapacityIsStarting, autoscalingv1.FailedToCreatePods, autoscalingv1.InvalidRequest, autoscalingv1.Expired,
	autoscalingv1.ReservationExpired, autoscalingv1.CapacityBookingSpent, autoscalingv1.CapacityIsLost,
}

// Together counts ProvisioningRequests and PodGroups by their state and its reason.
func (m *Metrics) Together(plan *engine.Plan) {
	requests, gangs := map[[2]string]int{}, map[[2]string]int{}
	for i := range plan.ProvisioningRequests {
		a := plan.ProvisioningRequests[i].Answer
		if !slices.Contains(requestReasons, a.Reason) {
			a.Reason = "other"
		}
		requests[[2]string{snake(string(a.Progress)), snake(a.Reason)}]++
	}
	for i := range plan.Gangs {
		room, reason := &plan.Gangs[i], engine.Code("")
		for _, r := range room.Reasons {
			if reason = r.Code; reason != engine.GangIncomplete {
				break // the reason of the first pod without a place is more useful
			}
		}
		gangs[[2]string{snake(string(room.Progress)), snake(string(reason))}]++
	}
	m.requestsBy, m.gangsBy = setCounts(m.requests, m.requestsBy, requests), setCounts(m.gangs, m.gangsBy, gangs)
}
