package provisioning

import (
	"fmt"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// limitedSupplies holds the indexes of limited supplies among the quotas of the packing problem.
type limitedSupplies struct {
	reservations map[string]int // by the name of the capacity reservation
	quotas       map[string]int // by the name of the cloud's quota, for those that may run out
	rationed     []rationed     // the same quotas
}

// ration assigns an index to each limited supply of the pools' offerings: capacity reservations, of which every machine takes one slot, commitments,
// and the clouds' quotas. It leaves out quotas that last even if every pod has a machine to itself, because they do not change the plan.
func (p *Problem) ration() {
	p.reserve()
	p.commit()
	p.supplies.quotas = map[string]int{}
	quotas := p.Pods.Cache.QuotasOf(p.Snapshot, p.Machines)
	if quotas == nil {
		return
	}
	begun := p.begun()
	pods := int64(0)
	for _, c := range p.Classes {
		pods += int64(len(c.Pods))
	}
	most := p.mostUnits()
	for _, name := range kube.SortedKeys(quotas) {
		q := quotas[name]
		q.Left -= begun[name]
		if most[name] == 0 || q.Left >= pods*most[name] {
			continue
		}
		p.supplies.quotas[name] = len(p.Packing.Quotas)
		p.Packing.Quotas = append(p.Packing.Quotas, int(q.Left))
		p.supplies.rationed = append(p.supplies.rationed, rationed{len(p.Packing.Quotas) - 1, q})
	}
}

// rationed is a cloud's quota that may run out, and its index.
type rationed struct {
	at int
	engine.Quota
}

// begun returns the units of each quota that the trial's launches take. For each launch, it uses the listed offering that takes most.
func (rd *Reading) begun() map[string]int64 {
	out := map[string]int64{}
	if rd.trial == nil {
		return out
	}
	types, pools := rd.Pods.Cache.TypesOf(rd.Snapshot), kube.PoolsByName(rd.Snapshot)
	for _, l := range rd.trial.Begun {
		class, most := pools[l.NodePool].Spec.Template.Spec.NodeClassRef, map[string]int64{}
		for _, o := range l.Offerings {
			for _, u := range types.Find(class, l.NodePool, o.InstanceType).Find(o.OfferingID).Quotas {
				most[u.Quota] = max(most[u.Quota], u.Units)
			}
		}
		for name, n := range most {
			out[name] += n
		}
	}
	return out
}

// mostUnits returns the most units of each quota that one machine takes.
func (p *Problem) mostUnits() map[string]int64 {
	out := map[string]int64{}
	var last *engine.QuotaUse
	for _, pool := range p.Pools {
		for i := range pool.Class.InstanceTypes {
			kind := &pool.Class.InstanceTypes[i]
			for j := range kind.Offerings {
				uses := kind.Offerings[j].Quotas
				if len(uses) == 0 || &uses[0] == last { // most offerings share one list
					continue
				}
				last = &uses[0]
				for _, u := range uses {
					out[u.Quota] = max(out[u.Quota], u.Units)
				}
			}
		}
	}
	return out
}

// reserve assigns an index to each capacity reservation of the pools' offerings. If offerings name one reservation with different numbers of slots,
// it uses the smallest number. Machines that have been requested and not yet launched hold their slots.
func (p *Problem) reserve() {
	slots := map[string]int{}
	for _, pool := range p.Pools {
		for i := range pool.Class.InstanceTypes {
			kind := &pool.Class.InstanceTypes[i]
			for j := range kind.Offerings {
				o := &kind.Offerings[j]
				if o.Reservation == "" {
					continue
				}
				if n, ok := slots[o.Reservation]; !ok || o.Slots < n {
					slots[o.Reservation] = o.Slots
				}
			}
		}
	}
	if p.trial != nil && p.trial.Freed != "" {
		slots[p.trial.Freed]++
	}
	p.supplies.reservations = map[string]int{}
	for i, name := range kube.SortedKeys(slots) {
		p.supplies.reservations[name] = i
		p.Packing.Quotas = append(p.Packing.Quotas, slots[name])
	}
	for _, m := range p.Machines {
		if m.Open == nil || m.Leaving {
			continue
		}
		if at, ok := p.supplies.reservations[reservationOf(m.Open)]; ok {
			p.Packing.Quotas[at]--
		}
	}
	if p.trial == nil {
		return
	}
	for _, l := range p.trial.Begun {
		if at, ok := p.supplies.reservations[l.Offerings[0].Reservation]; ok {
			p.Packing.Quotas[at]--
		}
	}
}

// reservationOf returns the reservation that the claim's machine may draw from and that does not include the machine yet. It returns "" if there is
// none. If the claim leaves the offering open, its machine uses a reservation first. A MachineDeployment that has been scaled includes the machine.
func reservationOf(o *inventory.OpenLabels) string {
	if o.Claim.Annotations[v1.MachineDeploymentAnnotationKey] != "" {
		return ""
	}
	for _, kind := range o.Types {
		for i := range kind.Offerings {
			if offering := &kind.Offerings[i]; offering.Reservation != "" && o.Allows(offering) {
				return offering.Reservation
			}
		}
	}
	return ""
}

// drawsOf returns the units of limited supplies that a machine of the offering takes, and whether the supplies have enough at the start of the plan.
func (p *Problem) drawsOf(o *engine.Offering) (draws []packing.Draw, available bool) {
	if at, ok := p.supplies.reservations[o.Reservation]; ok && o.Reservation != "" {
		draws = append(draws, packing.Draw{Quota: at, Units: 1})
	}
	for _, u := range o.Quotas {
		if at, bounded := p.supplies.quotas[u.Quota]; bounded && u.Units > 0 {
			draws = append(draws, packing.Draw{Quota: at, Units: int(u.Units)})
		}
	}
	return draws, !slices.ContainsFunc(draws, func(d packing.Draw) bool { return d.Units > p.Packing.Quotas[d.Quota] })
}

// spare returns, by the quota's index, the units that are left after the solution's machines are started.
func (an *answer) spare(s *packing.Solution) []int {
	left := slices.Clone(an.Packing.Quotas)
	for i := range s.New {
		for _, d := range an.Packing.Pools[s.New[i].Pool].Options[s.New[i].Chosen].Draws {
			left[d.Quota] -= d.Units
		}
	}
	return left
}

// hindered returns the options that only a quota of the cloud makes unavailable.
func (an *answer) hindered(pool *offering.Pool, options bitset.Set, spare []int) bitset.Set {
	out := bitset.New(len(pool.Options))
	if len(an.supplies.rationed) == 0 {
		return out
	}
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		if !pool.Options[o].Offering.SoldOut && an.exceeded(pool, o, spare) != nil {
			out.Add(o)
		}
	}
	return out
}

// exceeded returns the first quota that has too little for the option. It returns nil if there is none.
func (an *answer) exceeded(pool *offering.Pool, o int, spare []int) *rationed {
	for _, d := range pool.Model.Options[o].Draws {
		if i := slices.IndexFunc(an.supplies.rationed, func(q rationed) bool { return q.at == d.Quota }); i >= 0 && d.Units > spare[d.Quota] {
			return &an.supplies.rationed[i]
		}
	}
	return nil
}

// quotaRefusal returns the reason of the quota that keeps these options from being started, for the option that takes least of its quota.
func (an *answer) quotaRefusal(pool *offering.Pool, hindered bitset.Set, spare []int) engine.Reason {
	var quota *rationed
	least := 0
	for o := hindered.Next(0); o >= 0; o = hindered.Next(o + 1) {
		q := an.exceeded(pool, o, spare)
		for _, d := range pool.Model.Options[o].Draws {
			if d.Quota == q.at && (quota == nil || d.Units < least) {
				quota, least = q, d.Units
			}
		}
	}
	return QuotaReason(quota.Quota, int64(spare[quota.at]), int64(least))
}

// QuotaReason returns the reason that the quota has less left than a machine needs.
func QuotaReason(q engine.Quota, left, need int64) engine.Reason {
	r := engine.Reason{Code: engine.QuotaExceeded, Key: q.Name, Need: fmt.Sprint(need), Have: fmt.Sprintf("%d of %d left", max(0, left), q.Limit)}
	if q.Scope != "" {
		r.Key += " of " + q.Scope
	}
	if q.Unit != "" {
		r.Have = fmt.Sprintf("%d of %d %s left", max(0, left), q.Limit, q.Unit)
	}
	if q.More != "" {
		r.Need += "; " + q.More
	}
	return r
}
