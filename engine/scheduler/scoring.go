package scheduler

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// scoring is a scheduler profile prepared for a replay.
type scoring struct {
	strategy      engine.ScoringStrategy
	shape         []engine.ShapePoint
	fit, balanced []scoredResource
	// plain means that the strategy is LeastAllocated, and that both plugins weigh CPU and memory equally, as in most clusters.
	plain                                                                bool
	fitWeight, balancedWeight, taints, nodeAffinity, podAffinity, spread int64
	hardPodAffinity                                                      int64
	ignoreTermsOfOthers                                                  bool
	percentage                                                           int64
}

// scoredResource is a resource that a plugin scores.
type scoredResource struct {
	index  int // 0 for CPU, 1 for memory; replayState.extraNames follow
	weight int64
	asked  bool // scored only for pods that request it
}

// extraLoad holds a node's scored resources besides CPU and memory, by replayState.extraNames.
type extraLoad struct{ allocatable, requested []int64 }

// scoringOf returns the scoring of the pod's profile.
func (state *replayState) scoringOf(pod *corev1.Pod) *scoring {
	return state.scorings[state.replay.Options.ProfileOf(pod.Spec.SchedulerName)+1]
}

// readProfiles prepares the profiles: the default one, then those of the options.
func (state *replayState) readProfiles() {
	state.scorings = []*scoring{state.newScoring(&engine.SchedulerProfile{})}
	for i := range state.replay.Options.Profiles {
		state.scorings = append(state.scorings, state.newScoring(&state.replay.Options.Profiles[i]))
	}
}

func (state *replayState) newScoring(p *engine.SchedulerProfile) *scoring {
	weights := engine.ScorePlugins()
	for name, weight := range p.Weights {
		weights[name] = weight
	}
	s := &scoring{
		strategy: p.Strategy, shape: p.Shape, percentage: p.PercentageOfNodesToScore, ignoreTermsOfOthers: p.IgnoreTermsOfOthers,
		fitWeight: weights[engine.NodeResourcesFit], balancedWeight: weights[engine.NodeResourcesBalancedAllocation], taints: weights[engine.TaintToleration],
		nodeAffinity: weights[engine.NodeAffinity], podAffinity: weights[engine.InterPodAffinity], spread: weights[engine.PodTopologySpread],
		hardPodAffinity: hardPodAffinity,
	}
	if p.HardPodAffinityWeight != nil {
		s.hardPodAffinity = *p.HardPodAffinityWeight
	}
	standard := []engine.ResourceWeight{{Name: corev1.ResourceCPU, Weight: 1}, {Name: corev1.ResourceMemory, Weight: 1}}
	fit, balanced := p.Resources, []engine.ResourceWeight{}
	for _, name := range p.Balanced {
		balanced = append(balanced, engine.ResourceWeight{Name: name, Weight: 1})
	}
	if len(fit) == 0 {
		fit = standard
	}
	if len(balanced) == 0 {
		balanced = standard
	}
	s.fit, s.balanced = state.scoredResources(fit), state.scoredResources(balanced)
	s.plain = p.Strategy == engine.LeastAllocated && isStandard(s.fit) && isStandard(s.balanced)
	return s
}

// scoredResources returns the scored resources, without names that no node can have.
func (state *replayState) scoredResources(list []engine.ResourceWeight) []scoredResource {
	var out []scoredResource
	for _, r := range list {
		asked := strings.Contains(string(r.Name), "/") || strings.HasPrefix(string(r.Name), corev1.ResourceHugePagesPrefix)
		switch r.Name {
		case corev1.ResourceCPU:
			out = append(out, scoredResource{0, r.Weight, false})
		case corev1.ResourceMemory:
			out = append(out, scoredResource{1, r.Weight, false})
		default:
			if !asked && r.Name != corev1.ResourceEphemeralStorage {
				continue
			}
			at := slices.Index(state.extraNames, r.Name)
			if at < 0 {
				at = len(state.extraNames)
				state.extraNames = append(state.extraNames, r.Name)
			}
			out = append(out, scoredResource{len(kube.Usage{}) + at, r.Weight, asked})
		}
	}
	return out
}

// isStandard reports whether the resources are CPU and memory with equal weights.
func isStandard(list []scoredResource) bool {
	return len(list) == 2 && list[0].index+list[1].index == 1 && list[0].weight == list[1].weight
}

// extrasOf returns the list's amounts of replayState.extraNames.
func (state *replayState) extrasOf(list corev1.ResourceList) []int64 {
	out := make([]int64, len(state.extraNames))
	for i, name := range state.extraNames {
		out[i] = kube.Amount(name, list[name])
	}
	return out
}

// addExtras adds n pods with these requests to node i.
func (state *replayState) addExtras(i int, need *inventory.RequestClass, n int64) {
	for x, name := range state.extraNames {
		if q, ok := need.List[name]; ok {
			state.extras[i].requested[x] += n * kube.Amount(name, q)
		}
	}
}

// resourceScore returns the score of node k's resources for the pod, by its profile.
func (state *replayState) resourceScore(p *podInfo, k int) int64 {
	s, l := p.scoring, &state.loads[k]
	if s.plain {
		score := s.fitWeight * leastAllocated(l.scored.Plus(p.fit), l.allocatable)
		if p.requested != (kube.Usage{}) {
			score += s.balancedWeight * balancedAllocation(evenness(l.requested.Plus(p.requested), l.allocatable), l.even)
		}
		return score
	}
	score := s.fitWeight * s.fitScore(state.amounts(p, k, s.fit, p.fit, l.scored))
	amounts := state.amounts(p, k, s.balanced, p.requested, l.requested)
	if slices.ContainsFunc(s.balanced, func(r scoredResource) bool { return p.asks(r.index) > 0 }) {
		score += s.balancedWeight * balancedAllocation(evennessOf(amounts, true), evennessOf(amounts, false))
	}
	return score
}

// asks returns the pod's request of the resource with this index.
func (p *podInfo) asks(index int) int64 {
	if index < len(p.requested) {
		return p.requested[index]
	}
	return p.extras[index-len(p.requested)]
}

// scoredAmount holds a node's allocatable and taken amounts of a resource, and the pod's addition.
type scoredAmount struct{ allocatable, taken, adds, weight int64 }

// amounts lists the resources that are scored for the pod on node k; asks and taken are of CPU and memory.
func (state *replayState) amounts(p *podInfo, k int, of []scoredResource, asks, taken kube.Usage) []scoredAmount {
	state.amountsRoom = state.amountsRoom[:0]
	for _, r := range of {
		var a scoredAmount
		if r.index < len(asks) {
			a = scoredAmount{state.loads[k].allocatable[r.index], taken[r.index], asks[r.index], r.weight}
		} else if x := r.index - len(asks); !r.asked || p.extras[x] > 0 {
			a = scoredAmount{state.extras[k].allocatable[x], state.extras[k].requested[x], p.extras[x], r.weight}
		}
		if a.allocatable > 0 {
			state.amountsRoom = append(state.amountsRoom, a)
		}
	}
	return state.amountsRoom
}

// fitScore returns NodeResourcesFit's score by the strategy.
func (s *scoring) fitScore(amounts []scoredAmount) int64 {
	var sum, weight int64
	for _, a := range amounts {
		score := s.strategyScore(a.taken+a.adds, a.allocatable)
		if s.strategy == engine.RequestedToCapacityRatio && score == 0 {
			continue
		}
		sum += score * a.weight
		weight += a.weight
	}
	switch {
	case weight == 0:
		return 0
	case s.strategy == engine.RequestedToCapacityRatio:
		return int64(math.Round(float64(sum) / float64(weight)))
	}
	return sum / weight
}

func (s *scoring) strategyScore(requested, allocatable int64) int64 {
	switch s.strategy {
	case engine.MostAllocated:
		return share(min(requested, allocatable), allocatable)
	case engine.RequestedToCapacityRatio:
		return s.shapeScore(share(min(requested, allocatable), allocatable))
	}
	return share(max(allocatable-requested, 0), allocatable)
}

// shapeScore returns the shape's score at a utilization in percent.
func (s *scoring) shapeScore(utilization int64) int64 {
	const scale = mostScore / engine.MostShapeScore
	for i, to := range s.shape {
		if utilization > to.Utilization {
			continue
		}
		if i == 0 {
			return to.Score * scale
		}
		from := s.shape[i-1]
		return from.Score*scale + (to.Score-from.Score)*scale*(utilization-from.Utilization)/(to.Utilization-from.Utilization)
	}
	if len(s.shape) == 0 {
		return 0
	}
	return s.shape[len(s.shape)-1].Score * scale
}

// evennessOf returns the evenness of any resources, with or without the pod.
func evennessOf(amounts []scoredAmount, with bool) int64 {
	share := func(a scoredAmount) float64 {
		taken := a.taken
		if with {
			taken += a.adds
		}
		return min(float64(taken)/float64(a.allocatable), 1)
	}
	switch len(amounts) {
	case 0, 1:
		return mostScore
	case 2:
		return int64((1 - math.Abs((share(amounts[0])-share(amounts[1]))/2)) * mostScore)
	}
	var sum, squares float64
	for _, a := range amounts {
		sum += share(a)
	}
	mean := sum / float64(len(amounts))
	for _, a := range amounts {
		d := share(a) - mean
		squares += float64(d * d) // the conversion prevents fused multiply-add
	}
	return int64((1 - math.Sqrt(squares/float64(len(amounts)))) * mostScore)
}

// nodesToScore returns the number of feasible nodes that kube-scheduler collects before it scores them. Without a percentage it is half of few
// nodes, a twentieth of many. It is never below the smaller of 100 and nodes.
func (s *scoring) nodesToScore(nodes int) int {
	const least, leastPercent = 100, 5
	percent := int(s.percentage)
	if percent == 0 {
		percent = max(50-nodes/125, leastPercent)
	}
	return max(nodes*percent/100, min(nodes, least))
}
