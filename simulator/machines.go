package simulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

const (
	// awaitEvery is how often a plan is made while pods wait and a started machine is not ready.
	awaitEvery = 2 * time.Minute
	// collectEvery is how often the world looks for machines without claims, and claims without machines.
	collectEvery = 10 * time.Minute
)

// machines starts machines for claims, and carries out in the cluster all events of the cloud: machines become nodes, fail and end.
type machines struct {
	agenda    *agenda
	laws      *laws
	pending   *pending
	timetable *timetable
	markets   *markets
	meter     *meter
	cluster   *cluster
	claims    *claims
	nodes     *nodes
	nodeNames map[engine.MachineID]string // the names of nodes that have another name than their claim
}

// launch starts the machine of a claim. If no offering is available, it deletes the claim. more reports whether another step may follow at once;
// otherwise retry is the time until the next try.
func (k *machines) launch(ctx context.Context, claim *v1.NodeClaim) (more bool, retry time.Duration) {
	m := k.markets.of(claim)
	if m == nil {
		k.claims.delete(claim.Name, engine.CauseNodeClassNotReady)
		return true, 0
	}
	class := provider.Class{Ref: m.class.Ref, Object: &kwokv1alpha1.KWOKNodeClass{}}
	started, err := m.provider.Launch(ctx, claim, class)
	var refused *provider.SoldOutError
	switch {
	case errors.As(err, &refused):
		m.mark(refused.Offerings, k.agenda.now)
		k.meter.Refused++
		k.claims.delete(claim.Name, engine.CauseInsufficientCapacity)
		return true, 0
	case err != nil:
		return false, retryOf(err)
	}
	k.meter.launched()
	k.meter.machines++
	m.running.put(string(started.ID), machine{id: started.ID, claim: claim.Name})
	launched := lifecycle.Launched(claim, started, k.agenda.now)
	k.meter.ledger.open(started.ID, launched, m, k.meter.ledger.boots(claim), k.claims.takeListed(claim.Name))
	k.claims.set(launched)
	k.await(claim.Name)
	k.stir(m)
	return true, 0
}

// await schedules a plan every awaitEvery while pods wait and the claim's machine is not ready, because plans use that machine only for a time.
func (k *machines) await(name string) {
	k.agenda.after(awaitEvery, func() {
		claim, ok := k.cluster.claims.get(name)
		if !ok || claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInitialized) {
			return
		}
		if len(k.cluster.unbound.list) > 0 {
			k.timetable.wantMachines()
		}
		k.await(name)
	})
}

// stir looks at the cloud at once after a call, and then watches it.
func (k *machines) stir(m *market) {
	if !m.stirred {
		m.stirred = true
		k.agenda.after(0, func() {
			m.stirred = false
			k.look(m)
			k.watch(m)
		})
	}
}

// watch schedules a look at the cloud for its next event.
func (k *machines) watch(m *market) {
	next, found := m.cloud.Next()
	if !found || m.watched.After(k.agenda.now) && !next.Before(m.watched) {
		return
	}
	m.watched = next
	k.agenda.at(next, func() {
		if m.watched.Equal(next) {
			k.look(m)
			k.watch(m)
		}
	})
}

// look updates the world after changes in the cloud.
func (k *machines) look(m *market) {
	gone := m.gone()
	var moved []machine // the machines that are starting or gone, because nothing changes for the others
	for _, x := range m.running.list {
		if !x.ready || gone[x.id] {
			moved = append(moved, x)
		}
	}
	for _, x := range moved {
		if boot, found := m.cloud.Boot(x.id); found {
			k.join(m, x, boot)
		} else {
			k.end(m, x)
		}
	}
	for _, x := range m.cloud.NodeFaults() {
		k.carryOut(m, x)
	}
	for _, n := range m.cloud.Notices() {
		m.cloud.Acknowledge(n.ID)
		k.interrupt(n.Machine)
	}
}

// join registers the node of a starting machine, or makes it ready, when it is time.
func (k *machines) join(m *market, x machine, boot simulated.Boot) {
	now, before := k.agenda.now, x
	if !x.seat && !boot.Leaving && !boot.Registers.IsZero() && !boot.Registers.After(now) {
		k.show(m, x.id, x.claim)
		x.seat = true
	}
	if x.seat && !x.ready && !boot.Held && !boot.Ready.IsZero() && !boot.Ready.After(now) {
		if s := k.cluster.seats[k.nodeNamed(x)]; s != nil && s.alive {
			k.nodes.makeReady(s)
		}
		x.ready = true
	}
	if x != before {
		m.running.put(string(x.id), x)
	}
}

// end removes a machine that has ended: its nodes are lost.
func (k *machines) end(m *market, x machine) {
	m.running.remove(string(x.id))
	k.meter.machines--
	k.meter.ledger.close(x.id)
	for _, name := range []string{k.nodeNamed(x), k.nodeNamed(x) + simulated.SecondSuffix} {
		if s := k.cluster.seats[name]; s != nil && s.node.Spec.ProviderID == string(x.id) && s.alive {
			k.nodes.lose(s)
		}
	}
	k.pending.claims.add(x.claim)
}

// interrupt deletes the claim of a machine for which the cloud has sent a notice.
func (k *machines) interrupt(id engine.MachineID) {
	k.meter.interrupted()
	if name, ok := k.cluster.claimByID[string(id)]; ok {
		if s := k.cluster.seats[name]; s != nil {
			k.meter.losses.add(s, k.agenda.now)
		}
		k.claims.delete(name, "interrupted")
	}
}

// show registers the node of a machine. show ignores a machine without a claim, because collect removes this machine.
func (k *machines) show(m *market, id engine.MachineID, claimName string) {
	claim, ok := k.cluster.claims.get(claimName)
	machine, allocatable, found := m.cloud.Inspect(id)
	if !ok || !found || claim.DeletionTimestamp != nil || machine.Leaving || k.cluster.seats[claimName] != nil {
		return
	}
	labels := maps.Clone(claim.Labels)
	for _, r := range claim.Spec.Requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(labels, machine.Labels)
	labels[corev1.LabelHostname] = claimName
	serial := k.cluster.nextID()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName, UID: types.UID(fmt.Sprintf("node/%s/%d", claimName, serial)), ResourceVersion: strconv.Itoa(serial),
			Labels: labels, CreationTimestamp: metav1.NewTime(k.agenda.now),
		},
		Spec: corev1.NodeSpec{ProviderID: string(id), Taints: []corev1.Taint{
			{Key: v1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Capacity: machine.Capacity, Allocatable: allocatable, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(k.agenda.now)},
		}},
	}
	m.cloud.Dress(node)
	k.nodes.add(k.cluster.newSeat(node))
}

// nodeNamed returns the name of a machine's node.
func (k *machines) nodeNamed(x machine) string {
	if name, ok := k.nodeNames[x.id]; ok {
		return name
	}
	return x.claim
}

// collect removes machines without claims, and claims without machines.
func (k *machines) collect(ctx context.Context) {
	for _, m := range k.markets.list {
		if m.provider == nil {
			continue
		}
		machines, err := m.provider.Machines(ctx)
		if err != nil {
			continue // throttled: the next round tries again
		}
		s := k.cluster.snapshot(ctx)
		claims := s.NodeClaims
		for _, orphan := range lifecycle.Orphans(claims, s.Nodes, machines, "", k.agenda.now) {
			k.laws.violate("machine %s has no claim", orphan.Machine.ID)
			if orphan.Terminate {
				_ = m.provider.Terminate(ctx, orphan.Machine.ID) // what failed is tried again by the next round
				k.stir(m)
			}
		}
		for _, claim := range lifecycle.Lost(claims, s.Nodes, machines) {
			if k.markets.of(claim) == m {
				k.claims.delete(claim.Name, engine.CauseGarbageCollected)
			}
		}
	}
	k.agenda.after(collectEvery, func() { k.collect(ctx) })
}

// adopt adds a node's machine to the simulated cloud.
func (k *machines) adopt(s *seat) {
	claim := k.cluster.claimOf(s)
	if claim == nil {
		return
	}
	id := engine.MachineID(s.node.Spec.ProviderID)
	k.nodeNames[id] = s.node.Name
	k.adoptMachine(claim, s.node.Labels, time.Time{})
}

// adoptStarting adds a machine without a node to the simulated cloud.
func (k *machines) adoptStarting(c *v1.NodeClaim) {
	if c.Status.ProviderID == "" || k.cluster.seatOf(c) != nil || c.DeletionTimestamp != nil {
		return
	}
	k.adoptMachine(c, c.Labels, k.agenda.now.Add(30*time.Second))
	k.await(c.Name)
}

func (k *machines) adoptMachine(c *v1.NodeClaim, labels map[string]string, registers time.Time) {
	m := k.markets.of(c)
	if m == nil {
		return
	}
	id := engine.MachineID(c.Status.ProviderID)
	x := engine.Machine{ID: id, Claim: c.Name, ClaimUID: string(c.UID), Labels: machineLabels(labels, m), Created: c.CreationTimestamp.Time,
		Capacity: c.Status.Capacity, Allocatable: c.Status.Allocatable}
	m.cloud.Adopt(x, simulated.OfferingOf(engine.Machine{Labels: labels}), later(registers, k.agenda.now))
	seat := k.cluster.seatOf(c)
	m.running.put(string(id), machine{id: id, claim: c.Name, seat: seat != nil, ready: seat != nil && isNodeReady(seat.node)})
	k.meter.machines++
	k.meter.ledger.open(id, c, m, Booting, 0)
	k.meter.ledger.follow(c, k.claims.causeOf(c.Name))
	k.watch(m)
	if seat != nil && !isNodeReady(seat.node) {
		k.agenda.after(time.Minute, func() { k.look(m) })
	}
}

// machineLabels returns the labels of a node that follow from the choice of its machine.
func machineLabels(labels map[string]string, m *market) map[string]string {
	out := map[string]string{}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey} {
		out[key] = labels[key]
	}
	for i := range m.class.InstanceTypes {
		if t := &m.class.InstanceTypes[i]; t.Name == labels[corev1.LabelInstanceTypeStable] {
			for key := range t.Labels {
				if value, ok := labels[key]; ok {
					out[key] = value
				}
			}
		}
	}
	return out
}
