package packing

import (
	"math"
	"slices"
)

// remainders lists what has been reached, each a number of pods of each lot that have no machine yet.
type remainders struct {
	list  []remainder
	known map[uint64]int32
	table []int32 // the same where there are few of them, one more than the index
}

type remainder struct {
	key    uint64
	cost   float64 // of the machines so far
	from   int     // the remainder before the last of them
	by     int     // its filling
	closed bool
}

// mostTable bounds the keys for which a table is made.
const mostTable = 1 << 16

// newRemainders begins with all pods.
func (c *cover) newRemainders() *remainders {
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

// at is the index of the remainder, a new one that has not been reached if need be.
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

// waiting is a remainder that has not been looked at, with the least that a whole way over it may cost.
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
		return w.cost > o.cost // nearer to the end
	}
	return w.at < o.at
}

// queue is a heap of them.
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

// step is one machine of the way.
type step struct {
	filling int
	pods    []int
}

// search finds the cheapest way from all pods to none, or where that takes too much one that costs hardly more; ok is false if it
// finds neither, the path nil if nothing is cheaper than what is known.
func (c *cover) search() (path []step, ok bool) {
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

// cheapest finds the cheapest way, or none if there is no cheaper one than what is known; ok is false if that takes more steps than
// limit. It tries first whether a little more than the floor is enough: the less may be lost, the fewer fillings there are.
func (c *cover) cheapest(limit int) (path []step, ok bool) {
	for {
		most := c.ceiling * (1 - 1e-9)
		ceiling := min(most, c.floor+c.room)
		if path, ok = c.below(ceiling, 1, limit); path != nil || !ok || ceiling == most {
			return path, ok
		}
		c.room *= 1.5
	}
}

// hasty finds a way that costs little more than the floor, nil if it is not cheaper than what is known: it goes for the end.
func (c *cover) hasty() []step {
	for share := nearlyExact; ; share *= 1.5 {
		most := c.ceiling * (1 - 1e-9)
		ceiling := min(most, c.floor*(1+share))
		if path, _ := c.below(ceiling, 1.5, c.effort+c.limit/hastyPart); path != nil || ceiling == most {
			return path
		}
	}
}

// firstRoom is by how much, as a share, machines may cost more than the floor at first, nearlyExact the same where the way need not be
// the cheapest; each try for such a way takes one part in hastyPart of the steps.
const (
	hastyPart   = 12
	firstRoom   = 1.0 / 512
	nearlyExact = 1.0 / 256
)

// below is a search for ways that cost no more than the ceiling. Weight is how much what is to come counts beside what is paid: with 1
// the way is the cheapest, with more it is found sooner and costs so much more at most (I. Pohl, 1970). Once the effort is above
// limit it gives up, and ok is false.
func (c *cover) below(ceiling, weight float64, limit int) (path []step, ok bool) {
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

// after is the remainder once the filling is there, and no more than what machines for its pods cost.
func (c *cover) after(f *filling, left []int) (key uint64, rest float64) {
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

// led reports whether some pod that is left is a reason to buy the filling's offering.
func (f *filling) led(left []int) bool {
	for i, n := range f.pods {
		if n > 0 && left[i] > 0 && f.lead.Has(i) {
			return true
		}
	}
	return false
}

func (c *cover) decode(key uint64, left []int) {
	for i := len(left) - 1; i >= 0; i-- {
		left[i] = int(key / c.radix[i])
		key %= c.radix[i]
	}
}

func (c *cover) value(left []int) float64 {
	sum := 0.0
	for i, n := range left {
		sum += float64(float64(n) * c.worth[i])
	}
	return sum
}

// rest is no more than machines for the pods cost.
func (c *cover) rest(left []int) float64 {
	least := c.value(left)
	for i, n := range left {
		if n > 0 {
			least = max(least, c.dear[i])
		}
	}
	return least * (1 - 1e-12)
}

// way lists the machines between the first remainder and this one.
func (c *cover) way(list []remainder, at int) []step {
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
