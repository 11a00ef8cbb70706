package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/parallel"
)

// Most pods of a snapshot are also in the one before. A cache therefore looks for the difference only, and updates the nodes and owners that
// have lost or got pods.

// podSet is a set of pods that changes a little from call to call.
type podSet struct {
	Sum   uint64 // changes with the pods of the set
	Count int
	// During a call, before is the state of the set before the call, and came holds the pods that are new in it.
	before struct {
		sum   uint64
		count int
	}
	came    []*PodInfo
	altered bool
}

// alter adds the pod or, if comes is false, removes it, in the given call; it reports whether this is the first change of the set.
func (c *podSet) alter(info *PodInfo, comes bool, pass uint64) bool {
	first := !c.altered
	if first {
		c.altered, c.before.sum, c.before.count = true, c.Sum, c.Count
	}
	switch {
	case !comes:
		c.Sum, c.Count = c.Sum-info.id, c.Count-1
	default:
		c.Sum, c.Count = c.Sum+info.id, c.Count+1
		if info.left != pass { // else the pod has only changed its place in the list
			c.came = append(c.came, info)
		}
	}
	return first
}

// finish ends the changes. If the pods are not the same, it returns the present ones: first those that were in the set before, in their order, then
// the new ones.
func (c *podSet) finish(infos []*PodInfo) (now []*PodInfo, stayed int, changed bool) {
	came := c.came
	c.came, c.altered = nil, false
	if c.Sum == c.before.sum && c.Count == c.before.count {
		return infos, len(infos), false
	}
	now = make([]*PodInfo, 0, c.Count)
	for _, info := range infos {
		if info.Listed {
			now = append(now, info)
		}
	}
	return append(now, came...), len(now), true
}

// mark is a property of a pod that every call needs.
type mark uint8

const (
	isUnbound mark = 1 << iota
	hasEnded       // and had a node
	mountsVolumes
	ofDaemonSet
)

func (info *PodInfo) mark() mark {
	var out mark
	switch {
	case info.node == nil:
		out |= isUnbound
	case !info.counts:
		out |= hasEnded
	}
	if info.Mounts {
		out |= mountsVolumes
	}
	if info.DaemonKey != "" {
		out |= ofDaemonSet
	}
	return out
}

// mostShifted bounds the number of positions by which a pod may have moved in the list, relative to the pod before it, and still be found.
const mostShifted = 8

// follow compares the pods with those of the last call: most are at the same index, or a little further on.
func (cache *Cache) follow(pods []*corev1.Pod, threads int) {
	last, marks := make([]*PodInfo, len(pods)), make([]mark, len(pods))
	var missed []*PodInfo
	var new []int
	i, j := 0, 0
	for j < len(pods) {
		n := 0
		for i+n < len(cache.list) && j+n < len(pods) && cache.list[i+n] == pods[j+n] {
			n++
		}
		copy(last[j:j+n], cache.last[i:])
		copy(marks[j:j+n], cache.marks[i:])
		i, j = i+n, j+n
		gone, come := shift(cache.list[i:], pods[j:])
		missed = append(missed, cache.last[i:i+gone]...)
		for k := range come {
			new = append(new, j+k)
		}
		i, j = i+gone, j+come
	}
	for _, info := range append(missed, cache.last[i:]...) {
		info.left, info.Listed = cache.Pass, false
		cache.alter(info, false)
	}
	var unread []*corev1.Pod
	for _, j := range new {
		if last[j] = cache.Pods[pods[j]]; last[j] == nil {
			unread = append(unread, pods[j])
		}
	}
	cache.readAll(unread, threads)
	for _, j := range new {
		info := last[j]
		if info == nil {
			info = cache.Pods[pods[j]]
		}
		info.Listed = true
		cache.alter(info, true)
		last[j], marks[j] = info, info.mark()
	}
	cache.list, cache.last, cache.marks = slices.Clone(pods), last, marks
}

// shift compares two lists that differ in their first pods. It returns how many of the first pods of old are missing in new, and how many of the
// first pods of new are not in old.
func shift(old, new []*corev1.Pod) (gone, come int) {
	if len(new) == 0 {
		return 0, 0
	}
	for k := 1; k <= mostShifted; k++ {
		switch {
		case k < len(old) && old[k] == new[0]:
			return k, 0
		case k < len(new) && len(old) > 0 && old[0] == new[k]:
			return 0, k
		}
	}
	return min(1, len(old)), 1
}

// alter records for the pod's node and owner that the pod was added or removed.
func (cache *Cache) alter(info *PodInfo, comes bool) {
	if o := info.Owner; o != nil && o.alter(info, comes, cache.Pass) {
		cache.otherOwners = append(cache.otherOwners, o)
	}
	if r := info.node; r != nil && info.counts && r.alter(info, comes, cache.Pass) {
		cache.otherNodes = append(cache.otherNodes, r)
	}
}

// fewRolls is a number of nodes for which a further goroutine is not worth its cost.
const fewRolls = 100

// refresh updates the nodes and owners whose pods have changed since the last call.
func (cache *Cache) refresh(threads int) {
	var parts []func()
	for _, x := range parallel.Ranges(len(cache.otherNodes), threads, fewRolls) {
		parts = append(parts, func() {
			for _, r := range cache.otherNodes[x.From:x.To] {
				if infos, stayed, changed := r.finish(r.Infos); changed {
					*r = NodePods{Infos: infos, podSet: r.podSet, seen: r.seen}
					r.close(stayed)
				}
			}
		})
	}
	parallel.Run(parts...)
	for _, o := range cache.otherOwners {
		if infos, _, changed := o.finish(o.Infos); changed {
			o.Infos, o.startRead = infos, false
		}
	}
	cache.otherNodes, cache.otherOwners = cache.otherNodes[:0], cache.otherOwners[:0]
}

// fewCame is the number of new pods up to which each is moved alone to its index in the list.
const fewCame = 8

// close sorts a node's new list, whose first stayed pods are in order, and counts its pods by their labels.
func (r *NodePods) close(stayed int) {
	if came := len(r.Infos) - stayed; came > fewCame {
		slices.SortFunc(r.Infos, func(a, b *PodInfo) int { return kube.OlderFirst(a.Pod, b.Pod) })
	} else {
		for i := stayed; i < len(r.Infos); i++ { // the list is sorted by age, so new pods usually belong at its end
			info, at := r.Infos[i], i
			for ; at > 0 && kube.OlderFirst(info.Pod, r.Infos[at-1].Pod) < 0; at-- {
				r.Infos[at] = r.Infos[at-1]
			}
			r.Infos[at] = info
		}
	}
	for _, info := range r.Infos {
		r.Hash += info.hash
		r.Bound, r.Annotated = append(r.Bound, info.Pod), r.Annotated || len(info.Pod.Annotations) > 0
		i := slices.IndexFunc(r.Kinds, func(k kindCount) bool { return k.Kind == info.Labels })
		if i < 0 {
			i = len(r.Kinds)
			r.Kinds = append(r.Kinds, kindCount{Kind: info.Labels})
		}
		r.Kinds[i].N++
		if info.Ending {
			r.Kinds[i].Ending++
		}
		if info.particular {
			r.Particular = append(r.Particular, info)
		}
	}
}
