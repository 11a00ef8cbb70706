package clusterapi

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// census is the state of a MachineDeployment at one moment.
type census struct {
	// bound are the Machines that belong to a claim, by its UID. free are the Machines that belong to no claim. marked are Machines that
	// shall go and wait until replicas are lowered. deleting are Machines that are being deleted. Each Machine is in one of the four.
	bound                  map[types.UID]*contract.Machine
	free, marked, deleting []*contract.Machine
	// remediated is the number of bound Machines that Cluster API is about to replace by Machines without a claim.
	remediated int
	// replicas is the wanted number of Machines. seen is the number that Cluster API reports, -1 if it has not seen the latest spec. listed
	// is the number of existing Machines.
	replicas, seen, listed int32
	// sets are the MachineSets with replicas, the oldest first.
	sets []*contract.MachineSet
	// least and most are the bounds of the replicas; most is -1 without a bound.
	least, most int32
	// blocked is the reason why replicas must not be changed now, "" if they may be.
	blocked string
}

// take counts the Machines of a MachineDeployment. owners has the UIDs of claims that Karpenter bound to Machines, by the Machine's key.
func take(d *contract.MachineDeployment, machines []*contract.Machine, owners map[string]types.UID) *census {
	c := &census{bound: map[types.UID]*contract.Machine{}, seen: -1}
	for _, m := range machines {
		uid := types.UID(m.Annotations[v1.MachineClaimUIDAnnotationKey])
		if uid == "" {
			uid = owners[m.Namespace+"/"+m.Name]
		}
		_, marked := m.Annotations[contract.DeleteAnnotation]
		switch {
		case m.DeletionTimestamp != nil:
			c.deleting = append(c.deleting, m)
		case marked:
			c.marked = append(c.marked, m)
		case uid != "":
			if c.bound[uid] = m; m.Remediated() {
				c.remediated++
			}
		default:
			c.free = append(c.free, m)
		}
	}
	// Machines that are closest to being nodes come first, because pods can use them soonest.
	slices.SortFunc(c.free, func(a, b *contract.Machine) int {
		return cmp.Or(cmp.Compare(progress(b), progress(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	c.least, c.most, _ = assortment.Sizes(d) // bounds that cannot be read are ignored
	c.listed = int32(len(machines))
	c.replicas = c.listed
	if d.Spec.Replicas != nil {
		c.replicas = *d.Spec.Replicas
	}
	if d.Status.Replicas != nil && d.Status.ObservedGeneration >= d.Generation {
		c.seen = *d.Status.Replicas
	}
	return c
}

// progress ranks machines: 2 for a machine with a node, 1 for one with a provider ID, 0 for others.
func progress(m *contract.Machine) int {
	switch {
	case m.Status.NodeRef.Name != "":
		return 2
	case m.Spec.ProviderID != "":
		return 1
	}
	return 0
}

// live returns the number of Machines that stay.
func (c *census) live() int { return len(c.bound) + len(c.free) }

// room returns the number of further claims that may wait for a Machine.
func (c *census) room(waiting int) int {
	if c.most < 0 {
		return waiting + 1<<20
	}
	return int(c.most) - len(c.bound) - waiting
}

// target returns the wanted replicas if a number of claims wait for a Machine: one for each bound Machine, and one for each waiting claim,
// within the bounds. Existing replicas of free Machines stay. Cluster API's replacement for a remediated Machine goes to a waiting claim. The
// number is counted and never incremented, so repeated calls change nothing. Free Machines never raise it, because a rollout makes Machines
// beyond the replicas.
func (c *census) target(waiting int) int32 {
	n := len(c.bound) - c.remediated + waiting
	if c.most >= 0 {
		n = min(n, int(c.most))
	}
	return max(int32(n), min(int32(c.live()), c.replicas), c.least)
}

// lowest returns the lowest allowed number of replicas for now, so that Cluster API deletes only marked Machines. held is true if Cluster API
// makes no Machines of the MachineDeployment at the moment.
func (c *census) lowest(d *contract.MachineDeployment, held bool) int32 {
	elsewhere := func(m *contract.Machine) bool { return !c.shrinksFor(d, m) }
	if len(c.sets) > 1 && !d.OnDelete() || slices.ContainsFunc(slices.Concat(c.marked, c.deleting), elsewhere) {
		return c.replicas
	}
	if held || c.seen >= c.replicas && c.listed >= c.seen {
		return 0
	}
	// Cluster API is making Machines that it has not reported yet: they might stay while other Machines without a mark are deleted.
	return c.replicas - int32(len(c.marked))
}

// lowestOf returns the lowest allowed number of replicas for now, because Cluster API may not have seen all marks yet: it would delete
// Machines without a mark. The function `settled` reports whether Cluster API has seen the mark of a Machine.
func (c *census) lowestOf(settled func(*contract.Machine) bool) int32 {
	fresh := len(slices.DeleteFunc(slices.Clone(c.marked), settled))
	if fresh == 0 {
		return 0
	}
	return c.replicas - int32(len(c.marked)-fresh)
}

// shrinksFor reports whether Cluster API deletes a given marked Machine when replicas are lowered. With several MachineSets it may delete
// others, or replace the Machine: a rollout deletes marked Machines first, and then goes on; with OnDelete, the oldest MachineSet shrinks.
func (c *census) shrinksFor(d *contract.MachineDeployment, m *contract.Machine) bool {
	return len(c.sets) < 2 || d.OnDelete() && m.Labels[contract.SetNameLabel] == c.sets[0].Name
}
