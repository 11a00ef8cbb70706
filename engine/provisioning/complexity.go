package provisioning

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// This file bounds what pods may ask of one plan. Everybody who may make pods may have them ask for any number of things, and
// what the pods of one namespace ask must not keep those of all others waiting.

const (
	// mostRules is how many rules the levels of all waiting pods may have together, pods with the same constraints counted once: a thousand workloads ask
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

// While pods are placed, the packing looks at rules, options and domains. How many depends on which constraints meet, and shows only then.
// A problem may take baseLooks and podLooks for each pod; 100,000 pods with the usual constraints take three million. A problem that takes
// more is solved again with less room for rules, so that the namespaces that ask for most are refused: first with one part in fewerParts of
// mostRules and mostMeetings, then with one part in leastParts.
const (
	baseLooks  = 10_000_000
	podLooks   = 50_000
	fewerParts = 20
	leastParts = fewerParts * fewerParts
)

func (p *Problem) mostLooks() int64 {
	n := 0
	for _, c := range p.Classes {
		n += len(c.Pods)
	}
	return int64(baseLooks + podLooks*n)
}

// solveWithin solves the problem. If the problem takes too many looks, it returns a smaller one, without pods that ask for most, and the
// solution of that.
func solveWithin(p *Problem, s *engine.Snapshot, opt engine.Options, pods *inventory.PodIndex) (*Problem, *packing.Solution) {
	p.Model()
	solution := packing.Solve(p.Packing)
	for solution.Exhausted && p.parts < leastParts && !opt.Stopped() {
		fewer := readProblem(s, opt, pods, nil, p.parts*fewerParts)
		fewer.work, fewer.looked = p.work, fewer.looked+p.looked
		p = fewer
		p.Model()
		solution = packing.Solve(p.Packing)
	}
	return p, solution
}

// rules is how many rules the levels of the constraints have: those that may not be given up are in each of them.
func rules(c *constraints.PodConstraints) int {
	hard := len(c.Spreads) + len(c.Affinity) + len(c.Anti) + len(c.Ports) + len(c.Volumes.Disks) + len(c.Volumes.Once) + len(c.Volumes.Singles) + len(c.Volumes.Takes) + len(c.Terms)
	spreads, soft := len(c.Spreads), 0
	for i := range c.Soft {
		switch s := &c.Soft[i]; {
		case s.Spread != nil:
			spreads++
			soft++
		case s.Near != nil, s.Apart != nil:
			soft++
		}
	}
	return len(c.Soft) + len(stops(len(c.Soft)))*(hard+soft/2) + spreadRules*max(0, spreads-usualSpreads)
}

// asker is the waiting pods of one namespace that have the same constraints.
type asker struct {
	namespace   string
	constraints *constraints.PodConstraints
	first       *corev1.Pod
	rules       int
	theirs      int // rules of all constraints of the namespace
	refused     bool
}

type askerKey struct {
	namespace   string
	constraints *constraints.PodConstraints
}

// bounded takes out the pods for which what pods ask of the plan would be too much. Those of namespaces that ask for little come
// first, so that nobody keeps all others waiting; who is left out may find a place in the next plan, when the others have theirs.
func (p *Problem) bounded(pending []pendingClass) []pendingClass {
	askers, of := askersOf(pending)
	times := 1
	if p.trial.counts() {
		times = ofAll
	}
	refused := refuseRules(askers, times*mostRules/p.parts)
	refused = refuseMeetings(askers, pending, times*mostMeetings/p.parts) || refused
	if !refused {
		return pending
	}
	out := pending[:0]
	for i, class := range pending {
		a := of[i]
		if !a.refused {
			out = append(out, class)
			continue
		}
		r := engine.Reason{Code: engine.TooComplex, Need: strconv.Itoa(a.rules), Have: strconv.Itoa(a.theirs)}
		for _, pod := range class.Pods {
			p.refused = append(p.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{r}})
		}
	}
	return out
}

// askersOf lists those who ask, who asks for least first, and of each class its own. Namespaces stay together.
func askersOf(pending []pendingClass) (askers, of []*asker) {
	known := map[askerKey]*asker{}
	theirs := map[string]int{}
	for _, class := range pending {
		pod := class.info.Pod
		key := askerKey{pod.Namespace, class.constraints}
		a := known[key]
		if a == nil {
			a = &asker{namespace: pod.Namespace, constraints: class.constraints, first: pod, rules: rules(class.constraints)}
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
		return cmp.Or(cmp.Compare(a.theirs, b.theirs), cmp.Compare(a.namespace, b.namespace), cmp.Compare(b.constraints.Priority, a.constraints.Priority),
			cmp.Compare(a.rules, b.rules), kube.OlderFirst(a.first, b.first))
	})
	return askers, of
}

// refuseRules refuses whom there is no room for among that many rules; it answers false if that is nobody.
func refuseRules(askers []*asker, most int) bool {
	taken := map[*constraints.PodConstraints]bool{}
	keys := map[string]bool{}
	sum, any := 0, false
	for _, a := range askers {
		if taken[a.constraints] {
			continue
		}
		n := a.rules
		var fresh []string
		for _, key := range a.constraints.Topologies() {
			if !keys[key] && !slices.Contains(fresh, key) {
				fresh = append(fresh, key)
			}
		}
		if n += keyRules * len(fresh); sum+n > most {
			a.refused, any = true, true
			continue
		}
		sum += n
		taken[a.constraints] = true
		for _, key := range fresh {
			keys[key] = true
		}
	}
	return any
}

// refuseMeetings refuses whose selectors are about too many pods.
func refuseMeetings(askers []*asker, pending []pendingClass, most int) bool {
	kinds := map[*inventory.LabelClass]bool{}
	for _, class := range pending {
		kinds[class.info.Labels] = true
	}
	number := map[*kube.PodSelector]int{}
	var all []*kube.PodSelector
	for _, a := range askers {
		if a.refused {
			continue
		}
		for _, s := range a.constraints.Selectors() {
			if _, known := number[s]; !known {
				number[s] = len(all)
				all = append(all, s)
			}
		}
	}
	if len(all)*len(kinds) <= most {
		return false
	}
	index, about := kube.NewSelectorIndex(all), make([]int, len(all))
	var matched []int
	for k := range kinds {
		matched = index.Match(k.Sample, matched[:0])
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
		for _, s := range a.constraints.Selectors() {
			if !taken[number[s]] {
				n += about[number[s]]
			}
		}
		if sum+n > most {
			a.refused, any = true, true
			continue
		}
		sum += n
		for _, s := range a.constraints.Selectors() {
			taken[number[s]] = true
		}
	}
	return any
}
