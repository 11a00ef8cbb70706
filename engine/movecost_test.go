package engine

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

func costlyPod(priority int32, annotations map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Annotations, pod.Spec.Priority = annotations, &priority
	return pod
}

func TestWhatEvictingAPodCosts(t *testing.T) {
	t.Parallel()
	deletion := func(text string) map[string]string { return map[string]string{v1.PodDeletionCostAnnotationKey: text} }
	plain := evictionCost(&corev1.Pod{})
	if plain != 1 {
		t.Errorf("a plain pod costs %g, want exactly 1", plain)
	}
	rising := []*corev1.Pod{
		costlyPod(0, deletion("-2147483648")), costlyPod(0, deletion("-100")), costlyPod(0, nil), costlyPod(0, deletion("99")),
		costlyPod(0, deletion("100")), costlyPod(0, deletion("101")), costlyPod(math.MaxInt32, nil),
	}
	for i := range rising[1:] {
		if a, b := evictionCost(rising[i]), evictionCost(rising[i+1]); a >= b {
			t.Errorf("pod %d costs %g, the next %g", i, a, b)
		}
	}
	if up, down := evictionCost(costlyPod(1, nil)), evictionCost(costlyPod(-1, nil)); up <= 1 || down >= 1 {
		t.Errorf("priorities 1 and -1 cost %g and %g", up, down)
	}
	for _, text := range []string{"1.5", "much", "2147483648", ""} {
		if cost := evictionCost(costlyPod(0, deletion(text))); cost != 1 {
			t.Errorf("deletion cost %q counts: %g", text, cost)
		}
	}
	both := map[string]string{v1.DisruptionCostAnnotationKey: "unreadable", v1.PodDeletionCostAnnotationKey: "100"}
	if cost := evictionCost(costlyPod(0, both)); cost != 1 {
		t.Errorf("the deletion cost counts beside a disruption cost: %g", cost)
	}
	both[v1.DisruptionCostAnnotationKey] = "200"
	if cost := evictionCost(costlyPod(0, both)); cost != evictionCost(costlyPod(0, deletion("200"))) {
		t.Errorf("the disruption cost does not win: %g", cost)
	}
}

func TestWhatMovingAPodCosts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	aged := func(age time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	for name, c := range map[string]struct {
		age, start time.Duration
		want       float64
	}{
		"an old pod is disturbed for ten minutes":       {1e6 * time.Hour, 0, 0.6 * 10 / 60},
		"and for twice the time that it takes to start": {1e6 * time.Hour, 5 * time.Minute, 0.6 * 20 / 60},
		"half an hour old costs twice as much":          {30 * time.Minute, 0, 2 * 0.6 * 10 / 60},
		"a newborn three times":                         {0, 0, 3 * 0.6 * 10 / 60},
	} {
		memo := &Memo{}
		memo.take(&Snapshot{}, 1)
		f := memo.read(aged(c.age), 1)
		if got := f.settledCost(0.6, c.start) * f.young(now); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

func TestStartTimesAreThoseOfTheOwnersOtherPods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	owned := func(owner string, took time.Duration) *corev1.Pod {
		yes := true
		pod := &corev1.Pod{}
		pod.Namespace, pod.Spec.NodeName = "default", "n"
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, Controller: &yes}}
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(took))},
		}
		return pod
	}
	waiting := owned("new", 0)
	waiting.Status.Conditions = nil
	memo, pods := &Memo{}, []*corev1.Pod{owned("slow", 9*time.Minute), owned("slow", 5*time.Minute), owned("slow", time.Hour), owned("fast", time.Second), waiting}
	memo.take(&Snapshot{Pods: pods}, 1)
	if got := memo.factsOf(pods[0]).ownersStart(); got != 9*time.Minute {
		t.Errorf("slow: %s, want the median", got)
	}
	if got := memo.factsOf(waiting).ownersStart(); got != usualStart {
		t.Errorf("unknown: %s", got)
	}
	memo.take(&Snapshot{Pods: pods[1:]}, 1)
	if got := memo.factsOf(pods[1]).ownersStart(); got != time.Hour {
		t.Errorf("slow, once one has left: %s, want the median of the others", got)
	}
}

func TestTheScoreOfBalancedMoves(t *testing.T) {
	t.Parallel()
	pool := balance{58.08, 90}
	for name, c := range map[string]struct {
		pool               balance
		saving, disruption float64
		want               bool
	}{
		"much for little":                        {pool, 7.26, 4, true},
		"fair":                                   {pool, 4.84, 5, true},
		"little for much":                        {pool, 2.42, 9, false},
		"nothing":                                {pool, 0, 11, false},
		"exactly half":                           {balance{48.40, 90}, 2.42, 9, true},
		"a cheap move in a busier pool":          {balance{58.08, 117}, 4.84, 5, true},
		"a dear one":                             {balance{58.08, 117}, 4.84, 32, false},
		"ten times everything changes nothing":   {balance{580.8, 900}, 7.26, 4, true},
		"nothing is disturbed":                   {pool, 1, 0, true},
		"nothing is saved and nothing disturbed": {pool, 0, 0, false},
		"a pool without a price":                 {balance{0, 90}, 1, 1, false},
		"a pool of unknown price":                {balance{math.NaN(), 90}, 1, 1, false},
		"a price that is none":                   {pool, math.NaN(), 1, false},
		"a move that costs":                      {balance{100, 100}, -5, 10, false},
		"one of ten equal nodes":                 {balance{100, 100}, 10, 10, true},
		"the only node":                          {balance{4.84, 2}, 4.84, 2, true},
	} {
		if got := balanced(c.pool.score(c.saving, c.disruption)); got != c.want {
			t.Errorf("%s: score %g", name, c.pool.score(c.saving, c.disruption))
		}
	}
	if spot, dear := (balance{14.5, 90}).score(1.45, 4), (balance{48.4, 90}).score(4.84, 4); math.Abs(spot-dear) > 1e-9 {
		t.Errorf("spot %g and on demand %g: shares count, not prices", spot, dear)
	}
}

// Five pools' worth of cases: what a pool's nodes cost and disturb is added up by pool, and every pool of the policy Balanced has
// to agree to a move.
func TestMovesAreJudgedByTheirPools(t *testing.T) {
	t.Parallel()
	s := &Snapshot{Classes: []Class{{InstanceTypes: []InstanceType{{Name: "two", Offerings: []Offering{{Zone: "a", CapacityType: "on-demand", Price: 4.84}}}}}}}
	machine := func(pool, name, kind string, pods int) *host {
		labels := map[string]string{v1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "on-demand"}
		h := &host{machine: &machine{node: &corev1.Node{}, claim: &v1.NodeClaim{}, labels: labels, poolName: pool}}
		h.node.Name, h.claim.Name = name, name
		h.price, _ = NewPriceBook(s).Price(labels, nil)
		h.roll = &roll{}
		for range pods {
			pod := &corev1.Pod{}
			h.roll.bound, h.roll.facts = append(h.roll.bound, pod), append(h.roll.facts, &podFacts{pod: pod})
		}
		h.bound = h.roll.bound
		return h
	}
	for name, policy := range map[string]v1.ConsolidationPolicy{"even": v1.Balanced, "other": v1.Balanced, "free": v1.WhenEmptyOrUnderutilized} {
		pool := &v1.NodePool{}
		pool.Name, pool.Spec.Disruption.ConsolidationPolicy = name, policy
		s.NodePools = append(s.NodePools, pool)
	}
	var hosts []*host
	for i := range 5 {
		hosts = append(hosts, machine("even", string(rune('a'+i)), "two", 1))
	}
	full, spare, unknown, free := machine("other", "f", "two", 50), machine("other", "g", "two", 0), machine("even", "h", "gone", 1), machine("free", "i", "two", 90)
	hosts = append(hosts, full, spare, unknown, free)
	d := &disruptor{s: s, p: &problem{hosts: hosts}}
	d.totals = d.balances()
	if b := d.totals["even"]; math.Abs(b.price-5*4.84) > 1e-9 || b.disruption != 12 {
		t.Errorf("pool even: %+v, want 24.20 and 12: a node of unknown price disturbs all the same", b)
	}
	for name, c := range map[string]struct {
		gone []*host
		new  []Launch
		want bool
	}{
		"one of equal nodes":                     {hosts[:1], nil, true},
		"a full node for nothing cheaper":        {[]*host{full}, []Launch{{Price: 4.80}}, false},
		"an empty one":                           {[]*host{spare}, nil, true},
		"a node of unknown price saves nothing":  {[]*host{unknown}, nil, false},
		"other policies do not ask":              {[]*host{free}, []Launch{{Price: 4.83}}, true},
		"one pool of two says no":                {[]*host{hosts[0], full}, []Launch{{Price: 9.6}}, false},
		"a pool that asks and one that does not": {[]*host{hosts[0], free}, nil, true},
	} {
		if r := d.unbalanced(c.gone, c.new); r.OK() != c.want {
			t.Errorf("%s: %s", name, r)
		}
	}
	d.totals = map[string]balance{}
	if r := d.unbalanced(hosts[:1], nil); r.OK() {
		t.Error("a pool that is not among the totals agrees")
	}
}
