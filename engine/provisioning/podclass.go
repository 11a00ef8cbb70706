package provisioning

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// podClass is a number of pods that the engine cannot tell apart: they have the same constraints, request the same, the same
// constraints of others are about them, and they are expected on the same machine, if on any.
type podClass struct {
	*constraints.PodConstraints
	requests corev1.ResourceList
	size     string // need as text, in order of size
	Request  capacity.Vector
	matched  []int          // selectors that are about the pods
	Pods     []*corev1.Pod  // oldest first; in a trial that only counts pods, the first is the oldest
	Classes  []pendingClass // those that run somewhere, in such a trial
	unmanned bool           // asks for nodes that no pool owns
	levels   []packing.Level
	Assigned *inventory.Machine // the machine that the pods are expected on, nil for none
	proposed bool               // or had better go to, if there is room
	batch    int                // the pods share new machines with those of the same batch only
	gang     *gang.Gang         // nil for pods that start alone
	rank     int                // the higher comes first where room is too little
}

// last is what the class asks for when all has been relaxed that may be.
func (c *podClass) last() *packing.Level { return &c.levels[len(c.levels)-1] }

// classesOf groups the pods. Classes are in order of what they ask for, so that the plan does not hang on names.
func (p *Problem) classesOf(pending []pendingClass) []*podClass {
	type key struct {
		constraints int
		requests    *inventory.RequestClass
		matched     string
		assigned    *inventory.Machine
		proposed    bool
		batch       int
		gang        *gang.Gang
	}
	byKey := map[key]*podClass{}
	var keys []key
	for _, w := range pending {
		matched := w.info.Labels.Match(p.InterPod.ID, p.InterPod.Index)
		p.looked += len(matched)
		requested := p.Pods.Cache.NextRequests(w.info)
		k := key{w.constraints.ID, requested, w.info.Labels.Text, w.assigned, w.proposed, w.batch, p.Gangs.Of(w.info.Pod)}
		c, ok := byKey[k]
		if !ok {
			need, size := w.constraints.WithVolumes(requested)
			c = &podClass{PodConstraints: w.constraints, requests: need, size: size, matched: slices.Clone(matched), unmanned: asksForUnmanaged(w.constraints.NodeConstraints), Assigned: w.assigned, proposed: w.proposed, batch: w.batch, gang: k.gang}
			c.rank = p.rankOf(k.gang, c.Priority)
			byKey[k] = c
			keys = append(keys, k)
		}
		c.Pods = append(c.Pods, w.Pods...)
		if w.From != nil {
			c.Classes = append(c.Classes, w)
		}
	}
	classes := make([]*podClass, 0, len(keys))
	for _, k := range keys {
		c := byKey[k]
		if !p.trial.counts() {
			slices.SortFunc(c.Pods, kube.OlderFirst)
		} else {
			c.oldestFirst()
		}
		classes = append(classes, c)
	}
	slices.SortFunc(classes, compareClasses)
	return classes
}

// oldestFirst brings the oldest pod to the front, for classes whose order does not matter otherwise. Lots begin with theirs.
func (c *podClass) oldestFirst() {
	oldest, at := 0, len(c.Pods)
	for i := len(c.Classes) - 1; i >= 0; i-- {
		if at -= len(c.Classes[i].Pods); kube.OlderFirst(c.Pods[at], c.Pods[oldest]) <= 0 {
			oldest = at
		}
	}
	c.Pods[0], c.Pods[oldest] = c.Pods[oldest], c.Pods[0]
}

// compareClasses orders classes by what they ask for, and classes that ask for the same by the first of their pods.
func compareClasses(a, b *podClass) int {
	if n := cmp.Or(
		cmp.Compare(b.rank, a.rank),
		cmp.Compare(a.size, b.size),
		cmp.Compare(len(a.Told), len(b.Told)),
		cmp.Compare(len(a.Spreads), len(b.Spreads)),
		cmp.Compare(len(a.Affinity), len(b.Affinity)),
		cmp.Compare(len(a.Anti), len(b.Anti)),
		cmp.Compare(len(a.Soft), len(b.Soft)),
		cmp.Compare(len(a.matched), len(b.matched)),
		cmp.Compare(len(b.Pods), len(a.Pods)),
	); n != 0 {
		return n
	}
	// Who asks for more domains goes first: it is the harder to please.
	return cmp.Or(cmp.Compare(b.Domains(), a.Domains()), cmp.Compare(a.Structure(), b.Structure()), kube.OlderFirst(a.Pods[0], b.Pods[0]))
}

// asksForUnmanaged reports whether every alternative rules out nodes that belong to a pool.
func asksForUnmanaged(d kube.NodeConstraints) bool {
	for _, term := range d.Told {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			return e.Key == v1.NodePoolLabelKey && e.Op == requirement.DoesNotExist
		}) {
			return false
		}
	}
	return len(d.Told) > 0
}
