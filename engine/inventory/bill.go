package inventory

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Bill is the assignment of commitments to the running machines, as clouds do it: commitments for machines come before commitments for amounts, and
// within each kind the use that saves most comes first. Running machines come before the launches of a plan.
type Bill struct {
	Commitments []kube.Commitment // that have not ended
	// Left is the unused part of each commitment, in the commitment's own units.
	Left []float64
	uses []engine.CommitmentUse
	// shares is the share of a machine's price that commitments pay, by the machine's name.
	shares map[string]float64
}

// covering is a pair of a commitment and a machine for which it may pay.
type covering struct {
	of    int // the index of the commitment
	h     *Machine
	price float64 // the machine's price without the commitment
	units float64
}

// BillOf bills the machines that are not removed. Machines that are being removed, even if only in a trial, free the commitments that paid for them.
// As long as these machines exist, they use the part that the others leave.
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
	for _, m := range machines {
		if !m.Gone && !m.Supposed {
			list = b.coverings(list, m, prices)
		}
	}
	slices.SortStableFunc(list, func(x, y covering) int {
		cx, cy := b.Commitments[x.of], b.Commitments[y.of]
		return cmp.Or(
			cmp.Compare(leaves(x.h), leaves(y.h)), cmp.Compare(min(cy.Machines, 1), min(cx.Machines, 1)), cmp.Compare(x.units/x.price*cx.UnitPrice(), y.units/y.price*cy.UnitPrice()), cmp.Compare(y.price, x.price), cmp.Compare(x.of, y.of),
			// Commitments pay for the machines in this order. So the machines that should stay come first: those for which stays returns 1, then those with most pods.
			cmp.Compare(stays(y.h), stays(x.h)), cmp.Compare(len(y.h.Bound), len(x.h.Bound)), CompareMachineNames(x.h.MachineInfo, y.h.MachineInfo))
	})
	left := b.Left
	for _, x := range list {
		if x.h.Leaving && &left[0] == &b.Left[0] { // all machines that are not leaving have had their turn
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

// leaves returns 1 for a machine that is being removed, and 0 for others.
func leaves(m *Machine) int {
	if m.Leaving {
		return 1
	}
	return 0
}

// stays returns 1 for a machine that Tenon may not remove or that has protected pods, and 0 for others.
func stays(m *Machine) int {
	if m.Claim == nil || slices.ContainsFunc(m.Pods.Infos, func(info *PodInfo) bool { return info.Guarded }) {
		return 1
	}
	return 0
}

// coverings adds the commitments that may pay for the machine.
func (b *Bill) coverings(list []covering, m *Machine, prices *PriceBook) []covering {
	t, o := prices.soldAs(m)
	if o == nil {
		return list
	}
	for i := range b.Commitments {
		c := &b.Commitments[i]
		units, ok := c.Takes(t.Name, o.KnownPrice())
		if ok && c.Covers(o, func(key string) (string, bool) { return kube.MachineLabel(m.Labels, t, o, key) }) {
			list = append(list, covering{i, m, o.Price, units})
		}
	}
	return list
}

// soldAs returns the machine's offering. Until the machine is launched, it returns the cheapest possible offering, and nil if none is known.
func (b *PriceBook) soldAs(m *Machine) (*engine.InstanceType, *engine.Offering) {
	if m.Open == nil {
		id := MachineOffering(m.Labels)
		t := b.anyType[id.InstanceType]
		if m.Claim != nil {
			t = m.Sold
		}
		if t == nil {
			return nil, nil
		}
		if m.Claim == nil {
			return t, b.offering(id, m.Labels, nil)
		}
		return t, b.offering(id, m.Labels, m.Claim.Spec.NodeClassRef)
	}
	var kind *engine.InstanceType
	var cheapest *engine.Offering
	for _, t := range m.Open.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; !o.SoldOut && m.Open.Allows(o) && (cheapest == nil || o.Price < cheapest.Price) {
				kind, cheapest = t, o
			}
		}
	}
	return kind, cheapest
}

// take books the part of a commitment that a machine uses; price is the machine's price without the commitment.
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

// Start books a launch for which the commitment of that name pays, as the offering of the launch that uses most of the commitment.
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

// Price returns the part of the machine's price that commitments do not pay. usd is the price without commitments, and overhead is the part of usd
// that does not depend on the machine.
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

// Uses returns the use of all commitments of the snapshot, in order of their names.
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

// CommitmentUses returns the use of the snapshot's commitments, in order of their names, if no machine is started.
func CommitmentUses(s *engine.Snapshot) []engine.CommitmentUse { return BillOfSnapshot(s).Uses(s) }

// BillOfSnapshot bills the machines of the snapshot.
func BillOfSnapshot(s *engine.Snapshot) *Bill {
	if len(s.Commitments) == 0 {
		return &Bill{}
	}
	cache := &Cache{}
	return BillOf(s, cache, MachinesOf(s, cache.Take(s, 1)))
}

// problem returns why the commitment may be useless: no class sells machines that it covers, or they cost less without it.
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
