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

// podClass is a set of equal pods: they have the same constraints and requests, the same selectors of other pods select them, and they are expected
// on the same machine, if on any.
type podClass struct {
	*constraints.PodConstraints
	requests corev1.ResourceList
	size     string // the requests as text that sorts by size
	Request  capacity.Vector
	matched  []int          // selectors that select the pods
	Pods     []*corev1.Pod  // oldest first; in a trial of which Trial.counts is true, only the first is certain to be the oldest
	Classes  []pendingClass // in a trial of which Trial.counts is true, the running pods
	unmanned bool           // asks for nodes without a pool
	levels   []packing.Level
	Assigned *inventory.Machine // the machine that the pods are expected on, nil for none
	proposed bool               // the machine is only a proposal: it is used only if it has room
	batch    int                // the pods share new machines only with pods of the same batch
	gang     *gang.Gang         // nil for pods that start alone
	rank     int                // the higher rank comes first if room is short
}

// last returns the level at which the class has given up all preferences.
func (c *podClass) last() *packing.Level { return &c.levels[len(c.levels)-1] }

// classesOf groups the pods into classes, in order of their requests and constraints, because the plan must not depend on names.
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

// oldestFirst moves the oldest pod to the front, if the order does not matter otherwise. Each of Classes begins with its oldest pod.
func (c *podClass) oldestFirst() {
	oldest, at := 0, len(c.Pods)
	for i := len(c.Classes) - 1; i >= 0; i-- {
		if at -= len(c.Classes[i].Pods); kube.OlderFirst(c.Pods[at], c.Pods[oldest]) <= 0 {
			oldest = at
		}
	}
	c.Pods[0], c.Pods[oldest] = c.Pods[oldest], c.Pods[0]
}

// compareClasses orders classes by rank, requests and constraints, and equal classes by their first pods.
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
	// A class with more domains comes first, because it is harder to place.
	return cmp.Or(cmp.Compare(b.Domains(), a.Domains()), cmp.Compare(a.Structure(), b.Structure()), kube.OlderFirst(a.Pods[0], b.Pods[0]))
}

// asksForUnmanaged reports whether every alternative excludes nodes of a pool.
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

// pendingClass is a set of equal pods to plan for. The assigned machine is the one on which they are expected; nil if there is none.
type pendingClass struct {
	Pods        []*corev1.Pod
	info        *inventory.PodInfo // of one of the pods
	constraints *constraints.PodConstraints
	assigned    *inventory.Machine
	// proposed is true if the assigned machine is only a proposal: it is used only if it has room.
	proposed bool
	batch    int
	From     *inventory.Machine // in a trial of which Trial.counts is true, the machine on which the pods run; nil for waiting pods
}
