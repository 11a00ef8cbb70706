package bound

import (
	"cmp"
	"slices"
)

// knapsack is a search for the pods that are worth most together on one supply, by branch and bound. The prices of a linear program with fractions of
// pods limit the worth of the remaining room. If that limit is too high, a table for whole pods gives a better one.
type knapsack struct {
	s      *supply
	items  []item    // items with the greatest worth for their requests first
	room   []int64   // the remaining room of each requested resource
	price  []float64 // the price of a unit of the room
	trial  []int     // the number of pods of each item
	best   float64
	better []Filling // each worth more than all before it
	most   float64   // an upper bound for the worth of fillings that are worth more than the supply costs
	steps  int
	limit  int // the most steps
	table  *table
	leads  int // the number of items that the supply may be bought for; they come first
}

// item is a demand with a pod that fits.
type item struct {
	demand int
	ask    []int64
	worth  float64
	count  int     // pods
	rate   float64 // worth per price of the room that a pod takes
	leads  bool    // the supply may be bought for it
	top    float64 // the highest rate of this item and those after it
}

// newKnapsack returns the search on the supply with this worth of pods.
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

// search tries all fillings, within the limits of steps.
func (k *knapsack) search() {
	k.most, k.steps = 0, 0
	k.try(0, 0, false)
	k.most = max(k.most, k.best)
}

// rate finds the prices of the room, and sorts the items by them.
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
	// No price may be zero, because items that request only such room could not be compared. The least price is also bounded below for pods
	// that are worth almost nothing.
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
	// Items that the supply may be bought for come first, because the filling needs one of them.
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

// cost returns the price of the amounts at the prices of the room.
func (k *knapsack) cost(amounts []int64) float64 {
	sum := 0.0
	for d, n := range amounts {
		sum += float64(float64(n) * k.price[d])
	}
	return sum
}

// atMost returns an upper bound for the worth of pods of the items from the i-th on in the room.
func (k *knapsack) atMost(i int) float64 {
	if i == len(k.items) {
		return 0
	}
	return k.cost(k.room) * k.items[i].top * (1 + 1e-12)
}

// enough returns the worth that a filling has to exceed to be kept.
func (k *knapsack) enough() float64 { return max(k.best, k.s.Price) * (1 + 1e-12) }

// fit returns how many pods of the item fit into the room.
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

// try fills the remaining room with pods of the items from the i-th on.
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
			break // with fewer pods of the best item, the rest is worth even less
		}
		if n > 0 {
			k.put(it, -1)
		}
	}
	k.put(it, -max(n, 0))
	k.trial[i] = 0
}

// table has, for each item and each room of the dearest resource and of the devices, an upper bound for the worth of pods from this item
// on. The table does not limit the other resources. Instead, pods pay for these resources at their prices (dynamic programming over the bound of J.
// L. Lagrange's multipliers).
type table struct {
	dear    int   // the index of the dearest resource
	unit    int64 // one step of this resource
	devices []int // the resources of which there are few
	span    []int // of each of devices, the distance between the entries of two amounts
	width   int   // the number of entries for one item
	worth   []float64
}

// mostUnits bounds the parts into which the dearest resource is divided, mostEntries the entries for one item.
const (
	mostUnits   = 256
	mostEntries = 1 << 14
)

// tabulate fills the table, in the memory of the last one.
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

// lacks reports whether the entry's room is too small for a pod of the item.
func (t *table) lacks(it *item, at int) bool {
	for x := len(t.devices) - 1; x >= 0; x-- {
		if int64(at/t.span[x]) < it.ask[t.devices[x]] {
			return true
		}
		at %= t.span[x]
	}
	return int64(at) < it.ask[t.dear]/t.unit
}

// atMost returns, from the table, an upper bound for the worth of pods of the items from the i-th on in the knapsack's room.
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
