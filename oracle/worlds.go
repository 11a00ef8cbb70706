package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// This file determines the machines of a replay, and the number of worlds.

// readMachines returns the nodes that are completely known, and records the machines that are still starting.
func (r *replay) readMachines() []*corev1.Node {
	s := r.snapshot
	claims := map[string]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		if c.Status.ProviderID != "" {
			claims[c.Status.ProviderID] = c
		}
	}
	joined := map[*v1.NodeClaim]bool{}
	var settled []*corev1.Node
	for _, n := range s.Nodes {
		var claim *v1.NodeClaim
		if n.Spec.ProviderID != "" {
			claim = claims[n.Spec.ProviderID]
		}
		joined[claim] = true
		r.leaving[n.Name] = n.DeletionTimestamp != nil || claim != nil && isLeaving(claim)
		if claim == nil || n.Labels[v1.InitializedLabelKey] == "true" {
			settled = append(settled, n)
			continue
		}
		r.machines = append(r.machines, r.judge.ready(s, n, claim))
	}
	for _, c := range s.NodeClaims {
		if !joined[c] && !isLeaving(c) {
			r.machines = append(r.machines, r.judge.claimed(s, c))
		}
	}
	return settled
}

func isLeaving(c *v1.NodeClaim) bool {
	return c.DeletionTimestamp != nil || v1.IsTrue(c, v1.ConditionInstanceTerminating)
}

// worlds returns the number of replays: one for each zone of the machine with most zones, and one with random offerings if there is a choice.
func (r *replay) worlds() int {
	if r.isMixed(r.zones()) {
		return r.zones() + 1
	}
	return r.zones()
}

func (r *replay) zones() int {
	zones := 1
	for _, m := range r.machines {
		zones = max(zones, len(m.zones()))
	}
	return zones
}

// isMixed reports whether, in that world, machines start as random offerings.
func (r *replay) isMixed(world int) bool {
	return world == r.zones() && slices.ContainsFunc(r.machines, func(m *machine) bool { return len(m.looks) > 1 })
}
