package churn

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

const (
	// span is how long machines that came and went are counted, and how rarely people hear of the same ones.
	span = time.Hour
	// worthAWord is how many in that time are worth a word.
	worthAWord = 6
	// mostOrigins and mostLives bound what is remembered.
	mostOrigins = 500
	mostLives   = 200
	// leastBilled is the shortest time that clouds bill a machine for.
	leastBilled = time.Minute
)

// Case is that machines are started and removed again and again for pods of one owner.
type Case struct {
	NodePool string
	Owner    string // of the pods, "CronJob default/report"
	Machines int    // that came and went within the last hour
	// After is the pool's consolidateAfter. With Longer, machines would have stayed from one of the owner's pods to the next.
	After, Longer time.Duration
	// Cost is what the machines cost in that hour, LongerCost what they would have cost with Longer, and KeptCost what as many as
	// ran at a time cost an hour, in USD; 0 if a price is not known.
	Cost, LongerCost, KeptCost float64
}

// Message says it in words.
func (c Case) Message() string {
	text := fmt.Sprintf("In the last hour %d machines were started and removed for pods of %s", c.Machines, c.Owner)
	if c.Cost > 0 {
		text += fmt.Sprintf(", for %s", engine.Dollars(c.Cost))
	}
	text += fmt.Sprintf(". With consolidateAfter %s instead of %s a machine waits for the next of them", engine.DurationText(c.Longer.Round(time.Second)), engine.DurationText(c.After.Round(time.Second)))
	if c.Cost > 0 {
		text += fmt.Sprintf(", for about %s; machines that stay cost %s an hour", engine.Dollars(c.LongerCost), engine.Dollars(c.KeptCost))
	}
	return text
}

// History remembers which machines came and went. Its zero value remembers nothing, and after a restart it takes an hour until
// it knows as much as before.
type History struct {
	running map[types.UID]*life
	past    map[origin]*pastLives
	pass    uint64
}

// origin is whose pods machines of a pool were started for.
type origin struct{ pool, owner string }

// life is that of one claim.
type life struct {
	of           origin // the zero value if it was started for several owners, or for nobody known
	began, ended time.Time
	price        float64
	unneeded     bool // consolidation removes it
	pass         uint64
}

type pastLives struct {
	lives []life // the earliest end first
	told  time.Time
}

// Follow looks at the next snapshot of the same cluster and returns what people have not heard of for an hour.
func (m *History) Follow(s *engine.Snapshot) []Case {
	if m.running == nil {
		m.running, m.past = map[types.UID]*life{}, map[origin]*pastLives{}
	}
	m.pass++
	m.note(s)
	touched := map[origin]bool{}
	for id, x := range m.running {
		if x.pass == m.pass {
			continue
		}
		delete(m.running, id)
		if x.unneeded && x.of != (origin{}) && m.add(x, s.Now) {
			touched[x.of] = true
		}
	}
	var out []Case
	for _, of := range slices.SortedFunc(maps.Keys(touched), func(a, b origin) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.owner, b.owner))
	}) {
		if c, ok := m.past[of].tell(of, s); ok {
			out = append(out, c)
		}
	}
	return out
}

// note takes in the claims that are there now.
func (m *History) note(s *engine.Snapshot) {
	var pods map[types.UID]*corev1.Pod
	var prices *inventory.PriceBook
	for _, claim := range s.NodeClaims {
		x := m.running[claim.UID]
		if x == nil {
			x = &life{began: claim.CreationTimestamp.Time}
			m.running[claim.UID] = x
			if planned := kube.PlannedPods(claim); len(planned) > 0 {
				if pods == nil {
					pods = podsByUID(s.Pods)
				}
				if owner := soleOwner(pods, planned); owner != "" {
					x.of = origin{claim.Labels[v1.NodePoolLabelKey], owner}
				}
			}
		}
		x.pass = m.pass
		c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
		x.unneeded = c != nil && c.Status == metav1.ConditionTrue && (c.Reason == string(v1.Empty) || c.Reason == string(v1.Underutilized))
		if x.price == 0 && x.of != (origin{}) && claim.Labels[corev1.LabelInstanceTypeStable] != "" {
			if prices == nil {
				prices = inventory.NewPriceBook(s)
			}
			if x.price, _ = prices.Price(claim.Labels, claim.Spec.NodeClassRef); x.price == 0 {
				x.price = math.NaN() // asked, and not known
			}
		}
	}
}

// add remembers a machine that is gone, unless there is no room for it.
func (m *History) add(x *life, now time.Time) bool {
	h := m.past[x.of]
	if h == nil {
		if len(m.past) >= mostOrigins {
			maps.DeleteFunc(m.past, func(_ origin, h *pastLives) bool { return !h.within(now) })
		}
		if len(m.past) >= mostOrigins {
			return false
		}
		h = &pastLives{}
		m.past[x.of] = h
	}
	x.ended = now
	h.within(now)
	h.lives = append(h.lives[max(0, len(h.lives)-mostLives+1):], *x)
	return true
}

// within forgets what is too long ago and reports whether anything is left.
func (h *pastLives) within(now time.Time) bool {
	h.lives = slices.DeleteFunc(h.lives, func(x life) bool { return now.Sub(x.ended) > span })
	return len(h.lives) > 0
}

// tell is what there is to say of the machines that came and went, if there is.
func (h *pastLives) tell(of origin, s *engine.Snapshot) (Case, bool) {
	at := slices.IndexFunc(s.NodePools, func(p *v1.NodePool) bool { return p.Name == of.pool })
	if len(h.lives) < worthAWord || at < 0 || !h.told.IsZero() && s.Now.Sub(h.told) < span {
		return Case{}, false
	}
	h.told = s.Now
	c := Case{NodePool: of.pool, Owner: of.owner, Machines: len(h.lives)}
	if after := s.NodePools[at].Spec.Disruption.ConsolidateAfter; after.Duration != nil {
		c.After = *after.Duration
	}
	lives := slices.SortedFunc(slices.Values(h.lives), func(a, b life) int { return a.began.Compare(b.began) })
	idle, most, dearest, last := time.Duration(0), 0, 0.0, lives[0].ended
	for i, x := range lives {
		c.Cost += x.price * max(x.ended.Sub(x.began), leastBilled).Hours()
		dearest = max(dearest, x.price)
		idle = max(idle, x.began.Sub(last))
		last = kube.Latest(last, x.ended)
		atOnce := 0
		for _, other := range lives[:i+1] {
			if other.ended.After(x.began) {
				atOnce++
			}
		}
		most = max(most, atOnce)
	}
	c.Longer = (c.After + idle + time.Minute).Truncate(time.Minute)
	c.KeptCost = float64(most) * dearest
	c.LongerCost = c.KeptCost * last.Sub(lives[0].began).Hours()
	if math.IsNaN(c.Cost) {
		c.Cost, c.KeptCost, c.LongerCost = 0, 0, 0
	}
	return c, true
}

func podsByUID(pods []*corev1.Pod) map[types.UID]*corev1.Pod {
	out := make(map[types.UID]*corev1.Pod, len(pods))
	for _, p := range pods {
		out[p.UID] = p
	}
	return out
}

// soleOwner names the one owner of the planned pods that are still there; "" if there are several or none.
func soleOwner(pods map[types.UID]*corev1.Pod, planned []string) string {
	owner := ""
	for _, uid := range planned {
		pod := pods[types.UID(uid)]
		if pod == nil {
			continue
		}
		name := kube.LastingOwner(pod)
		if name == "" || owner != "" && name != owner {
			return ""
		}
		owner = name
	}
	return owner
}
