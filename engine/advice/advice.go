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
	// MostTries bounds the work: so many plans are made at most, beside one more where the plan refuses pods.
	MostTries = 24
	// worthSaying is the share of the bill below which a saving is not worth a word.
	worthSaying = 0.01
	// leastSaid is the least, in USD per hour: of a bill of nothing any share is nothing.
	leastSaid = 0.00005
)

// Advice is what would make a plan's launches cheaper.
type Advice struct {
	// PerHour is what the launches cost that the suggestions are compared with, in USD: those for the pods that the plan has places for.
	PerHour float64 `json:"perHour"`
	// Launches says of each launch of the plan why that.
	Launches []LaunchReason `json:"launches"`
	// Suggestions are ranked by what they save. Each stands by itself: savings do not add up.
	Suggestions []Suggestion `json:"suggestions"`
	// Tried counts the plans that were made for suggestions, Untried those that would have been one too many.
	Tried   int `json:"tried"`
	Untried int `json:"untried"`
}

// LaunchReason says why a launch names the machine that it names first, and what the next best costs.
type LaunchReason struct {
	Launch string `json:"launch"`
	Why    string `json:"why"`
}

// Kind is what a suggestion changes.
type Kind string

const (
	CapacityType  Kind = "CapacityType"  // a pool allows another capacity type
	Architecture  Kind = "Architecture"  // a pool allows another architecture
	Zones         Kind = "Zones"         // a pool allows all zones of its class
	InstanceTypes Kind = "InstanceTypes" // a pool does without requirements about sizes and families
	Limits        Kind = "Limits"        // a pool has no limits
	Weight        Kind = "Weight"        // a pool has no weight
	Preferences   Kind = "Preferences"   // preferences of pods count less
	Spread        Kind = "Spread"        // pods of a workload need not be spread
	Requests      Kind = "Requests"      // pods of a workload ask for less of what they ask most of
)

// Suggestion is one change, with what it saves.
type Suggestion struct {
	Kind Kind `json:"kind"`
	// Object is what is to be changed: "NodePool general", "Deployment default/web", "--preference-policy".
	Object string `json:"object"`
	// Keys are the labels or the resource that it is about, in order; Values what is allowed beside what is, or what is to be said instead.
	Keys   []string `json:"keys,omitempty"`
	Values []string `json:"values,omitempty"`
	// Change says it to people, Caution what to know before.
	Change  string `json:"change"`
	Caution string `json:"caution,omitempty"`
	// PerHour is what the launches cost then, SavingPerHour how much less that is, in USD, and Saving the share.
	PerHour       float64 `json:"perHour"`
	SavingPerHour float64 `json:"savingPerHour"`
	Saving        float64 `json:"saving"`
}

// trial is a suggestion, and how to make the cluster in which it is followed.
type trial struct {
	Suggestion
	snapshot func() *engine.Snapshot
	options  engine.Options
}

// New says what would make the snapshot's plan cheaper. The plan has to be the one of provisioning for these options. A suggestion
// leaves every pod, buffer and request the room that it has in the plan, puts none that may not be disrupted on a spot machine, and
// saves one per cent at least.
func New(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) *Advice {
	out := &Advice{Launches: []LaunchReason{}, Suggestions: []Suggestion{}}
	for i := range plan.Launches {
		out.Launches = append(out.Launches, LaunchReason{plan.Launches[i].Name, plan.Launches[i].Sentence()})
	}
	cache := &inventory.Cache{}
	s, plan = placed(s, opt, plan, cache)
	if len(plan.Unplaced) > 0 || plan.Cost.Unpriced > 0 || plan.Cost.LaunchesPerHour <= 0 { // without each other they are refused, too: nothing to compare with
		return out
	}
	out.PerHour = plan.Cost.LaunchesPerHour
	trials, types := trialsOf(s, opt, plan), typesOf(s)
	for _, t := range trials[:min(len(trials), MostTries)] {
		after := provisioning.Plan(t.snapshot(), t.options, cache)
		if opt.Stopped() { // what was planned by then is no whole plan
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

// placed is the snapshot without the pods that the plan refuses, with its plan: both sides of a comparison are to have the same pods.
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

// asGood reports whether the plan after a change leaves everybody the room that the one before has for them.
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

// cautions are what pods that get other machines by a change may not bear, whatever the change was.
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

// typesByPool are the instance types that pools start, by name.
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

// architectures are those of the machines that the plan may start.
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

// podsOf are the pods that the plan has a place for.
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

// spotPods are the pods whose new machine may be a spot machine.
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

// plain leaves out suggestions that ask for more than another one about the same that saves as much.
func plain(ranked []Suggestion) []Suggestion {
	return slices.DeleteFunc(slices.Clone(ranked), func(wide Suggestion) bool {
		return slices.ContainsFunc(ranked, func(x Suggestion) bool {
			return x.Kind == wide.Kind && x.Object == wide.Object && x.breadth() < wide.breadth() && x.SavingPerHour >= 0.99*wide.SavingPerHour
		})
	})
}

// breadth says how much a suggestion asks for, beside others of its kind about the same.
func (x *Suggestion) breadth() int {
	if x.Kind == Preferences && x.Values[0] == string(engine.Ignore) {
		return 1
	}
	return len(x.Keys)
}
