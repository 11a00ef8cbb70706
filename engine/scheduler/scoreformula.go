package scheduler

import (
	"math"
	"slices"

	"tenon.sh/engine/kube"
)

// The formulas by which kube-scheduler 1.36 ranks the feasible nodes of a pod, with its default configuration; scoring.go has the configurable
// parts. A plugin gives each node a raw figure, and scales the figures of all feasible nodes to 0…mostScore; the total is the sum by the
// plugins' weights. ImageLocality is left out, because the snapshot has no images.
const (
	mostScore = 100

	hardPodAffinity = 1 // weight of a running pod's required affinity to the new pod

	// The default requests in LeastAllocated of a container without requests.
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// leastAllocated returns NodeResourcesFit's score: the free share with the pod, averaged over CPU and memory.
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

// share returns 100·part/whole rounded down, also if the product would overflow.
func share(part, whole int64) int64 {
	if part > math.MaxInt64/mostScore {
		return int64(float64(part) / float64(whole) * mostScore)
	}
	return part * mostScore / whole
}

// evenness returns 100 minus the standard deviation of the used shares of CPU and memory.
func evenness(requested, allocatable kube.Usage) int64 {
	if allocatable[0] == 0 || allocatable[1] == 0 {
		return mostScore
	}
	cpu := min(float64(requested[0])/float64(allocatable[0]), 1)
	memory := min(float64(requested[1])/float64(allocatable[1]), 1)
	return int64((1 - math.Abs((cpu-memory)/2)) * mostScore)
}

// balancedAllocation returns NodeResourcesBalancedAllocation's score: higher if the pod makes the node's usage more even.
func balancedAllocation(with, without int64) int64 {
	return mostScore/2 + (mostScore/2+with-without)/2
}

// normalize scales raw scores so that the largest becomes mostScore, and reverses them if high figures are bad.
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

// normalizeSpread turns counts of pods into scores: fewer pods score higher. Nodes with a negative figure get 0.
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

// normalizeAffinity scales scores so that the worst node gets 0 and the best mostScore.
func normalizeAffinity(scores []int64) {
	least, most := slices.Min(scores), slices.Max(scores)
	for i, s := range scores {
		scores[i] = 0
		if most > least {
			scores[i] = int64(mostScore * (float64(s-least) / float64(most-least)))
		}
	}
}

// spreadShare returns the weight of one pod in a soft spread constraint. It grows with the number of domains, because otherwise constraints with
// few domains, which hold more pods each, would outweigh constraints with many.
func spreadShare(domains int) float64 { return math.Log(float64(domains + 2)) }
