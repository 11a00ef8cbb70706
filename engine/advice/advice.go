package advice

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

const (
	// MostTries is the largest number of plans that are made. One more is made if the plan refuses pods.
	MostTries = 24
	// worthSaying is the smallest share of the bill for which a saving is reported.
	worthSaying = 0.01
	// leastSaid is the smallest saving that is reported, in USD per hour, because even a large share of a tiny bill is a tiny saving.
	leastSaid = 0.00005
)

// Advice holds changes that would make a plan's launches cheaper.
type Advice struct {
	// PerHour is the cost of the launches that the suggestions are compared with, in USD. These are the launches for the pods that the plan does
	// not refuse.
	PerHour float64 `json:"perHour"`
	// Launches explains each launch of the plan.
	Launches []LaunchReason `json:"launches"`
	// Suggestions are sorted by their savings. Each saving is for its suggestion alone, so the savings do not add up.
	Suggestions []Suggestion `json:"suggestions"`
	// Tried counts the plans that were made for suggestions. Untried counts the suggestions for which no plan was made.
	Tried   int `json:"tried"`
	Untried int `json:"untried"`
}

// LaunchReason explains why a launch names its first machine, and gives the price of the runner-up.
type LaunchReason struct {
	Launch string `json:"launch"`
	Why    string `json:"why"`
}

// Kind is the subject of a suggestion's change.
type Kind string

const (
	CapacityType  Kind = "CapacityType"  // a pool allows another capacity type
	Architecture  Kind = "Architecture"  // a pool allows another architecture
	Zones         Kind = "Zones"         // a pool allows all zones of its class
	InstanceTypes Kind = "InstanceTypes" // a pool has no requirements about sizes and families
	Limits        Kind = "Limits"        // a pool has no limits
	Weight        Kind = "Weight"        // a pool has no weight
	Preferences   Kind = "Preferences"   // preferences of pods count less
	Spread        Kind = "Spread"        // pods of a workload need not be spread
	Requests      Kind = "Requests"      // pods of a workload request less of the resource that they request most of
)

// Suggestion is one change, with its saving.
type Suggestion struct {
	Kind Kind `json:"kind"`
	// Object is the object to be changed: "NodePool general", "Deployment default/web", "--preference-policy".
	Object string `json:"object"`
	// Keys lists the labels or the resource that the change is about, in order. Values lists the values that are allowed in addition, or the new
	// value.
	Keys   []string `json:"keys,omitempty"`
	Values []string `json:"values,omitempty"`
	// Change describes the change in words. Caution describes risks of the change.
	Change  string `json:"change"`
	Caution string `json:"caution,omitempty"`
	// PerHour is the cost of the launches after the change, and SavingPerHour is the saving, both in USD. Saving is the saving as a share.
	PerHour       float64 `json:"perHour"`
	SavingPerHour float64 `json:"savingPerHour"`
	Saving        float64 `json:"saving"`
}

// trial is a suggestion, with a function that returns the snapshot after the change.
type trial struct {
	Suggestion
	snapshot func() *engine.Snapshot
	options  engine.Options
}

// New lists the changes that would make the snapshot's plan cheaper. plan must be the plan of provisioning for these options. After each change,
// every pod, buffer and request has at least the room that it has in the plan. No pod that must not be disrupted comes to a spot machine. Each
// change saves at least one per cent.
func New(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) *Advice {
	out := &Advice{Launches: []LaunchReason{}, Suggestions: []Suggestion{}}
	for i := range plan.Launches {
		out.Launches = append(out.Launches, LaunchReason{plan.Launches[i].Name, plan.Launches[i].Sentence()})
	}
	cache := &inventory.Cache{}
	s, plan = placed(s, opt, plan, cache)
	if len(plan.Unplaced) > 0 || plan.Cost.Unpriced > 0 || plan.Cost.LaunchesPerHour <= 0 { // without the refused pods, further pods are refused
		return out
	}
	out.PerHour = plan.Cost.LaunchesPerHour
	trials, types := trialsOf(s, opt, plan), typesOf(s)
	for _, t := range trials[:min(len(trials), MostTries)] {
		after := provisioning.Plan(t.snapshot(), t.options, cache)
		if opt.Stopped() { // the search was cut short, so the plan is incomplete
			break
		}
		out.Tried++
		if t.PerHour = after.Cost.LaunchesPerHour; out.PerHour-t.PerHour < max(worthSaying*out.PerHour, leastSaid) || !asGood(s, plan, after) {
			continue
		}
		t.Caution = strings.Join(slices.DeleteFunc(append([]string{t.Caution}, cautions(types, plan, after)...), func(text string) bool { return text == "" }), "; ")
		t.SavingPerHour = out.PerHour - t.PerHour
		t.Saving = t.SavingPerHour / out.PerHour
		out.Suggestions = append(out.Suggestions, t.Suggestion)
	}
	out.Untried = len(trials) - out.Tried
	slices.SortStableFunc(out.Suggestions, func(a, b Suggestion) int { return cmp.Compare(b.SavingPerHour, a.SavingPerHour) })
	out.Suggestions = plain(out.Suggestions)
	return out
}

// placed returns the snapshot without the pods that the plan refuses, and its plan, because both plans of a comparison must have the same pods.
func placed(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, cache *inventory.Cache) (*engine.Snapshot, *engine.Plan) {
	if len(plan.Unplaced) == 0 {
		return s, plan
	}
	refused := map[engine.PodID]bool{}
	for _, u := range plan.Unplaced {
		refused[u.Pod] = true
	}
	out := *s
	out.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return refused[kube.PodID(p)] })
	return &out, provisioning.Plan(&out, opt, cache)
}

// asGood reports whether the plan after a change leaves all pods, buffers and requests the room that they have in the plan before it.
func asGood(s *engine.Snapshot, before, after *engine.Plan) bool {
	if after.Cost.Unpriced > 0 || !maps.Equal(podsOf(before), podsOf(after)) {
		return false
	}
	room := map[string]int{}
	for _, b := range after.Buffers {
		room["buffer "+b.Namespace+"/"+b.Name] = b.Existing + b.Coming
	}
	for _, r := range after.ProvisioningRequests {
		room["request "+r.Namespace+"/"+r.Name] = r.Existing + r.Coming
	}
	for _, b := range before.Buffers {
		if room["buffer "+b.Namespace+"/"+b.Name] < b.Existing+b.Coming {
			return false
		}
	}
	for _, r := range before.ProvisioningRequests {
		if room["request "+r.Namespace+"/"+r.Name] < r.Existing+r.Coming {
			return false
		}
	}
	was, is := spotPods(before), spotPods(after)
	return !slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool {
		id := kube.PodID(p)
		return is[id] && !was[id] && kube.ProtectionOf(p, s.Now).Active
	})
}

// cautions lists the risks, whatever the change was, for pods that get other machines by it.
func cautions(types typesByPool, before, after *engine.Plan) (out []string) {
	was, is := spotPods(before), spotPods(after)
	if slices.ContainsFunc(slices.Collect(maps.Keys(is)), func(id engine.PodID) bool { return !was[id] }) {
		out = append(out, "the cloud may take spot machines away at short notice")
	}
	then := types.architectures(before)
	for _, arch := range slices.Sorted(maps.Keys(types.architectures(after))) {
		if !then[arch] {
			out = append(out, "only if the images of all pods that may run there, those of DaemonSets too, are built for "+arch+": nothing here knows")
		}
	}
	return out
}

// typesByPool holds the instance types that pools start, by pool and by name.
type typesByPool map[string]map[string]*engine.InstanceType

func typesOf(s *engine.Snapshot) typesByPool {
	index, out := kube.NewTypeIndex(s), typesByPool{}
	for _, pool := range s.NodePools {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
			out[pool.Name] = index.Of(ref, pool.Name)
		}
	}
	return out
}

// architectures returns the architectures of the machines that the plan may start.
func (t typesByPool) architectures(plan *engine.Plan) map[string]bool {
	out := map[string]bool{}
	for i := range plan.Launches {
		for _, name := range plan.Launches[i].InstanceTypes {
			if kind := t[plan.Launches[i].NodePool][name]; kind != nil {
				for _, arch := range kind.Labels[corev1.LabelArchStable] {
					out[arch] = true
				}
			}
		}
	}
	return out
}

// podsOf returns the pods that the plan has a place for.
func podsOf(plan *engine.Plan) map[engine.PodID]bool {
	out := map[engine.PodID]bool{}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			out[id] = true
		}
	}
	for _, p := range plan.Placements {
		out[p.Pod] = true
	}
	return out
}

// spotPods returns the pods whose new machine may be a spot machine.
func spotPods(plan *engine.Plan) map[engine.PodID]bool {
	out := map[engine.PodID]bool{}
	for _, l := range plan.Launches {
		if slices.ContainsFunc(l.Offerings, func(o engine.LaunchOffering) bool { return o.CapacityType == v1.CapacityTypeSpot }) {
			for _, id := range l.Pods {
				out[id] = true
			}
		}
	}
	return out
}

// plain removes suggestions that change more than another one of the same kind and object which saves almost as much.
func plain(ranked []Suggestion) []Suggestion {
	return slices.DeleteFunc(slices.Clone(ranked), func(wide Suggestion) bool {
		return slices.ContainsFunc(ranked, func(x Suggestion) bool {
			return x.Kind == wide.Kind && x.Object == wide.Object && x.breadth() < wide.breadth() && x.SavingPerHour >= 0.99*wide.SavingPerHour
		})
	})
}

// breadth returns the extent of a suggestion's change, to be compared within its kind and object.
func (x *Suggestion) breadth() int {
	if x.Kind == Preferences && x.Values[0] == string(engine.Ignore) {
		return 1
	}
	return len(x.Keys)
}
