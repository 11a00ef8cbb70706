package budget

import (
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// Pass counts the rest of a pool's budgets while one plan is made.
type Pass struct {
	Rules *PoolRules
	now   time.Time
	nodes PoolNodes
	// taken counts the nodes that were chosen to go, replacing those with a replacement, deleting the others.
	taken, replacing, deleting int
	openings                   map[v1.DisruptionReason]string // filled on demand
}

// NewPass returns a Pass with nothing used.
func NewPass(s *engine.Snapshot, pool *v1.NodePool, machines []*inventory.Machine) *Pass {
	return &Pass{Rules: RulesOf(s, pool), now: s.Now, nodes: CountNodes(pool.Name, machines)}
}

// Left returns how many more nodes may go for the reason.
func (p *Pass) Left(reason v1.DisruptionReason) int {
	return max(0, p.Rules.Allowance(p.now, reason, p.nodes).Left()-p.taken)
}

// LeftWithoutReplacement returns how many more nodes may go for the reason without a replacement.
func (p *Pass) LeftWithoutReplacement(reason v1.DisruptionReason) int {
	return min(p.Left(reason), p.Rules.VerbAllowance(p.now, reason, p.nodes, false).Left()-p.deleting)
}

// Take uses one node of the budgets, or returns the reason why no more node may go.
func (p *Pass) Take(reason v1.DisruptionReason) engine.Reason {
	if r := p.Refusal(reason); !r.OK() {
		return r
	}
	p.taken++
	return engine.Reason{}
}

// Release returns one node to the budgets, because it stays.
func (p *Pass) Release() { p.taken-- }

// Refusal returns why no more node may go for the reason, with the next opening of the budgets if time alone opens them.
func (p *Pass) Refusal(reason v1.DisruptionReason) engine.Reason {
	a := p.Rules.Allowance(p.now, reason, p.nodes)
	switch {
	case a.Problem != "":
		return p.exhausted("nothing: " + a.Problem)
	case a.Left()-p.taken <= 0:
		return p.exhausted("no more node now" + p.opening(reason, a))
	}
	return engine.Reason{}
}

func (p *Pass) exhausted(have string) engine.Reason {
	return engine.Reason{Code: engine.BudgetExhausted, NodePool: p.Rules.Pool.Name, Have: have}
}

func (p *Pass) opening(reason v1.DisruptionReason, a Allowance) string {
	if a.Left() > 0 {
		return ""
	}
	text, known := p.openings[reason]
	if !known {
		if at := p.Rules.Opens(p.now, reason, p.nodes); !at.IsZero() {
			text = ", more from " + at.UTC().Format(time.RFC3339)
		}
		if p.openings == nil {
			p.openings = map[v1.DisruptionReason]string{}
		}
		p.openings[reason] = text
	}
	return text
}

// WayRefusal returns why n nodes may not go, by the budgets for nodes with a replacement or by those for nodes without one.
func (p *Pass) WayRefusal(reason v1.DisruptionReason, replacing bool, n int) engine.Reason {
	a, used, word := p.Rules.VerbAllowance(p.now, reason, p.nodes, replacing), p.deleting, "go without a replacement"
	if replacing {
		used, word = p.replacing, "be replaced"
	}
	switch {
	case a.Problem != "":
		return p.exhausted("nothing: " + a.Problem)
	case a.Left()-used < n:
		return p.exhausted("no more node to " + word + " now")
	}
	return engine.Reason{}
}

// UseWay counts n nodes that go, with a replacement or without one.
func (p *Pass) UseWay(replacing bool, n int) {
	if replacing {
		p.replacing += n
		return
	}
	p.deleting += n
}
