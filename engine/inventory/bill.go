package inventory

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Bill says what commitments pay of the machines that run, as clouds do it: the commitments for machines come first, then the amounts;
// of each kind what saves most. What runs counts before what a plan starts.
type Bill struct {
	Commitments []kube.Commitment // that have not ended
	// Left is what each has left for more machines, in its own units.
	Left []float64
	uses []engine.CommitmentUse
	// shares is how much of its price a machine does not cost, by its name.
	shares map[string]float64
}

// covering is a machine that a commitment may pay for.
type covering struct {
	of    int // the commitment
	h     *Machine
	price float64 // without it
	units float64
}

// BillOf bills the machines that stay. Those that go, also in a trial only, free what paid for them: as long as they are there, they have
// what the others leave.
func BillOf(s *engine.Snapshot, cache *Cache, machines []*Machine) *Bill {
	b := &Bill{Commitments: kube.CommitmentsOf(s), shares: map[string]float64{}}
	if len(b.Commitments) == 0 {
		return b
	}
	for _, c := range b.Commitments {
		b.Left = append(b.Left, c.Here())
		b.uses = append(b.uses, engine.CommitmentUse{
			Name: c.Name, CommittedPerHour: (c.Here() + c.UsedElsewhere) * c.UnitPrice(), ElsewherePerHour: c.UsedElsewhere * c.UnitPrice(),
		})
	}
	var list []covering
	prices := cache.CatalogsOf(s).prices
	for _, h := range machines {
		if !h.Gone && !h.Supposed {
			list = b.coverings(list, h, prices)
		}
	}
	slices.SortStableFunc(list, func(x, y covering) int {
		cx, cy := b.Commitments[x.of], b.Commitments[y.of]
		return cmp.Or(
			cmp.Compare(leaves(x.h), leaves(y.h)), cmp.Compare(min(cy.Machines, 1), min(cx.Machines, 1)), cmp.Compare(x.units/x.price*cx.UnitPrice(), y.units/y.price*cy.UnitPrice()), cmp.Compare(y.price, x.price), cmp.Compare(x.of, y.of),
			// Of machines alike those that stay, then those with most pods: the others are left to go first.
			cmp.Compare(stays(y.h), stays(x.h)), cmp.Compare(len(y.h.Bound), len(x.h.Bound)), CompareMachineNames(x.h.MachineInfo, y.h.MachineInfo))
	})
	left := b.Left
	for _, x := range list {
		if x.h.Leaving && &left[0] == &b.Left[0] { // all that stay have had their turn
			left = slices.Clone(b.Left)
		}
		part := min(1-b.shares[x.h.Name()], left[x.of]/x.units)
		if b.Commitments[x.of].Machines > 0 {
			part = math.Floor(part) // no part of a machine is reserved
		}
		if part <= 0 {
			continue
		}
		b.shares[x.h.Name()] += part
		if x.h.Leaving {
			left[x.of] -= part * x.units
			continue
		}
		b.take(x.of, part*x.units, part*x.price)
	}
	return b
}

// leaves is 1 for a machine that goes, else 0.
func leaves(h *Machine) int {
	if h.Leaving {
		return 1
	}
	return 0
}

// stays is 1 for a machine that is not ours to remove, or has pods that something protects, else 0.
func stays(h *Machine) int {
	if h.Claim == nil || slices.ContainsFunc(h.Pods.Infos, func(f *PodInfo) bool { return f.Guarded }) {
		return 1
	}
	return 0
}

// coverings adds what may pay for the machine.
func (b *Bill) coverings(list []covering, h *Machine, prices *PriceBook) []covering {
	t, o := prices.soldAs(h)
	if o == nil {
		return list
	}
	for i := range b.Commitments {
		c := &b.Commitments[i]
		units, ok := c.Takes(t.Name, o.KnownPrice())
		if ok && c.Covers(o, func(key string) (string, bool) { return kube.MachineLabel(h.Labels, t, o, key) }) {
			list = append(list, covering{i, h, o.Price, units})
		}
	}
	return list
}

// soldAs is what the machine is sold as, or, until it is launched, the cheapest that it may turn out to be; nil if nobody knows.
func (b *PriceBook) soldAs(h *Machine) (*engine.InstanceType, *engine.Offering) {
	if h.Open == nil {
		id := MachineOffering(h.Labels)
		t := b.anyType[id.InstanceType]
		if h.Claim != nil {
			t = h.Sold
		}
		if t == nil {
			return nil, nil
		}
		if h.Claim == nil {
			return t, b.offering(id, h.Labels, nil)
		}
		return t, b.offering(id, h.Labels, h.Claim.Spec.NodeClassRef)
	}
	var kind *engine.InstanceType
	var cheapest *engine.Offering
	for _, t := range h.Open.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; !o.SoldOut && h.Open.Allows(o) && (cheapest == nil || o.Price < cheapest.Price) {
				kind, cheapest = t, o
			}
		}
	}
	return kind, cheapest
}

// take books what a machine uses of a commitment that would cost so much without.
func (b *Bill) take(i int, units, price float64) {
	b.Left[i] = max(0, b.Left[i]-units)
	if b.Left[i] < 1e-9 { // the last digits are no money
		b.Left[i] = 0
	}
	u := &b.uses[i]
	u.Machines++
	u.UsedPerHour += units * b.Commitments[i].UnitPrice()
	u.InsteadPerHour += price
}

// Start books a launch that the commitment of that name pays for: what it takes most of what it may turn out to be.
func (b *Bill) Start(name string, instanceTypes []string, prices []float64) {
	i := slices.IndexFunc(b.Commitments, func(c kube.Commitment) bool { return c.Name == name })
	if i < 0 {
		return
	}
	most, price := 0.0, 0.0
	for k, t := range instanceTypes {
		if units, ok := b.Commitments[i].Takes(t, prices[k]); ok && units > most {
			most, price = units, prices[k]
		}
	}
	used := b.uses[i].UsedPerHour
	b.take(i, min(most, b.Left[i]), price)
	b.uses[i].LaunchesPerHour += b.uses[i].UsedPerHour - used
	b.uses[i].UsedPerHour = used
}

// Price is what the machine of that name costs beside what is paid anyway, if it costs so much without any commitment, and overhead of that
// whatever its machine is.
func (b *Bill) Price(name string, usd, overhead float64) float64 {
	switch share := b.shares[name]; {
	case share == 0 || usd <= overhead:
		return usd
	case share > 1-1e-9:
		return (usd-overhead)*engine.CoveredPart + overhead
	default:
		return (usd-overhead)*(1-share) + overhead
	}
}

// Uses says what becomes of all commitments of the snapshot, in order of their names.
func (b *Bill) Uses(s *engine.Snapshot) []engine.CommitmentUse {
	var out []engine.CommitmentUse
	for i, u := range b.uses {
		u.IdlePerHour = b.Left[i] * b.Commitments[i].UnitPrice()
		u.Problem = b.problem(s, i)
		out = append(out, u)
	}
	for i := range s.Commitments {
		if c := &s.Commitments[i]; c.HasEnded(s.Now) {
			out = append(out, engine.CommitmentUse{Name: c.Name, Problem: "it has ended: remove it"})
		}
	}
	slices.SortFunc(out, func(a, b engine.CommitmentUse) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// CommitmentUses says what becomes of the snapshot's commitments, in order of their names, if nothing is started.
func CommitmentUses(s *engine.Snapshot) []engine.CommitmentUse { return BillOfSnapshot(s).Uses(s) }

// BillOfSnapshot bills the machines of the snapshot.
func BillOfSnapshot(s *engine.Snapshot) *Bill {
	if len(s.Commitments) == 0 {
		return &Bill{}
	}
	cache := &Cache{}
	return BillOf(s, cache, MachinesOf(s, cache.Take(s, 1)))
}

// problem says why the commitment may be of no use: no class sells what it covers, or only for less.
func (b *Bill) problem(s *engine.Snapshot, i int) string {
	c, sold := &b.Commitments[i], false
	for j := range s.Classes {
		for k := range s.Classes[j].InstanceTypes {
			t := &s.Classes[j].InstanceTypes[k]
			for l := range t.Offerings {
				o := &t.Offerings[l]
				if !(o.KnownPrice() > 0) || !c.MayCover(t, o) {
					continue
				}
				units, ok := c.Takes(t.Name, o.Price)
				if ok && units*c.UnitPrice() <= o.Price {
					return ""
				}
				sold = true
			}
		}
	}
	if sold {
		return "it costs more than the machines that it covers cost without"
	}
	return "no node class sells a machine that it covers"
}
