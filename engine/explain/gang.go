package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
)

// GangExplanation is the record of a PodGroup: its state in the plan, and the reasons.
type GangExplanation struct {
	PodGroup string `json:"podGroup"`
	Summary  string `json:"summary"`
	// Progress is the PodGroup's progress; empty for a group whose pods start one by one.
	Progress engine.GangProgress `json:"progress,omitempty"`
	// Advice is a possible remedy, for the PodGroup's owner.
	Advice string `json:"advice,omitempty"`
	// MinCount is the number of pods that start together. Running counts its pods with a node. Of the other pods, Existing have a place on
	// existing nodes, Coming on machines that start or are to be started, and Left have no place.
	MinCount int `json:"minCount"`
	Running  int `json:"running"`
	Existing int `json:"existing"`
	Coming   int `json:"coming"`
	Left     int `json:"left"`
	// TopologyKey is a label for which the nodes of all pods of the group have the same value.
	TopologyKey string `json:"topologyKey,omitempty"`
	// Launches names the machines to be started for the group.
	Launches []string              `json:"launches"`
	Reasons  []engine.ReasonRecord `json:"reasons,omitempty"`
	// Pods are the pods of the group that have not ended.
	Pods []string `json:"pods"`
}

// ExplainGang returns the record of the group. The plan is the result of provisioning.Plan for the snapshot.
func ExplainGang(s *engine.Snapshot, plan *engine.Plan, o *schedulingv1alpha3.PodGroup) GangExplanation {
	name := o.Namespace + "/" + o.Name
	story := GangExplanation{PodGroup: name, MinCount: o.MinCount(), TopologyKey: o.TopologyKey(), Launches: []string{}, Pods: []string{}}
	for _, pod := range s.Pods {
		if g := pod.Spec.SchedulingGroup; pod.Namespace == o.Namespace && g != nil && g.PodGroupName != nil && *g.PodGroupName == o.Name &&
			pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			story.Pods = append(story.Pods, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(story.Pods)
	if o.Spec.SchedulingPolicy.Gang == nil {
		story.Summary = "its pods start one by one: each is planned like any other"
		return story
	}
	for i := range plan.Launches {
		if slices.Contains(plan.Launches[i].Gangs, name) {
			story.Launches = append(story.Launches, plan.Launches[i].Name)
		}
	}
	for i := range plan.Gangs {
		room := &plan.Gangs[i]
		if room.Namespace != o.Namespace || room.Name != o.Name {
			continue
		}
		story.Progress, story.Summary, story.Advice = room.Progress, room.Sentence(), room.Advice()
		story.Running, story.Existing, story.Coming, story.Left = room.Running, room.Existing, room.Coming, room.Left
		if len(room.Reasons) > 0 {
			story.Reasons = reasonRecords(room.Reasons)
		}
	}
	return story
}
