package packing

import (
	"slices"

	"tenon.sh/engine/capacity"
)

// keepApart moves a replica to another machine if one machine holds all replicas of an owner, and if the move costs nothing: the other
// machine has room, or a pod there takes its place. No pod requires this, but the failure of one machine should not take down a whole
// workload without need.
func (l *listing) keepApart() {
	if len(l.bins) < 2 {
		return
	}
	on := map[int][]int{} // the open bins with pods of each owner
	pods := map[int]int{}
	var owners []int
	for i, b := range l.bins {
		for _, pod := range b.pinned {
			owner := l.ownerOf(pod)
			if owner < 0 {
				continue
			}
			if pods[owner] == 0 {
				owners = append(owners, owner)
			}
			pods[owner]++
			if list := on[owner]; len(list) == 0 || list[len(list)-1] != i {
				on[owner] = append(on[owner], i)
			}
		}
	}
	for _, owner := range owners {
		if pods[owner] > 1 && len(on[owner]) == 1 {
			l.moveOne(owner, on[owner][0], on)
		}
	}
}

// ownerOf returns the owner of a pod that keepApart may move. It returns -1 for a pod with no owner, with rules between pods, or with several levels.
func (l *listing) ownerOf(pod Pod) int {
	c := &l.p.Classes[pod.Class]
	if len(c.Owners) == 0 || len(c.Levels) != 1 || !l.free(pod.Class) {
		return -1
	}
	return c.Owners[pod.Number]
}

// mostPartners bounds the machines that are tried for one replica.
const mostPartners = 64

func (l *listing) moveOne(owner, from int, on map[int][]int) {
	a := l.bins[from]
	i := slices.IndexFunc(a.pinned, func(pod Pod) bool { return l.ownerOf(pod) == owner })
	if i < 0 {
		return // the replicas moved away in exchange for pods of another owner
	}
	pod := a.pinned[i]
	request := l.p.Classes[pod.Class].Request
	for k := 1; k < min(len(l.bins), mostPartners); k++ {
		at := (from + k) % len(l.bins)
		b := l.bins[at]
		if !l.accepts(b, pod.Class) {
			continue
		}
		with := b.sum.Clone()
		with.Add(request, 1)
		if l.holds(b, with) {
			l.swap(a, i, b, -1)
			on[owner] = append(on[owner], at)
			return
		}
		for j, other := range b.pinned {
			o := l.ownerOf(other)
			if o < 0 || o == owner || slices.Contains(on[o], from) || !l.accepts(a, other.Class) {
				continue
			}
			theirs := l.p.Classes[other.Class].Request
			there, here := with.Clone(), a.sum.Clone()
			there.Add(theirs, -1)
			here.Add(request, -1)
			here.Add(theirs, 1)
			if l.holds(b, there) && l.holds(a, here) {
				l.swap(a, i, b, j)
				on[owner], on[o] = append(on[owner], at), append(on[o], from)
				return
			}
		}
	}
}

// accepts reports whether the class may use every option of the open bin, without narrowing free keys.
func (l *listing) accepts(b *openBin, class int) bool {
	for _, way := range l.p.Classes[class].Levels[0].Ways.Pools[b.pool] {
		if allNil(way.Free) && b.ways.Within(way.Options) {
			return true
		}
	}
	return false
}

// holds reports whether the open bin's present option has room for the sum of requests. It returns false if the pool requires a variety of options.
func (l *listing) holds(b *openBin, sum capacity.Vector) bool {
	return b.variety == nil && sum.Fits(l.market.pools[b.pool].Options[b.option].Allocatable)
}

// swap moves pod i of a to b, and pod j of b to a unless j is negative.
func (l *listing) swap(a *openBin, i int, b *openBin, j int) {
	pod := a.pinned[i]
	a.sum, b.sum = a.sum.Clone(), b.sum.Clone()
	a.pinned, b.pinned = slices.Clone(a.pinned), slices.Clone(b.pinned)
	a.sum.Add(l.p.Classes[pod.Class].Request, -1)
	b.sum.Add(l.p.Classes[pod.Class].Request, 1)
	if j < 0 {
		a.pinned = slices.Delete(a.pinned, i, i+1)
		b.pinned = append(b.pinned, pod)
		return
	}
	other := b.pinned[j]
	a.sum.Add(l.p.Classes[other.Class].Request, 1)
	b.sum.Add(l.p.Classes[other.Class].Request, -1)
	a.pinned[i], b.pinned[j] = other, pod
}
