package booking

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
)

// answer returns a summary of the request's state after the plan.
func (r *Request) answer(room *engine.RequestRoom) engine.RequestAnswer {
	conditions := r.Object.Status.Conditions
	if room.Status != nil {
		conditions = room.Status.Conditions
	}
	if r.Phase == Seeking && r.Waits {
		return engine.RequestAnswer{Progress: engine.RequestWaits, Reason: r.Reason, Message: r.Message}
	}
	said := func(kind string, p engine.RequestProgress) (engine.RequestAnswer, bool) {
		c := apimeta.FindStatusCondition(conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue {
			return engine.RequestAnswer{}, false
		}
		return engine.RequestAnswer{Progress: p, Reason: c.Reason, Message: c.Message}, true
	}
	if a, ok := said(autoscalingv1.ConditionFailed, engine.RequestFailed); ok {
		if a.Reason == autoscalingv1.CapacityIsNotFound {
			a.Advice = r.advice()
		}
		return a
	}
	for _, kind := range []string{autoscalingv1.ConditionCapacityRevoked, autoscalingv1.ConditionBookingExpired} {
		if a, ok := said(kind, engine.RequestExpired); ok {
			if a.Reason == autoscalingv1.CapacityBookingSpent {
				a.Progress = engine.RequestConsumed
			}
			return a
		}
	}
	if a, ok := said(autoscalingv1.ConditionProvisioned, engine.RequestProvisioned); ok {
		return a
	}
	a := engine.RequestAnswer{Progress: engine.RequestWaits}
	if c := apimeta.FindStatusCondition(conditions, autoscalingv1.ConditionProvisioned); c != nil {
		a.Reason, a.Message = c.Reason, c.Message
		if c.Reason == autoscalingv1.CapacityIsStarting {
			a.Progress = engine.RequestStarts
		} else {
			a.Advice = r.advice()
		}
	}
	return a
}

// advice tells the owner of a request without room what to do.
func (r *Request) advice() string {
	if r.Buys() {
		return "have the NodePools allow what is lacking, or ask for less"
	}
	return "make room, or a request of class " + autoscalingv1.BestEffortAtomic + ", for which machines are started"
}
