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

// This file bounds the rules of pods in one plan. A user who may create pods can give them any number of rules, and the pods of one
// namespace must not keep the pods of all others waiting.

const (
	// mostRules bounds the rules of the levels of all waiting pods. The rules of pods with the same constraints are added only once: a thousand
	// workloads have a few thousand.
	mostRules = 100_000
	// mostMeetings bounds the pairs of a selector and a pod that it selects. Equal pods are added only once.
	mostMeetings = 300_000
	// keyRules is the number of rules that is added for a label with domains, because it is looked up for every option.
	keyRules = 1000
	// usualSpreads is the usual maximum of spread constraints of a pod. Each further one adds spreadRules rules, because the pods of every new
	// machine are counted for it. Pods need two.
	usualSpreads = 4
	spreadRules  = 200
	// ofAll multiplies mostRules and mostMeetings if a trial looks at all pods of a cluster, not only at the waiting ones.
	ofAll = 10
)

// While pods are placed, the packing looks at rules, options and domains. The number of looks depends on the constraints that meet, and is known only
// then. A problem may take baseLooks, and podLooks for each pod; 100,000 pods with the usual constraints take three million. A problem that takes
// more is solved again with fewer rules, and pods of the namespaces with the most rules are refused. The first time, mostRules and mostMeetings are
// divided by fewerParts; the second time, they are divided by leastParts.
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

// solveWithin solves the problem. If that takes too many looks, it leaves out the pods with the most rules, and returns the smaller problem
// and its solution.
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

// rules returns the number of rules in all levels of the constraints. Each level has all required rules.
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

// asker holds the waiting pods of one namespace that have the same constraints.
type asker struct {
	namespace   string
	constraints *constraints.PodConstraints
	first       *corev1.Pod
	rules       int
	theirs      int // the number of rules of all constraints of the namespace
	refused     bool
}

type askerKey struct {
	namespace   string
	constraints *constraints.PodConstraints
}

// bounded takes out the pods whose rules are too many for the plan. Namespaces with few rules come first, because no namespace may keep all
// others waiting. The pods taken out may find a place in the next plan, when the others have theirs.
func (rd *Reading) bounded(pending []pendingClass) []pendingClass {
	askers, of := askersOf(pending)
	times := 1
	if rd.trial.counts() {
		times = ofAll
	}
	refused := refuseRules(askers, times*mostRules/rd.parts)
	refused = refuseMeetings(askers, pending, times*mostMeetings/rd.parts) || refused
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
			rd.refused = append(rd.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{r}})
		}
	}
	return out
}

// askersOf returns all askers, sorted by the number of rules of their namespace, and the asker of each class. The askers of a namespace are
// next to each other.
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

// refuseRules refuses the askers whose rules exceed most. It returns false if it refuses none.
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

// refuseMeetings refuses the askers whose selectors select too many pods. It returns false if it refuses none.
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
