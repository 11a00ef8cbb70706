package bound

import (
	"cmp"
	"slices"
)

// knapsack looks for the pods that are worth most together on one supply, by branch and bound. What room is left is worth no more
// than the prices of a linear program say, which puts on fractions of pods; where that leaves too much open, no more
// than a table says that knows whole pods.
type knapsack struct {
	s      *supply
	items  []item    // those that are worth most for what they ask first
	room   []int64   // of each resource that is asked for
	price  []float64 // of a unit of it
	trial  []int     // of each item
	best   float64
	better []Filling // each worth more than all before it
	most   float64   // no filling that is worth more than the supply costs is worth more
	steps  int
	limit  int // of them
	table  *table
	leads  int // of the items, the first ones: those that the supply may be bought for
}

// item is a demand of which pods fit.
type item struct {
	demand int
	ask    []int64
	worth  float64
	count  int     // pods
	rate   float64 // worth for the price of the room that a pod takes
	leads  bool    // the supply may be bought for it
	top    float64 // the highest rate of this item and those after it
}

// newKnapsack is the search on the supply at what pods are worth.
func (g *generation) newKnapsack(s *supply, worth []float64, limit int) *knapsack {
	k := &knapsack{s: s, limit: limit, room: make([]int64, len(g.dims))}
	for d, dim := range g.dims {
		k.room[d] = s.size[dim]
	}
	for _, i := range g.of {
		w := &g.b.demands[i]
		if worth[i] <= 0 || !able(w, s) {
			continue
		}
		if n := w.most(s.size, g.left[i]); n > 0 {
			it := item{demand: i, ask: make([]int64, len(g.dims)), worth: worth[i], count: n, leads: s.leads(i)}
			for d, dim := range g.dims {
				it.ask[d] = max(0, w.Request[dim])
			}
			k.items = append(k.items, it)
		}
	}
	k.trial = make([]int, len(k.items))
	if len(k.items) > 0 {
		k.rate()
	}
	return k
}

// fullest finds the best filling of the supply that is worth more than it costs.
func (g *generation) fullest(s *supply, worth []float64, limit int) *knapsack {
	k := g.newKnapsack(s, worth, limit)
	if k.most = k.atMost(0); k.most > s.Price {
		k.search()
		if k.steps > stepsForOne && limit > stepsForOne {
			g.effort -= k.steps
			k.tabulate(g)
			k.search()
		}
	}
	g.effort -= k.steps + len(k.items)
	return k
}

// search tries what there is to try.
func (k *knapsack) search() {
	k.most, k.steps = 0, 0
	k.try(0, 0, false)
	k.most = max(k.most, k.best)
}

// rate finds the prices of the room, and orders the items by them.
func (k *knapsack) rate() {
	worth, rows := make([]float64, len(k.items)), make([][]float64, len(k.room))
	for i := range k.items {
		worth[i] = k.items[i].worth
	}
	for d, have := range k.room {
		rows[d] = make([]float64, len(k.items))
		for i := range k.items {
			if n := k.items[i].ask[d]; n > 0 {
				rows[d][i] = float64(n) / float64(have)
			}
		}
	}
	_, k.price = maximise(worth, rows, slices.Repeat([]float64{1}, len(rows)), 10*(len(rows)+len(worth)))
	// What asks only for room that costs nothing could not be compared; pods that are worth next to nothing cost nothing at all.
	least := max(slices.Max(k.price)*1e-6, 1e-15)
	for d, have := range k.room {
		if have > 0 {
			k.price[d] = max(k.price[d], least) / float64(have)
		}
	}
	for i := range k.items {
		it := &k.items[i]
		it.rate = it.worth / k.cost(it.ask)
	}
	// Pods that the supply may be bought for come before the others: one of them has to be there.
	leads := slices.DeleteFunc(slices.Clone(k.items), func(it item) bool { return !it.leads })
	others := slices.DeleteFunc(k.items, func(it item) bool { return it.leads })
	for _, items := range [][]item{leads, others} {
		slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.rate, a.rate) })
	}
	k.leads, k.items = len(leads), append(leads, others...)
	top := 0.0
	for i := len(k.items) - 1; i >= 0; i-- {
		top = max(top, k.items[i].rate)
		k.items[i].top = top
	}
}

// cost is what the amounts cost at the prices of the room.
func (k *knapsack) cost(amounts []int64) float64 {
	sum := 0.0
	for d, n := range amounts {
		sum += float64(float64(n) * k.price[d])
	}
	return sum
}

// atMost is no less than what pods of the items from the i-th on are worth in the room.
func (k *knapsack) atMost(i int) float64 {
	if i == len(k.items) {
		return 0
	}
	return k.cost(k.room) * k.items[i].top * (1 + 1e-12)
}

// enough is what a filling has to be worth more than to be looked for.
func (k *knapsack) enough() float64 { return max(k.best, k.s.Price) * (1 + 1e-12) }

// fit is how many pods of the item there is room for.
func (k *knapsack) fit(it *item) int {
	n := int64(it.count)
	for d, ask := range it.ask {
		if ask > 0 && n*ask > k.room[d] {
			n = k.room[d] / ask
		}
	}
	return int(n)
}

func (k *knapsack) put(it *item, n int) {
	for d, ask := range it.ask {
		k.room[d] -= ask * int64(n)
	}
}

// try fills what room is left with pods of the items from the i-th on.
func (k *knapsack) try(i int, value float64, led bool) {
	if value > k.best {
		k.best = value
		f := Filling{Supply: k.s.index, Price: k.s.Price, supply: k.s}
		for j, n := range k.trial {
			if n > 0 {
				f.Loads = append(f.Loads, Load{k.items[j].demand, n})
			}
		}
		k.better = append(k.better, f)
	}
	if k.table != nil && value+k.table.atMost(k, i) <= k.enough() {
		return
	}
	if !led && i >= k.leads {
		return
	}
	n := 0
	for ; i < len(k.items); i++ {
		if n = k.fit(&k.items[i]); n > 0 {
			break
		}
	}
	if i == len(k.items) {
		return
	}
	if k.steps++; k.steps > k.limit || k.table == nil && k.steps > stepsForOne {
		k.most = max(k.most, value+k.atMost(i))
		return
	}
	it := &k.items[i]
	k.put(it, n)
	for ; n >= 0; n-- {
		k.trial[i] = n
		sum := value + float64(float64(n)*it.worth)
		if sum+k.atMost(i+1) > k.enough() {
			k.try(i+1, sum, led || n > 0 && it.leads)
		} else if it.rate == it.top {
			break // with fewer of what is worth most the rest is worth less still
		}
		if n > 0 {
			k.put(it, -1)
		}
	}
	k.put(it, -max(n, 0))
	k.trial[i] = 0
}

// table says of each item, room of the dearest resource and devices, what pods from this item on are worth at most there: without
// rules for the other resources, which cost what they cost at the prices instead (dynamic programming over the bound of
// J. L. Lagrange's multipliers).
type table struct {
	dear    int   // the resource
	unit    int64 // of it
	devices []int // resources of which there are few
	span    []int // of each of them, how far its amounts are apart
	width   int   // of the entries of one item
	worth   []float64
}

// mostUnits is into how many parts the dearest resource is divided, mostEntries how many entries there are for one item.
const (
	mostUnits   = 256
	mostEntries = 1 << 14
)

// tabulate works out the table, into the room that the last one had.
func (k *knapsack) tabulate(g *generation) {
	t := &table{dear: -1}
	most := 0.0
	for d, have := range k.room {
		if slices.Contains(g.b.devices, g.dims[d]) {
			continue
		}
		if all := float64(have) * k.price[d]; t.dear < 0 || all > most {
			t.dear, most = d, all
		}
	}
	if t.dear < 0 {
		t.dear = 0
	}
	t.unit = max(1, (k.room[t.dear]+mostUnits-1)/mostUnits)
	t.width = int(k.room[t.dear]/t.unit) + 1
	for d, have := range k.room {
		if d != t.dear && slices.Contains(g.b.devices, g.dims[d]) && have > 0 && have < mostEntries/int64(t.width) {
			t.devices, t.span = append(t.devices, d), append(t.span, t.width)
			t.width *= int(have) + 1
		}
	}
	size := (len(k.items) + 1) * t.width
	if cap(g.table) < size {
		g.table = make([]float64, size)
	}
	t.worth = g.table[:size]
	clear(t.worth[len(k.items)*t.width:])
	for i := len(k.items) - 1; i >= 0; i-- {
		it := &k.items[i]
		row, next := t.worth[i*t.width:][:t.width], t.worth[(i+1)*t.width:][:t.width]
		copy(row, next)
		gain := it.worth
		for d, ask := range it.ask {
			if d != t.dear && !slices.Contains(t.devices, d) {
				gain -= float64(float64(ask) * k.price[d])
			}
		}
		if gain <= 0 {
			continue
		}
		back := int(it.ask[t.dear] / t.unit)
		for x, d := range t.devices {
			back += int(it.ask[d]) * t.span[x]
		}
		for at := back; at < t.width; at++ {
			switch {
			case back == 0:
				row[at] += float64(gain * float64(it.count))
			case !t.lacks(it, at):
				row[at] = max(row[at], row[at-back]+gain)
			}
		}
	}
	g.effort -= size / 16
	k.table = t
}

// lacks reports whether the entry has too little for a pod of the item.
func (t *table) lacks(it *item, at int) bool {
	for x := len(t.devices) - 1; x >= 0; x-- {
		if int64(at/t.span[x]) < it.ask[t.devices[x]] {
			return true
		}
		at %= t.span[x]
	}
	return int64(at) < it.ask[t.dear]/t.unit
}

// atMost is no less than what pods of the items from the i-th on are worth in the room.
func (t *table) atMost(k *knapsack, i int) float64 {
	at, other := int(k.room[t.dear]/t.unit), 0.0
	for x, d := range t.devices {
		at += int(k.room[d]) * t.span[x]
	}
	for d, have := range k.room {
		if d != t.dear && !slices.Contains(t.devices, d) {
			other += float64(float64(have) * k.price[d])
		}
	}
	return (t.worth[i*t.width+at] + other) * (1 + 1e-12)
}
