package scheduler

import (
	"math"
	"slices"

	"tenon.sh/engine/kube"
)

// The formulas by which kube-scheduler 1.36 ranks the nodes that can take a pod, with its default configuration; what its configuration can change is in
// scoring.go. A plugin
// gives each node a raw figure, which is then brought to the range of 0 to mostScore over all nodes that can take the
// pod; the total adds the plugins up by weight. ImageLocality is left out: the snapshot knows no images.
const (
	mostScore = 100

	hardPodAffinity = 1 // what a running pod's required affinity to the new pod counts

	// What LeastAllocated counts for a container that names no request.
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// leastAllocated is NodeResourcesFit's score: the share that stays free with the pod, averaged over cpu and memory.
func leastAllocated(requested, allocatable kube.Usage) int64 {
	var sum, weight int64
	for i, have := range allocatable {
		if have == 0 {
			continue
		}
		weight++
		if requested[i] <= have {
			sum += share(have-requested[i], have)
		}
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// share is 100·part/whole rounded down, also where the product would overflow.
func share(part, whole int64) int64 {
	if part > math.MaxInt64/mostScore {
		return int64(float64(part) / float64(whole) * mostScore)
	}
	return part * mostScore / whole
}

// evenness says how alike the shares of cpu and memory are that are in use: 100 less their standard deviation.
func evenness(requested, allocatable kube.Usage) int64 {
	if allocatable[0] == 0 || allocatable[1] == 0 {
		return mostScore
	}
	cpu := min(float64(requested[0])/float64(allocatable[0]), 1)
	memory := min(float64(requested[1])/float64(allocatable[1]), 1)
	return int64((1 - math.Abs((cpu-memory)/2)) * mostScore)
}

// balancedAllocation is NodeResourcesBalancedAllocation's score: whether the pod makes the node's use more even.
func balancedAllocation(with, without int64) int64 {
	return mostScore/2 + (mostScore/2+with-without)/2
}

// normalize scales raw scores so that the largest becomes mostScore. Where a high figure is bad, they are turned round.
func normalize(scores []int64, reverse bool) {
	most := slices.Max(scores)
	for i, s := range scores {
		if most > 0 {
			s = mostScore * s / most
		}
		if reverse {
			s = mostScore - s
		}
		scores[i] = s
	}
}

// normalizeSpread turns counts of pods into scores: few are good. Nodes with a negative figure take no part.
func normalizeSpread(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, s := range scores {
		if s >= 0 {
			least, most = min(least, s), max(most, s)
		}
	}
	for i, s := range scores {
		switch {
		case s < 0:
			scores[i] = 0
		case most == 0:
			scores[i] = mostScore
		default:
			scores[i] = mostScore * (most + least - s) / most
		}
	}
}

// normalizeAffinity spans the range between the worst and the best node.
func normalizeAffinity(scores []int64) {
	least, most := slices.Min(scores), slices.Max(scores)
	for i, s := range scores {
		scores[i] = 0
		if most > least {
			scores[i] = int64(mostScore * (float64(s-least) / float64(most-least)))
		}
	}
}

// spreadShare is what one pod in a node's domain adds to its raw figure for a soft spread constraint: the more domains
// there are, the more, so that few large ones do not drown many small ones.
func spreadShare(domains int) float64 { return math.Log(float64(domains + 2)) }
