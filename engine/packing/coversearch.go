package packing

import (
	"math"
	"slices"
)

// remainders lists the states that the search has reached: for each, the number of pods of each lot without a machine.
type remainders struct {
	list  []remainder
	known map[uint64]int32
	table []int32 // used instead of known if there are few keys; an entry is the index in list plus one, 0 for none
}

type remainder struct {
	key    uint64
	cost   float64 // the cost of the machines so far
	from   int     // the index of the remainder before the last machine; -1 for the start
	by     int     // the index of the last machine's filling
	closed bool
}

// mostTable bounds the keys for which a table is used.
const mostTable = 1 << 16

// newRemainders returns remainders with one state, in which no pod has a machine.
func (c *coverSearch) newRemainders() *remainders {
	key := uint64(0)
	for i, n := range c.counts {
		key += uint64(n) * c.radix[i]
	}
	t := &remainders{}
	if key < mostTable {
		t.table = make([]int32, key+1)
	} else {
		t.known = map[uint64]int32{}
	}
	t.list[t.at(key)] = remainder{key: key, from: -1}
	return t
}

// at returns the index of the remainder. If the remainder is new, it is added, with an infinite cost.
func (t *remainders) at(key uint64) int {
	i := int32(0)
	if t.table != nil {
		i = t.table[key]
	} else {
		i = t.known[key]
	}
	if i > 0 {
		return int(i - 1)
	}
	t.list = append(t.list, remainder{key: key, cost: math.MaxFloat64})
	if t.table != nil {
		t.table[key] = int32(len(t.list))
	} else {
		t.known[key] = int32(len(t.list))
	}
	return len(t.list) - 1
}

// waiting is a remainder that the search still has to try, with a lower bound for the cost of a whole path through it.
type waiting struct {
	least float64
	cost  float64
	at    int
}

func (w waiting) before(o waiting) bool {
	if w.least != o.least {
		return w.least < o.least
	}
	if w.cost != o.cost {
		return w.cost > o.cost // the remainder nearer to the end of the path comes first
	}
	return w.at < o.at
}

// queue is a heap of waiting remainders.
type queue []waiting

func (q *queue) push(w waiting) {
	*q = append(*q, w)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() waiting {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*q = h
	return top
}

// step is one machine of a path.
type step struct {
	filling int
	pods    []int
}

// search finds the cheapest path from all pods to none or, if that takes too much effort, a path that costs hardly more. ok is false if it
// finds neither; path is nil if no path is cheaper than the best machines so far.
func (c *coverSearch) search() (path []step, ok bool) {
	c.room = c.floor * firstRoom
	if path, ok = c.cheapest(c.limit / 4); ok {
		return path, true
	}
	known := c.hasty()
	if path, ok = c.cheapest(c.limit); !ok {
		path = c.hasty()
	}
	if path == nil {
		path = known
	}
	return path, ok || path != nil
}

// cheapest finds the cheapest path, or none if the best machines so far are not dearer; ok is false if that takes more effort than limit.
// It first tries to find a path that costs little more than the floor, because fewer fillings come into question then.
func (c *coverSearch) cheapest(limit int) (path []step, ok bool) {
	for {
		most := c.ceiling * (1 - 1e-9)
		ceiling := min(most, c.floor+c.room)
		if path, ok = c.below(ceiling, 1, limit); path != nil || !ok || ceiling == most {
			return path, ok
		}
		c.room *= 1.5
	}
}

// hasty finds a path that costs little more than the floor. It returns nil if it is not cheaper than the best machines so far. It prefers
// remainders near the end.
func (c *coverSearch) hasty() []step {
	for share := nearlyExact; ; share *= 1.5 {
		most := c.ceiling * (1 - 1e-9)
		ceiling := min(most, c.floor*(1+share))
		if path, _ := c.below(ceiling, 1.5, c.effort+c.limit/hastyPart); path != nil || ceiling == most {
			return path
		}
	}
}

// firstRoom is the share of the floor by which a path may cost more in the first try. nearlyExact is this share for a path that need not be the
// cheapest. Each try for such a path may take 1/hastyPart of the steps.
const (
	hastyPart   = 12
	firstRoom   = 1.0 / 512
	nearlyExact = 1.0 / 256
)

// below looks for a path that costs no more than ceiling. weight multiplies the estimate of the cost from a remainder to the end. If weight is 1, the
// path is the cheapest. If weight is more, the path is found sooner and costs at most weight times as much (I. Pohl, 1970). If effort exceeds limit,
// below stops and ok is false.
func (c *coverSearch) below(ceiling, weight float64, limit int) (path []step, ok bool) {
	t := c.newRemainders()
	q := queue{}
	q.push(waiting{least: c.rest(c.counts), at: 0})
	left := make([]int, len(c.lots))
	for len(q) > 0 {
		w := q.pop()
		if t.list[w.at].closed || w.cost > t.list[w.at].cost {
			continue
		}
		if weight == 1 {
			c.floor = max(c.floor, w.least)
		}
		if t.list[w.at].key == 0 {
			c.ceiling = min(c.ceiling, w.cost)
			return c.way(t.list, w.at), true
		}
		if c.effort > limit {
			return nil, false
		}
		t.list[w.at].closed = true
		from := t.list[w.at]
		c.decode(from.key, left)
		worth := c.value(left)
		for _, fi := range c.first[slices.IndexFunc(left, func(n int) bool { return n > 0 })] {
			f := &c.fillings[fi]
			if from.cost+worth+f.loss > ceiling {
				break
			}
			c.effort++
			key, rest := c.after(f, left)
			cost := from.cost + f.price
			if cost+rest > ceiling || f.lead != nil && !f.led(left) {
				continue
			}
			at := t.at(key)
			if st := &t.list[at]; !st.closed && cost < st.cost*(1-1e-12) {
				st.cost, st.from, st.by = cost, w.at, fi
				q.push(waiting{cost + float64(weight*rest), cost, at})
			}
		}
	}
	if weight == 1 {
		c.floor = max(c.floor, ceiling)
	}
	return nil, true
}

// after returns the remainder that is left after the filling is bought, and a lower bound for the cost of machines for its pods.
func (c *coverSearch) after(f *filling, left []int) (key uint64, rest float64) {
	dear := 0.0
	for i, n := range f.pods {
		if n = left[i] - n; n > 0 {
			key += uint64(n) * c.radix[i]
			rest += float64(float64(n) * c.worth[i])
			dear = max(dear, c.dear[i])
		}
	}
	return key, max(rest, dear) * (1 - 1e-12)
}

// led reports whether the offering of the filling may be bought for a pod that is left.
func (f *filling) led(left []int) bool {
	for i, n := range f.pods {
		if n > 0 && left[i] > 0 && f.lead.Has(i) {
			return true
		}
	}
	return false
}

func (c *coverSearch) decode(key uint64, left []int) {
	for i := len(left) - 1; i >= 0; i-- {
		left[i] = int(key / c.radix[i])
		key %= c.radix[i]
	}
}

func (c *coverSearch) value(left []int) float64 {
	sum := 0.0
	for i, n := range left {
		sum += float64(float64(n) * c.worth[i])
	}
	return sum
}

// rest returns a lower bound for the cost of machines for the pods.
func (c *coverSearch) rest(left []int) float64 {
	least := c.value(left)
	for i, n := range left {
		if n > 0 {
			least = max(least, c.dear[i])
		}
	}
	return least * (1 - 1e-12)
}

// way returns the machines between the first remainder and this one.
func (c *coverSearch) way(list []remainder, at int) []step {
	var out []step
	left, before := make([]int, len(c.lots)), make([]int, len(c.lots))
	for ; list[at].from >= 0; at = list[at].from {
		c.decode(list[at].key, left)
		c.decode(list[list[at].from].key, before)
		pods := make([]int, len(left))
		for i := range left {
			pods[i] = before[i] - left[i]
		}
		out = append(out, step{list[at].by, pods})
	}
	slices.Reverse(out)
	return out
}
