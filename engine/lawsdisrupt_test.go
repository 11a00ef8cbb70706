package engine_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

func TestNoBudgetIsExceeded(t *testing.T) {
	t.Parallel()
	disrupted := 0
	eachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		gone := map[string]int{}
		for _, d := range engine.Disrupt(s, engine.Options{}, nil).Disruptions {
			for _, claim := range d.Claims {
				gone[poolOfClaim(s, claim)]++
				disrupted++
			}
		}
		for _, pool := range s.NodePools {
			if n, most := gone[pool.Name], plainAllowance(s, pool); n > most {
				t.Errorf("seed %d: %d nodes of pool %s are disrupted, its budgets allow %d", seed, n, pool.Name, most)
			}
		}
	})
	if disrupted == 0 {
		t.Error("the random clusters have no node to disrupt: they prove nothing")
	}
}

func TestEmptyNodesThatGoRunNothingThatWouldHaveToMove(t *testing.T) {
	t.Parallel()
	eachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		for _, d := range engine.Disrupt(s, engine.Options{}, nil).Disruptions {
			if d.Reason != v1.Empty {
				continue
			}
			for _, p := range s.Pods {
				if p.Spec.NodeName != d.Nodes[0] || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
					continue
				}
				if len(p.OwnerReferences) == 0 || p.OwnerReferences[0].Kind != "DaemonSet" {
					t.Errorf("seed %d: node %s goes as empty, but runs %s", seed, d.Nodes[0], p.Name)
				}
			}
		}
	})
}

func poolOfClaim(s *engine.Snapshot, name string) string {
	for _, c := range s.NodeClaims {
		if c.Name == name {
			return c.Labels[v1.NodePoolLabelKey]
		}
	}
	return ""
}

// plainAllowance is how many more nodes the pool's budgets, which have no schedule, let go.
func plainAllowance(s *engine.Snapshot, pool *v1.NodePool) int {
	total, going := 0, 0
	for _, n := range s.Nodes {
		if n.Labels[v1.NodePoolLabelKey] != pool.Name || n.Labels[v1.InitializedLabelKey] != "true" {
			continue
		}
		total++
		if n.DeletionTimestamp != nil || n.Status.Conditions[0].Status != corev1.ConditionTrue {
			going++
		}
	}
	most := math.MaxInt
	for _, b := range pool.Spec.Disruption.Budgets {
		n, err := strconv.Atoi(strings.TrimSuffix(b.Nodes, "%"))
		if err != nil {
			return 0
		}
		if strings.HasSuffix(b.Nodes, "%") {
			n = (total*n + 99) / 100
		}
		most = min(most, n)
	}
	return max(0, most-going)
}
