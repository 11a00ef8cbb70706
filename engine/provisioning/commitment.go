package provisioning

import (
	"math"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// mostUnits exceeds the units that any plan takes of a commitment.
const mostUnits = 1e15

// commit adds the units that each commitment has left for new machines to the quotas. A used-up commitment is left out, because it does not change
// the plan. A commitment that lasts even if every pod has a machine to itself only changes prices, and needs no quota. In trials of which
// Trial.counts is true, each commitment has a quota, because the cost of moves follows from prices without commitments.
func (p *Problem) commit() {
	if len(p.Snapshot.Commitments) == 0 {
		return
	}
	bill := inventory.BillOf(p.Snapshot, p.Pods.Cache, p.Machines)
	if p.trial != nil {
		p.bookLaunches(bill, p.trial.Begun)
	}
	pods := 0
	for _, c := range p.Classes {
		pods += len(c.Pods)
	}
	for i, c := range bill.Commitments {
		cover := offering.Cover{Commitment: c, Quota: -1}
		left, most := cover.Units(bill.Left[i]), math.Ceil(cover.Units(p.mostOf(&c)))
		if left < 1 || most == 0 {
			continue
		}
		if left < float64(pods)*most || p.trial != nil && p.trial.counts() {
			cover.Quota = len(p.Packing.Quotas)
			p.Packing.Quotas = append(p.Packing.Quotas, int(min(left, mostUnits)))
		}
		p.cover = append(p.cover, cover)
	}
}

// mostOf returns the most units that one machine takes of the commitment. It returns 0 if the commitment covers no machine that is sold.
func (p *Problem) mostOf(c *kube.Commitment) float64 {
	most := 0.0
	for _, pool := range p.Pools {
		for i := range pool.Class.InstanceTypes {
			kind := &pool.Class.InstanceTypes[i]
			for j := range kind.Offerings {
				if o := &kind.Offerings[j]; c.MayCover(kind, o) {
					units, _ := c.Takes(kind.Name, o.KnownPrice())
					most = max(most, units)
				}
			}
		}
	}
	return most
}

// bookLaunches adds the launches that commitments pay for to the bill.
func (rd *Reading) bookLaunches(bill *inventory.Bill, launches []engine.Launch) {
	types, pools := rd.Pods.Cache.TypesOf(rd.Snapshot), kube.PoolsByName(rd.Snapshot)
	for _, l := range launches {
		if l.Commitment == "" {
			continue
		}
		var names []string
		var prices []float64
		for _, o := range l.Offerings {
			t := types.Find(pools[l.NodePool].Spec.Template.Spec.NodeClassRef, l.NodePool, o.InstanceType)
			names, prices = append(names, t.Name), append(prices, t.Find(o.OfferingID).Price)
		}
		bill.Start(l.Commitment, names, prices)
	}
}

// usesOfCommitments returns the uses of the snapshot's commitments once the launches run.
func (p *Problem) usesOfCommitments(s *engine.Snapshot, launches []engine.Launch) []engine.CommitmentUse {
	if len(s.Commitments) == 0 {
		return nil
	}
	bill := inventory.BillOf(s, p.Pods.Cache, p.Machines)
	p.bookLaunches(bill, launches)
	return bill.Uses(s)
}

// relief returns the most that covered machines can save, in USD per hour.
func (p *Problem) relief() float64 {
	perUnit := make([]float64, len(p.Packing.Quotas))
	for _, pool := range p.Pools {
		for i := range pool.Options {
			if o := &pool.Model.Options[i]; o.Covered {
				d := o.Draws[len(o.Draws)-1]
				perUnit[d.Quota] = max(perUnit[d.Quota], pool.Options[i].Offering.Price/float64(d.Units))
			}
		}
	}
	sum := 0.0
	for i, usd := range perUnit {
		sum += usd * float64(p.Packing.Quotas[i])
	}
	return sum
}

// withoutCover solves the problem without commitments for new machines, because money that is paid anyway must not make a plan dearer. It returns
// that problem and its solution if the solution is better, and nil if not.
func (p *Problem) withoutCover(s *packing.Solution, pods *inventory.PodIndex) (*Problem, *packing.Solution) {
	price, before := p.priceOf(s), unplaced(s)
	if len(p.cover) == 0 || before == 0 && price < p.cheapestUncovered() {
		return nil, nil
	}
	plain := *p.Snapshot
	plain.Commitments = nil
	other := CompileTrial(&plain, p.opt, pods, nil)
	solution := packing.Solve(other.Packing)
	if left := unplaced(solution); left > before || left == before && other.priceOf(solution) >= price {
		return nil, nil
	}
	return other, solution
}

// cheapestUncovered returns the least price of a machine that no commitment pays for.
func (p *Problem) cheapestUncovered() float64 {
	least := math.Inf(1)
	for _, pool := range p.Pools {
		for i := range pool.Model.Options {
			if o := &pool.Model.Options[i]; o.Listed && !o.Covered {
				least = min(least, o.Price)
			}
		}
	}
	return least
}

// priceOf returns the price of the new machines, in USD per hour.
func (p *Problem) priceOf(s *packing.Solution) float64 {
	sum := 0.0
	for i := range s.New {
		sum += p.Packing.Pools[s.New[i].Pool].Options[s.New[i].Chosen].Price
	}
	return sum
}

func unplaced(s *packing.Solution) int {
	n := 0
	for _, left := range s.Left {
		n += len(left)
	}
	return n
}
