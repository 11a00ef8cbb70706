package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
	"tenon.sh/scenario"
)

// market is the cloud of one node class.
type market struct {
	class    engine.Class
	cloud    *simulated.Cloud
	provider *simulated.Provider
	marks    map[engine.OfferingID]*soldOut
	// running are the machines that the world knows of, by ID, with their claims.
	running shelf[machine]
	watched time.Time // when the world looks at the cloud next
	stirred bool      // a look is scheduled for this instant
	ends    int       // the number of ended machines at the last look
	// listed is the catalog for plans, made of source and valid before until; labels are the labels of each type in it.
	source, listed []engine.InstanceType
	until          time.Time
	labels         map[string]map[string][]string
}

type machine struct {
	id    engine.MachineID
	claim string
	seat  bool // its node has registered
	ready bool
}

// soldOut holds the time until which an offering is left alone; the wait doubles with every refusal.
type soldOut struct {
	until time.Time
	times int
}

const soldOutFirst, soldOutMost = 3 * time.Minute, 30 * time.Minute

// markets is the cloud: all markets, one for each list of instance types of a node class.
type markets struct {
	list     []*market
	overhead float64 // the fixed cost of a node beside its machine, in USD per hour
}

// openMarkets opens the market of each class. devices returns the devices that drivers publish on a claim's machine.
func openMarkets(cfg *Config, clock *clock, base *engine.Snapshot, devices func(claim string, t *engine.InstanceType) []device.Template) (*markets, error) {
	x := &markets{overhead: base.NodeOverheadPrice}
	named := mentioned(cfg, base)
	var faults []simulated.Fault
	for _, f := range cfg.Course.Faults {
		faults = append(faults, faultOf(f, cfg.WarmUp))
	}
	profile, err := simulated.ProfileByName(cfg.profile())
	if err != nil {
		return nil, err
	}
	for _, class := range base.Classes {
		m := &market{class: class, marks: map[engine.OfferingID]*soldOut{}, running: newShelf[machine]()}
		x.list = append(x.list, m)
		types := usable(class, base.NodePools)
		if len(types) == 0 {
			continue
		}
		slices.SortFunc(types, func(a, b engine.InstanceType) int { return cmpText(a.Name, b.Name) })
		m.cloud, err = simulated.NewCloud(simulated.Config{Seed: cfg.Seed, Clock: clock, Catalog: types, Profile: profile, Faults: faults, Devices: devices})
		if err != nil {
			return nil, fmt.Errorf("node class %s: %w", class.Ref.Name, err)
		}
		m.provider, m.labels = simulated.New(m.cloud), plainLabels(types, named)
	}
	return x, nil
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// faultOf turns a scenario's fault into one of the simulated cloud. Its time counts from the beginning of measuring.
func faultOf(f scenario.Fault, from time.Duration) simulated.Fault {
	out := simulated.Fault{What: f.What, Share: f.Share, Factor: f.Factor, Count: f.Count, Parts: f.Parts, Resource: f.Resource, Driver: f.Driver, Taint: f.Taint, Label: f.Label, Selector: simulated.Selector{
		InstanceType: f.InstanceType, Family: f.Family, Zone: f.Zone, CapacityType: f.CapacityType, Machine: f.Machine, Call: f.CloudAPI,
	}}
	out.At.Duration, out.For.Duration, out.Lag.Duration = f.At+from, f.For, f.Lag
	return out
}

// of returns the market in which a claim's machine is bought. A catalog that NodeOverlays correct for the claim's pool is a
// market of its own, with the corrected prices and resources.
func (x *markets) of(claim *v1.NodeClaim) *market {
	ref, pool := claim.Spec.NodeClassRef, claim.Labels[v1.NodePoolLabelKey]
	var listed *market
	for _, m := range x.list {
		if ref == nil || m.class.Ref != *ref || m.cloud == nil {
			continue
		}
		if slices.Contains(m.class.Pools, pool) {
			return m
		}
		if len(m.class.Pools) == 0 {
			listed = m
		}
	}
	return listed
}

// seller returns the market in which a machine runs. It returns nil if there is none.
func (x *markets) seller(id engine.MachineID) *market {
	for _, m := range x.list {
		if _, ok := m.running.get(string(id)); ok {
			return m
		}
	}
	return nil
}

// launch starts the machine of a claim. If no offering is available, it deletes the claim. more reports whether another step may follow at once;
// otherwise retry is the time until the next try.
func (w *World) launch(ctx context.Context, claim *v1.NodeClaim) (more bool, retry time.Duration) {
	m := w.markets.of(claim)
	if m == nil {
		w.claims.delete(claim.Name, engine.CauseNodeClassNotReady)
		return true, 0
	}
	class := provider.Class{Ref: m.class.Ref, Object: &kwokv1alpha1.KWOKNodeClass{}}
	started, err := m.provider.Launch(ctx, claim, class)
	var refused *provider.SoldOutError
	switch {
	case errors.As(err, &refused):
		m.mark(refused.Offerings, w.agenda.now)
		w.meter.Refused++
		w.claims.delete(claim.Name, engine.CauseInsufficientCapacity)
		return true, 0
	case err != nil:
		return false, retryOf(err)
	}
	w.meter.launched()
	w.meter.machines++
	m.running.put(string(started.ID), machine{id: started.ID, claim: claim.Name})
	launched := lifecycle.Launched(claim, started, w.agenda.now)
	w.meter.ledger.open(started.ID, launched, m, w.boots(claim), w.claims.listed[claim.Name])
	delete(w.claims.listed, claim.Name)
	w.claims.set(launched)
	w.await(claim.Name)
	w.stir(m)
	return true, 0
}

// boots returns the cause to which the cost of the boot of a claim's machine is added.
func (w *World) boots(claim *v1.NodeClaim) CauseName {
	switch {
	case claim.Annotations[v1.ReplacesAnnotationKey] != "":
		return Replacing
	case w.meter.ledger.lost > 0:
		w.meter.ledger.lost--
		return Lost
	}
	return Booting
}

// await schedules a plan every awaitEvery while pods wait and the claim's machine is not ready, because plans use that machine only for a time.
func (w *World) await(name string) {
	w.agenda.after(awaitEvery, func() {
		claim, ok := w.cluster.claims.get(name)
		if !ok || claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInitialized) {
			return
		}
		if len(w.cluster.unbound.list) > 0 {
			w.timetable.wantMachines()
		}
		w.await(name)
	})
}

func (m *market) mark(offerings []engine.OfferingID, now time.Time) {
	for _, id := range offerings {
		s := m.marks[id]
		switch {
		case s == nil || now.Sub(s.until) > time.Hour:
			s = &soldOut{}
			m.marks[id] = s
		case now.Before(s.until):
			continue
		}
		s.until = now.Add(min(soldOutFirst<<min(s.times, 10), soldOutMost))
		s.times++
	}
	m.listed = nil
}

// catalog returns the provider's list with the sold-out offerings marked. It returns the same slice until the list or the marks change.
func (m *market) catalog(ctx context.Context, now time.Time) []engine.InstanceType {
	if m.provider == nil {
		return m.class.InstanceTypes
	}
	types, err := m.provider.Catalog(ctx, provider.Class{Ref: m.class.Ref})
	if err != nil {
		return m.class.InstanceTypes // only a context that has ended fails
	}
	if m.listed == nil || &m.source[0] != &types[0] || !m.until.IsZero() && !now.Before(m.until) {
		m.source, m.listed, m.until = types, plainTypes(types, m.labels), time.Time{}
		m.showMarks(now)
	}
	return m.listed
}

// showMarks marks the offerings that are sold out now.
func (m *market) showMarks(now time.Time) {
	marked := map[string]bool{}
	for id, s := range m.marks {
		marked[id.InstanceType] = marked[id.InstanceType] || now.Before(s.until)
	}
	for i := range m.listed {
		t := &m.listed[i]
		if !marked[t.Name] {
			continue
		}
		cloned := false
		for j, o := range t.Offerings {
			s := m.marks[engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}]
			if s == nil || !now.Before(s.until) || o.SoldOut {
				continue
			}
			if !cloned {
				t.Offerings, cloned = slices.Clone(t.Offerings), true
			}
			t.Offerings[j].SoldOut = true
			if m.until.IsZero() || s.until.Before(m.until) {
				m.until = s.until
			}
		}
	}
}

// stir looks at the cloud at once after a call, and then watches it.
func (w *World) stir(m *market) {
	if !m.stirred {
		m.stirred = true
		w.agenda.after(0, func() {
			m.stirred = false
			w.look(m)
			w.watchCloud(m)
		})
	}
}

// watchCloud schedules a look at the cloud for its next event.
func (w *World) watchCloud(m *market) {
	next, found := m.cloud.Next()
	if !found || m.watched.After(w.agenda.now) && !next.Before(m.watched) {
		return
	}
	m.watched = next
	w.agenda.at(next, func() {
		if m.watched.Equal(next) {
			w.look(m)
			w.watchCloud(m)
		}
	})
}

// look updates the world after changes in the cloud.
func (w *World) look(m *market) {
	now := w.agenda.now
	gone := m.gone()
	var moved []machine // the machines that are starting or gone, because nothing changes for the others
	for _, x := range m.running.list {
		if !x.ready || gone[x.id] {
			moved = append(moved, x)
		}
	}
	for _, x := range moved {
		boot, found := m.cloud.Boot(x.id)
		if !found {
			m.running.remove(string(x.id))
			w.meter.machines--
			w.meter.ledger.close(x.id)
			for _, name := range []string{w.nodeNamed(x), w.nodeNamed(x) + simulated.SecondSuffix} {
				if s := w.cluster.seats[name]; s != nil && s.node.Spec.ProviderID == string(x.id) && s.alive {
					w.nodes.lose(s)
				}
			}
			w.pending.claims.add(x.claim)
			continue
		}
		before := x
		if !x.seat && !boot.Leaving && !boot.Registers.IsZero() && !boot.Registers.After(now) {
			w.show(m, x.id, x.claim)
			x.seat = true
		}
		if x.seat && !x.ready && !boot.Held && !boot.Ready.IsZero() && !boot.Ready.After(now) {
			if s := w.cluster.seats[w.nodeNamed(x)]; s != nil && s.alive {
				w.nodes.makeReady(s)
			}
			x.ready = true
		}
		if x != before {
			m.running.put(string(x.id), x)
		}
	}
	for _, x := range m.cloud.NodeFaults() {
		w.carryOut(m, x)
	}
	for _, n := range m.cloud.Notices() {
		m.cloud.Acknowledge(n.ID)
		w.meter.Interrupted++
		w.meter.ledger.lost++
		if name, ok := w.cluster.claimByID[string(n.Machine)]; ok {
			if s := w.cluster.seats[name]; s != nil {
				w.meter.losses.add(s, now)
			}
			w.claims.delete(name, "interrupted")
		}
	}
}

// gone returns the machines in running that have ended.
func (m *market) gone() map[engine.MachineID]bool {
	ends := m.cloud.Ends()
	if ends == m.ends {
		return nil
	}
	m.ends = ends
	ids := make([]engine.MachineID, 0, len(m.running.list))
	for _, x := range m.running.list {
		ids = append(ids, x.id)
	}
	out := map[engine.MachineID]bool{}
	for _, id := range m.cloud.Gone(ids) {
		out[id] = true
	}
	return out
}

// nodeNamed returns the name of a machine's node.
func (w *World) nodeNamed(x machine) string {
	if name, ok := w.nodeNames[x.id]; ok {
		return name
	}
	return x.claim
}

// price returns the price of a machine with the labels now, with the fixed cost of a node.
func (x *markets) price(m *market, labels map[string]string) float64 {
	return m.cloud.Price(simulated.OfferingOf(engine.Machine{Labels: labels})) + x.overhead
}
