package explain

import (
	"fmt"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
	"tenon.sh/engine/booking"
)

// RequestExplanation is the record of a ProvisioningRequest: its progress, and the reasons.
type RequestExplanation struct {
	Request string `json:"provisioningRequest"`
	Class   string `json:"class"`
	Summary string `json:"summary"`
	// Progress is the request's progress, from Reason and Message of its condition; empty for a request that Tenon ignores.
	Progress engine.RequestProgress `json:"progress,omitempty"`
	Reason   string                 `json:"reason,omitempty"`
	Message  string                 `json:"message,omitempty"`
	// Advice is a possible remedy, for the request's owner.
	Advice string `json:"advice,omitempty"`
	// PodSets are the pods for which the request wants room. Size counts those without a node: Existing have room on existing nodes, Coming on
	// machines that start or are to be started. All three are 0 while room is neither looked for nor held.
	PodSets  []PodSetRecord `json:"podSets"`
	Size     int            `json:"size"`
	Existing int            `json:"existing"`
	Coming   int            `json:"coming"`
	// Launches names the machines to be started for the request.
	Launches   []string              `json:"launches"`
	Reasons    []engine.ReasonRecord `json:"reasons,omitempty"`
	Conditions []ConditionRecord     `json:"conditions"`
}

// PodSetRecord is a number of pods of one PodTemplate.
type PodSetRecord struct {
	PodTemplate string `json:"podTemplate"`
	Count       int32  `json:"count"`
}

// ExplainRequest returns the record of the request. The plan is the result of provisioning.Plan for the request's snapshot.
func ExplainRequest(plan *engine.Plan, o *autoscalingv1.ProvisioningRequest) RequestExplanation {
	story := RequestExplanation{Request: o.Namespace + "/" + o.Name, Class: o.Spec.ProvisioningClassName, PodSets: []PodSetRecord{}, Launches: []string{}}
	for _, set := range o.Spec.PodSets {
		story.PodSets = append(story.PodSets, PodSetRecord{set.PodTemplateRef.Name, set.Count})
	}
	story.Conditions = conditionRecords(o.Status.Conditions)
	switch {
	case o.DeletionTimestamp != nil:
		story.Summary = "it is being deleted"
		return story
	case !booking.Followed(o):
		story.Summary = fmt.Sprintf("its class %s is another program's: nothing is done for it", o.Spec.ProvisioningClassName)
		return story
	}
	for _, room := range plan.ProvisioningRequests {
		if room.Namespace != o.Namespace || room.Name != o.Name {
			continue
		}
		story.Size, story.Existing, story.Coming = room.Size, room.Existing, room.Coming
		if len(room.Reasons) > 0 {
			story.Reasons = reasonRecords(room.Reasons)
		}
		if room.Status != nil {
			story.Conditions = conditionRecords(room.Status.Conditions)
		}
		a := room.Answer
		story.Progress, story.Reason, story.Message, story.Advice = a.Progress, a.Reason, a.Message, a.Advice
	}
	for i := range plan.Launches {
		for _, share := range plan.Launches[i].ProvisioningRequests {
			if share.Namespace == o.Namespace && share.Name == o.Name {
				story.Launches = append(story.Launches, plan.Launches[i].Name)
			}
		}
	}
	story.Summary = requestSummaries[story.Progress]
	return story
}

var requestSummaries = map[engine.RequestProgress]string{
	engine.RequestWaits:       "it waits",
	engine.RequestStarts:      "machines for it start",
	engine.RequestProvisioned: "it has its room",
	engine.RequestConsumed:    "its pods have nodes",
	engine.RequestExpired:     "its room is held no longer",
	engine.RequestFailed:      "it has failed",
}
