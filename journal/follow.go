package journal

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// mostHeld bounds the number of steps about the obstacles of one machine's drain.
const mostHeld = 10

// follower extends records by the state of one snapshot.
type follower struct {
	s      *engine.Snapshot
	claims map[string]*v1.NodeClaim
	prices *inventory.PriceBook // made at first use
}

func newFollower(s *engine.Snapshot) *follower { return &follower{s: s, claims: claimsByName(s)} }

// Follow returns the new steps of a record's machines. It returns none if the snapshot is older than the record.
func (f *follower) Follow(r *Record) []Step {
	if r.Outcome != InProgress || f.s.Now.Before(r.Time) {
		return nil
	}
	happened := r.happened()
	var out []Step
	step := func(at time.Time, claim string, what What, says string) {
		for _, w := range happened[claim] {
			if w == what {
				return
			}
		}
		happened[claim] = append(happened[claim], what)
		out = append(out, Step{Time: at.UTC(), Claim: claim, What: what, Says: says})
	}
	unnamed := 0
	for i := range r.Machines {
		switch m := &r.Machines[i]; {
		case m.Claim == "":
			unnamed++
		case m.Comes:
			before := len(out)
			f.comes(m, step)
			if c := f.claims[m.Claim]; c != nil && len(out) > before {
				now := f.machine(c)
				out[before].Machine = &now
			}
		default:
			f.goes(r, m, step)
			out = f.held(r, m, out)
		}
	}
	if unnamed > 0 {
		f.name(r, step)
	}
	return out
}

// name finds the NodeClaims of a disruption's replacements: the claims of the machines to remove have them in a mark. If all these claims are
// gone without a mark, the replacements were never requested.
func (f *follower) name(r *Record, step func(time.Time, string, What, string)) {
	gone := true
	for i := range r.Machines {
		c := f.claims[r.Machines[i].Claim]
		if c == nil || r.Machines[i].Comes {
			continue
		}
		gone = false
		if mark, ok := inventory.MarkOf(c); ok {
			for _, claim := range mark.Replacements {
				step(mark.Decided, claim, Asked, "")
			}
			return
		}
	}
	if gone {
		step(f.s.Now, "", Lost, "it was not asked for")
	}
}

// comes adds the steps of a new machine.
func (f *follower) comes(m *Machine, step func(time.Time, string, What, string)) {
	c := f.claims[m.Claim]
	if c == nil {
		step(f.s.Now, m.Claim, Lost, "its NodeClaim is gone")
		return
	}
	for _, x := range []struct {
		condition string
		what      What
	}{{v1.ConditionLaunched, Launched}, {v1.ConditionRegistered, Registered}, {v1.ConditionInitialized, Ready}} {
		if cond := v1.GetCondition(c, x.condition); cond != nil && cond.Status == metav1.ConditionTrue {
			step(cond.LastTransitionTime.Time, m.Claim, x.what, "")
		} else if c.DeletionTimestamp != nil {
			says := "it was told to go before it was " + string(x.what)
			if cond != nil && cond.Message != "" {
				says += ": " + cond.Message
			}
			step(c.DeletionTimestamp.Time, m.Claim, Lost, says)
			return
		}
	}
}

// goes adds to a record the steps of a machine that is to be removed.
func (f *follower) goes(r *Record, m *Machine, step func(time.Time, string, What, string)) {
	c := f.claims[m.Claim]
	if c == nil {
		step(f.s.Now, m.Claim, Removed, "")
		return
	}
	if c.DeletionTimestamp == nil {
		_, marked := inventory.MarkOf(c)
		if !marked && v1.GetCondition(c, v1.ConditionDisruptionReason) == nil && r.Kind == Disruption {
			step(f.s.Now, m.Claim, Kept, "it was not to go any more")
		}
		return
	}
	step(c.DeletionTimestamp.Time, m.Claim, Deleted, "")
	if cond := v1.GetCondition(c, v1.ConditionDrained); cond != nil && cond.Status == metav1.ConditionTrue {
		step(cond.LastTransitionTime.Time, m.Claim, Drained, "")
	}
}

// held adds a step if the obstacle of a drain has changed.
func (f *follower) held(r *Record, m *Machine, out []Step) []Step {
	c := f.claims[m.Claim]
	if c == nil || c.DeletionTimestamp == nil {
		return out
	}
	cond := v1.GetCondition(c, v1.ConditionDrained)
	if cond == nil || cond.Status == metav1.ConditionTrue || cond.Message == "" {
		return out
	}
	last, count := "", 0
	for _, s := range r.Steps {
		if s.Claim == m.Claim && s.What == Draining {
			last, count = s.Says, count+1
		}
	}
	if cond.Message == last || count >= mostHeld {
		return out
	}
	return append(out, Step{Time: f.s.Now.UTC(), Claim: m.Claim, What: Draining, Says: cond.Message})
}

func (f *follower) machine(c *v1.NodeClaim) Machine {
	if f.prices == nil {
		f.prices = inventory.NewPriceBook(f.s)
	}
	return machineOf(c, f.prices)
}

// ownerOf returns a pod's owner. It returns "" if there is none.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return ""
}
