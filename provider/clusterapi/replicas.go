package clusterapi

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// census is what there is of a MachineDeployment at one moment.
type census struct {
	// bound are Machines that belong to a claim, by its UID; free are those that belong to none. Marked ones are to go, and wait
	// for replicas to be taken away. Those that are being deleted are none of these.
	bound                  map[types.UID]*contract.Machine
	free, marked, deleting []*contract.Machine
	// remediated is how many of the bound ones Cluster API is about to put others in the place of, which belong to nobody.
	remediated int
	// replicas is how many the MachineDeployment is to have, seen how many Machines Cluster API says there are (-1 if it has not
	// said so yet), and listed how many there are.
	replicas, seen, listed int32
	// sets are its MachineSets that have machines, the oldest first.
	sets []*contract.MachineSet
	// least and most bound the replicas; most is -1 without a bound.
	least, most int32
	// blocked says why replicas are not to be touched now, "" if they may be.
	blocked string
}

// take counts the Machines of a MachineDeployment. Owners are the claims, by UID, that Karpenter bound to Machines, by key.
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
	// Those that are furthest come first: they are of use soonest.
	slices.SortFunc(c.free, func(a, b *contract.Machine) int {
		return cmp.Or(cmp.Compare(progress(b), progress(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	c.least, c.most, _ = assortment.Sizes(d) // what cannot be read bounds nothing
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

// progress is how far a machine is on its way to a node.
func progress(m *contract.Machine) int {
	switch {
	case m.Status.NodeRef.Name != "":
		return 2
	case m.Spec.ProviderID != "":
		return 1
	}
	return 0
}

// live is how many Machines stay.
func (c *census) live() int { return len(c.bound) + len(c.free) }

// room is how many more claims may wait for a Machine beside those that wait already.
func (c *census) room(waiting int) int {
	if c.most < 0 {
		return waiting + 1<<20
	}
	return int(c.most) - len(c.bound) - waiting
}

// target is how many replicas there are to be when so many claims wait for a Machine: one for each Machine that belongs to a
// claim, one for each claim that waits as far as there may be so many, and as many more as there are if some are free. What comes in
// the place of a Machine that is remediated is for a claim that waits. It is counted and never added up, so that repeating changes
// nothing; and free Machines never ask for more of them: a rollout makes some beside the replicas.
func (c *census) target(waiting int) int32 {
	n := len(c.bound) - c.remediated + waiting
	if c.most >= 0 {
		n = min(n, int(c.most))
	}
	return max(int32(n), min(int32(c.live()), c.replicas), c.least)
}

// lowest is how many replicas there may be at least for now, so that those that are marked go and no others. Held says that Cluster
// API makes no Machines of it at the moment.
func (c *census) lowest(d *contract.MachineDeployment, held bool) int32 {
	elsewhere := func(m *contract.Machine) bool { return !c.shrinksFor(d, m) }
	if len(c.sets) > 1 && !d.OnDelete() || slices.ContainsFunc(slices.Concat(c.marked, c.deleting), elsewhere) {
		return c.replicas
	}
	if held || c.seen >= c.replicas && c.listed >= c.seen {
		return 0
	}
	// Machines are being made that nobody has seen yet: they might stay in the place of others.
	return c.replicas - int32(len(c.marked))
}

// lowestOf is how many replicas there may be at least for now because Cluster API may not have seen all marks yet: it would take Machines
// without one. Settled says that it has seen one.
func (c *census) lowestOf(settled func(*contract.Machine) bool) int32 {
	fresh := len(slices.DeleteFunc(slices.Clone(c.marked), settled))
	if fresh == 0 {
		return 0
	}
	return c.replicas - int32(len(c.marked)-fresh)
}

// shrinksFor says whether Cluster API takes a Machine away that is marked, when replicas are lowered. While there are several MachineSets
// it takes others, or brings another one in its place: a rollout takes marked Machines first, and ends; with OnDelete the oldest
// MachineSet shrinks.
func (c *census) shrinksFor(d *contract.MachineDeployment, m *contract.Machine) bool {
	return len(c.sets) < 2 || d.OnDelete() && m.Labels[contract.SetNameLabel] == c.sets[0].Name
}
