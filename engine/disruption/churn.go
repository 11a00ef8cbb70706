package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
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
	// churnSpan is how long machines that came and went are counted, and how rarely people hear of the same ones.
	churnSpan = time.Hour
	// churnFrom is how many in that time are worth a word.
	churnFrom = 6
	// mostChurners and mostStays bound what is remembered.
	mostChurners = 500
	mostStays    = 200
	// leastBilled is the shortest time that clouds bill a machine for.
	leastBilled = time.Minute
)

// Churn is that machines are started and removed again and again for pods of one owner.
type Churn struct {
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
func (c Churn) Message() string {
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

// ChurnHistory remembers which machines came and went. Its zero value remembers nothing, and after a restart it takes an hour until
// it knows as much as before.
type ChurnHistory struct {
	running map[types.UID]*machineStay
	past    map[churner]*churnedStays
	pass    uint64
}

// churner is whose pods machines of a pool were started for.
type churner struct{ pool, owner string }

// machineStay is the life of one claim.
type machineStay struct {
	of           churner // the zero value if it was started for several owners, or for nobody known
	began, ended time.Time
	price        float64
	unneeded     bool // consolidation removes it
	pass         uint64
}

type churnedStays struct {
	stays []machineStay // the earliest end first
	told  time.Time
}

// Follow looks at the next snapshot of the same cluster and returns what people have not heard of for an hour.
func (m *ChurnHistory) Follow(s *engine.Snapshot) []Churn {
	if m.running == nil {
		m.running, m.past = map[types.UID]*machineStay{}, map[churner]*churnedStays{}
	}
	m.pass++
	m.note(s)
	touched := map[churner]bool{}
	for id, stay := range m.running {
		if stay.pass == m.pass {
			continue
		}
		delete(m.running, id)
		if stay.unneeded && stay.of != (churner{}) && m.add(stay, s.Now) {
			touched[stay.of] = true
		}
	}
	var out []Churn
	for _, of := range slices.SortedFunc(maps.Keys(touched), func(a, b churner) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.owner, b.owner))
	}) {
		if c, ok := m.past[of].churn(of, s); ok {
			out = append(out, c)
		}
	}
	return out
}

// note takes in the claims that are there now.
func (m *ChurnHistory) note(s *engine.Snapshot) {
	var pods map[types.UID]*corev1.Pod
	var prices *inventory.PriceBook
	for _, claim := range s.NodeClaims {
		stay := m.running[claim.UID]
		if stay == nil {
			stay = &machineStay{began: claim.CreationTimestamp.Time}
			m.running[claim.UID] = stay
			if planned := kube.PlannedPods(claim); len(planned) > 0 {
				if pods == nil {
					pods = podsByUID(s.Pods)
				}
				if owner := soleOwner(pods, planned); owner != "" {
					stay.of = churner{claim.Labels[v1.NodePoolLabelKey], owner}
				}
			}
		}
		stay.pass = m.pass
		c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
		stay.unneeded = c != nil && c.Status == metav1.ConditionTrue && (c.Reason == string(v1.Empty) || c.Reason == string(v1.Underutilized))
		if stay.price == 0 && stay.of != (churner{}) && claim.Labels[corev1.LabelInstanceTypeStable] != "" {
			if prices == nil {
				prices = inventory.NewPriceBook(s)
			}
			if stay.price, _ = prices.Price(claim.Labels, claim.Spec.NodeClassRef); stay.price == 0 {
				stay.price = math.NaN() // asked, and not known
			}
		}
	}
}

// add remembers a machine that is gone, unless there is no room for it.
func (m *ChurnHistory) add(stay *machineStay, now time.Time) bool {
	h := m.past[stay.of]
	if h == nil {
		if len(m.past) >= mostChurners {
			maps.DeleteFunc(m.past, func(_ churner, h *churnedStays) bool { return !h.within(now) })
		}
		if len(m.past) >= mostChurners {
			return false
		}
		h = &churnedStays{}
		m.past[stay.of] = h
	}
	stay.ended = now
	h.within(now)
	h.stays = append(h.stays[max(0, len(h.stays)-mostStays+1):], *stay)
	return true
}

// within forgets what is too long ago and reports whether anything is left.
func (h *churnedStays) within(now time.Time) bool {
	h.stays = slices.DeleteFunc(h.stays, func(x machineStay) bool { return now.Sub(x.ended) > churnSpan })
	return len(h.stays) > 0
}

// churn is what there is to say of the machines that came and went, if there is.
func (h *churnedStays) churn(of churner, s *engine.Snapshot) (Churn, bool) {
	at := slices.IndexFunc(s.NodePools, func(p *v1.NodePool) bool { return p.Name == of.pool })
	if len(h.stays) < churnFrom || at < 0 || !h.told.IsZero() && s.Now.Sub(h.told) < churnSpan {
		return Churn{}, false
	}
	h.told = s.Now
	c := Churn{NodePool: of.pool, Owner: of.owner, Machines: len(h.stays)}
	if after := s.NodePools[at].Spec.Disruption.ConsolidateAfter; after.Duration != nil {
		c.After = *after.Duration
	}
	stays := slices.SortedFunc(slices.Values(h.stays), func(a, b machineStay) int { return a.began.Compare(b.began) })
	idle, most, dearest, last := time.Duration(0), 0, 0.0, stays[0].ended
	for i, x := range stays {
		c.Cost += x.price * max(x.ended.Sub(x.began), leastBilled).Hours()
		dearest = max(dearest, x.price)
		idle = max(idle, x.began.Sub(last))
		last = kube.Latest(last, x.ended)
		atOnce := 0
		for _, other := range stays[:i+1] {
			if other.ended.After(x.began) {
				atOnce++
			}
		}
		most = max(most, atOnce)
	}
	c.Longer = (c.After + idle + time.Minute).Truncate(time.Minute)
	c.KeptCost = float64(most) * dearest
	c.LongerCost = c.KeptCost * last.Sub(stays[0].began).Hours()
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
		name := lastingOwner(pod)
		if name == "" || owner != "" && name != owner {
			return ""
		}
		owner = name
	}
	return owner
}

// lastingOwner names what a pod belongs to for longer than one Job or one roll-out: a CronJob's Jobs are called after it and the
// minute, a Deployment's ReplicaSets after it and the hash of their template. "" if nothing makes such pods.
func lastingOwner(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	kind, name := owner.Kind, owner.Name
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		last := name[i+1:]
		switch {
		case kind == "Job" && len(last) >= 8 && strings.Trim(last, "0123456789") == "":
			kind, name = "CronJob", name[:i]
		case kind == "ReplicaSet" && last == pod.Labels["pod-template-hash"]:
			kind, name = "Deployment", name[:i]
		}
	}
	return kind + " " + pod.Namespace + "/" + name
}
