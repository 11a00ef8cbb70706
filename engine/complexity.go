package engine

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// This file bounds what pods may ask of one plan. Everybody who may make pods may have them ask for any number of things, and
// what the pods of one namespace ask must not keep those of all others waiting.

const (
	// mostRules is how many rules the levels of all waiting pods may have together, a wish counted once: a thousand workloads ask
	// for a few thousand.
	mostRules = 100_000
	// mostMeetings is how many pairs there may be of a selector and of pods that it is about, pods alike counted once.
	mostMeetings = 300_000
	// keyRules is how many rules a label that divides machines into domains counts for: it is looked up for everything that can be
	// bought.
	keyRules = 1000
	// usualSpreads is how many spread constraints pods have at most; each further one counts for spreadRules, because the pods of
	// every new machine are counted for it. Those who write pods need two.
	usualSpreads = 4
	spreadRules  = 200
	// ofAll is how many times as much may be asked where all pods of a cluster are looked at, not only those that wait.
	ofAll = 10
)

// rules is how many rules the levels of the wish have: those that it may not give up are in each of them.
func (w *wish) rules() int {
	hard := len(w.spreads) + len(w.affinity) + len(w.anti) + len(w.ports) + len(w.volumes.Disks) + len(w.volumes.Once) + len(w.volumes.Soles) + len(w.volumes.Takes) + len(w.terms)
	spreads, soft := len(w.spreads), 0
	for i := range w.soft {
		switch s := &w.soft[i]; {
		case s.spread != nil:
			spreads++
			soft++
		case s.near != nil, s.apart != nil:
			soft++
		}
	}
	return len(w.soft) + len(stops(len(w.soft)))*(hard+soft/2) + spreadRules*max(0, spreads-usualSpreads)
}

// topologies lists the labels by which the wish's rules count domains.
func (w *wish) topologies() []string {
	var keys []string
	add := func(key string) {
		if !isHost(key) {
			keys = append(keys, key)
		}
	}
	for i := range w.spreads {
		add(w.spreads[i].key)
	}
	for _, list := range [][]termWish{w.affinity, w.anti} {
		for _, t := range list {
			add(t.key)
		}
	}
	for i := range w.soft {
		switch s := &w.soft[i]; {
		case s.spread != nil:
			add(s.spread.key)
		case s.near != nil:
			add(s.near.key)
		case s.apart != nil:
			add(s.apart.key)
		}
	}
	return keys
}

// selectors lists what the wish's rules are about.
func (w *wish) selectors() []*podSelector {
	var out []*podSelector
	for i := range w.spreads {
		out = append(out, w.spreads[i].selector)
	}
	for _, list := range [][]termWish{w.affinity, w.anti} {
		for _, t := range list {
			out = append(out, t.selector)
		}
	}
	for i := range w.soft {
		switch s := &w.soft[i]; {
		case s.spread != nil:
			out = append(out, s.spread.selector)
		case s.near != nil:
			out = append(out, s.near.selector)
		case s.apart != nil:
			out = append(out, s.apart.selector)
		}
	}
	return out
}

// asker is the waiting pods of one namespace that have the same wish.
type asker struct {
	namespace string
	wish      *wish
	first     *corev1.Pod
	rules     int
	theirs    int // rules of all wishes of the namespace
	refused   bool
}

type askerKey struct {
	namespace string
	wish      *wish
}

// bounded takes out the pods for which what pods ask of the plan would be too much. Those of namespaces that ask for little come
// first, so that nobody keeps all others waiting; who is left out may find a place in the next plan, when the others have theirs.
func (p *problem) bounded(lots []waitingLot) []waitingLot {
	askers, of := askersOf(lots)
	times := 1
	if p.trial.counts() {
		times = ofAll
	}
	refused := refuseRules(askers, times*mostRules)
	refused = refuseMeetings(askers, lots, times*mostMeetings) || refused
	if !refused {
		return lots
	}
	out := lots[:0]
	for i, lot := range lots {
		a := of[i]
		if !a.refused {
			out = append(out, lot)
			continue
		}
		r := Reason{Code: TooComplex, Need: strconv.Itoa(a.rules), Have: strconv.Itoa(a.theirs)}
		for _, pod := range lot.pods {
			p.refused = append(p.refused, Unplaced{Pod: podID(pod), Reasons: []Reason{r}})
		}
	}
	return out
}

// askersOf lists those who ask, who asks for least first, and of each lot its own. Namespaces stay together.
func askersOf(lots []waitingLot) (askers, of []*asker) {
	known := map[askerKey]*asker{}
	theirs := map[string]int{}
	for _, lot := range lots {
		pod := lot.facts.pod
		key := askerKey{pod.Namespace, lot.wish}
		a := known[key]
		if a == nil {
			a = &asker{namespace: pod.Namespace, wish: lot.wish, first: pod, rules: lot.wish.rules()}
			known[key] = a
			askers = append(askers, a)
			theirs[a.namespace] += a.rules
		}
		of = append(of, a)
	}
	for _, a := range askers {
		a.theirs = theirs[a.namespace]
	}
	slices.SortFunc(askers, func(a, b *asker) int {
		return cmp.Or(cmp.Compare(a.theirs, b.theirs), cmp.Compare(a.namespace, b.namespace), cmp.Compare(b.wish.priority, a.wish.priority),
			cmp.Compare(a.rules, b.rules), olderFirst(a.first, b.first))
	})
	return askers, of
}

// refuseRules refuses whom there is no room for among that many rules; it answers false if that is nobody.
func refuseRules(askers []*asker, most int) bool {
	taken := map[*wish]bool{}
	keys := map[string]bool{}
	sum, any := 0, false
	for _, a := range askers {
		if taken[a.wish] {
			continue
		}
		n := a.rules
		var fresh []string
		for _, key := range a.wish.topologies() {
			if !keys[key] && !slices.Contains(fresh, key) {
				fresh = append(fresh, key)
			}
		}
		if n += keyRules * len(fresh); sum+n > most {
			a.refused, any = true, true
			continue
		}
		sum += n
		taken[a.wish] = true
		for _, key := range fresh {
			keys[key] = true
		}
	}
	return any
}

// refuseMeetings refuses whose selectors are about too many pods.
func refuseMeetings(askers []*asker, lots []waitingLot, most int) bool {
	kinds := map[*alike]bool{}
	for _, lot := range lots {
		kinds[lot.facts.kind] = true
	}
	number := map[*podSelector]int{}
	var all []*podSelector
	for _, a := range askers {
		if a.refused {
			continue
		}
		for _, s := range a.wish.selectors() {
			if _, known := number[s]; !known {
				number[s] = len(all)
				all = append(all, s)
			}
		}
	}
	if len(all)*len(kinds) <= most {
		return false
	}
	index, about := newSelectorIndex(all), make([]int, len(all))
	var matched []int
	for k := range kinds {
		matched = index.match(k.sample, matched[:0])
		for _, s := range matched {
			about[s]++
		}
	}
	taken := make([]bool, len(all))
	sum, any := 0, false
	for _, a := range askers {
		if a.refused {
			continue
		}
		n := 0
		for _, s := range a.wish.selectors() {
			if !taken[number[s]] {
				n += about[number[s]]
			}
		}
		if sum+n > most {
			a.refused, any = true, true
			continue
		}
		sum += n
		for _, s := range a.wish.selectors() {
			taken[number[s]] = true
		}
	}
	return any
}
