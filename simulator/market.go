package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
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

// price returns the price of a machine with the labels now, with the fixed cost of a node.
func (x *markets) price(m *market, labels map[string]string) float64 {
	return m.cloud.Price(simulated.OfferingOf(engine.Machine{Labels: labels})) + x.overhead
}
