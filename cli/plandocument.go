package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
	"tenon.sh/engine/advice"
)

// planDocument is a plan in the form for programs. Its fields are a contract: they keep their names and meaning.
type planDocument struct {
	APIVersion  string               `json:"apiVersion"`
	Kind        string               `json:"kind"`
	Launches    []launchDocument     `json:"launches"`
	Placements  []placementDocument  `json:"placements"`
	Unplaced    []unplacedDocument   `json:"unplaced"`
	Disruptions []disruptionDocument `json:"disruptions"`
	Kept        []keptDocument       `json:"kept,omitempty"`
	Notes       []noteDocument       `json:"notes,omitempty"`
	Cost        costDocument         `json:"cost"`
	Advice      *advice.Advice       `json:"advice,omitempty"`
	// Commitments lists the use of each commitment once the launches run.
	Commitments []engine.CommitmentUse `json:"commitments,omitempty"`
}

// launchDocument is one machine to start. Prices are in USD per hour, pods are written namespace/name.
type launchDocument struct {
	Name          string                  `json:"name"`
	NodePool      string                  `json:"nodePool"`
	Price         float64                 `json:"price"`
	Commitment    string                  `json:"commitment,omitempty"`
	InstanceTypes []string                `json:"instanceTypes"`
	Offerings     []engine.LaunchOffering `json:"offerings"`
	Requests      map[string]string       `json:"requests"`
	Pods          []string                `json:"pods"`
}

type placementDocument struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

type unplacedDocument struct {
	Pod     string           `json:"pod"`
	Reasons []reasonDocument `json:"reasons"`
}

type reasonDocument struct {
	Code     engine.Code `json:"code"`
	NodePool string      `json:"nodePool,omitempty"`
	Message  string      `json:"message"`
}

type disruptionDocument struct {
	Nodes         []string         `json:"nodes"`
	Reason        string           `json:"reason"`
	Replacements  []launchDocument `json:"replacements"`
	SavingPerHour float64          `json:"savingPerHour"`
	Pods          []string         `json:"pods"`
	YieldsTo      []string         `json:"yieldsTo,omitempty"`
	NodesLater    []string         `json:"nodesLater,omitempty"`
	// HeldPods are protected until HeldUntil at the earliest.
	HeldPods  []string  `json:"heldPods,omitempty"`
	HeldUntil time.Time `json:"heldUntil,omitzero"`
}

type keptDocument struct {
	Node   string         `json:"node"`
	Reason reasonDocument `json:"reason"`
}

type noteDocument struct {
	Object string         `json:"object"`
	Reason reasonDocument `json:"reason"`
}

// costDocument is the cost of a plan. Bound and Gap are null if no bound was computed.
type costDocument struct {
	LaunchesPerHour float64 `json:"launchesPerHour"`
	// Unpriced is the number of launches of unknown price. No sum includes them.
	Unpriced int      `json:"unpriced,omitempty"`
	Bound    *float64 `json:"bound"`
	Gap      *float64 `json:"gap"`
	// Expected and Unhinted are the costs if kube-scheduler places the pods by its scores, with and without nominations. Worst is the sum of
	// the most expensive listed offerings.
	Expected float64         `json:"expected"`
	Unhinted float64         `json:"unhinted"`
	Worst    float64         `json:"worst"`
	Worth    []worthDocument `json:"worth,omitempty"`
}

// worthDocument is the value of one unit of a resource, in USD per hour.
type worthDocument struct {
	Resource string  `json:"resource"`
	Unit     string  `json:"unit"`
	PerHour  float64 `json:"perHour"`
}

func newPlanDocument(plan *engine.Plan) planDocument {
	d := planDocument{
		APIVersion: engine.CatalogAPIVersion, Kind: "Plan", Launches: launchDocuments(plan.Launches),
		Placements: []placementDocument{}, Unplaced: []unplacedDocument{}, Disruptions: []disruptionDocument{},
		Cost: costDocument{LaunchesPerHour: plan.Cost.LaunchesPerHour, Unpriced: plan.Cost.Unpriced}, Commitments: plan.Commitments,
	}
	for _, p := range plan.Placements {
		d.Placements = append(d.Placements, placementDocument{p.Pod.String(), p.Node})
	}
	for _, u := range plan.Unplaced {
		reasons := []reasonDocument{}
		for _, r := range u.Reasons {
			reasons = append(reasons, newReasonDocument(r))
		}
		d.Unplaced = append(d.Unplaced, unplacedDocument{u.Pod.String(), reasons})
	}
	for _, x := range plan.Disruptions {
		d.Disruptions = append(d.Disruptions, disruptionDocument{
			x.Nodes, string(x.Reason), launchDocuments(x.Replacements), x.SavingPerHour, podStrings(x.Pods), podStrings(x.YieldsTo), x.NodesLater, podStrings(x.Held), x.HeldUntil,
		})
	}
	for _, k := range plan.Kept {
		name := k.Node
		if name == "" {
			name = k.Claim
		}
		d.Kept = append(d.Kept, keptDocument{name, newReasonDocument(k.Reason)})
	}
	for _, n := range plan.Notes {
		d.Notes = append(d.Notes, noteDocument{n.Object, newReasonDocument(n.Reason)})
	}
	d.Cost.Expected, d.Cost.Unhinted, d.Cost.Worst = plan.Cost.Expected, plan.Cost.Unhinted, plan.Cost.Worst
	for _, p := range plan.Cost.Prices {
		d.Cost.Worth = append(d.Cost.Worth, worthDocument{string(p.Resource), p.Unit, p.PerHour})
	}
	if plan.Cost.Bound != 0 {
		d.Cost.Bound, d.Cost.Gap = &plan.Cost.Bound, &plan.Cost.Gap
	}
	return d
}

func launchDocuments(launches []engine.Launch) []launchDocument {
	out := []launchDocument{}
	for _, l := range launches {
		out = append(out, launchDocument{
			l.Name, l.NodePool, l.Price, l.Commitment, append([]string{}, l.InstanceTypes...), append([]engine.LaunchOffering{}, l.Offerings...),
			quantities(l.Requests), podStrings(l.Pods),
		})
	}
	return out
}

func newReasonDocument(r engine.Reason) reasonDocument {
	return reasonDocument{r.Code, r.NodePool, r.Message()}
}

func podStrings(pods []engine.PodID) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.String())
	}
	return out
}

func quantities(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out[string(name)] = q.String()
	}
	return out
}

func (d planDocument) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

func (d planDocument) writeYAML(out io.Writer) error {
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	_, err = out.Write(text)
	return err
}
