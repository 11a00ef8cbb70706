package packing_test

import (
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
)

// brute finds the cheapest machines for a ruled problem: it tries every way to divide the pods among zones and, in each zone, among
// machines. It checks rules on the final counts, so the order of the pods does not matter.
type brute struct {
	*ruled
	cache []map[string][]bill // of each zone, the bills of machines for these pods
	best  float64
}

// bill is the cost of some machines: a price, and the amounts that they take of the limit and of the reservation.
type bill struct {
	price float64
	cpu   int64
	slots int
}

func (d *ruled) brute() *brute {
	b := &brute{ruled: d}
	for range d.zones {
		b.cache = append(b.cache, map[string][]bill{})
	}
	return b
}

// least returns the least price of machines for the given numbers of pods of each class, infinite if they cannot be placed.
func (b *brute) least(counts []int) float64 {
	b.best = math.Inf(1)
	b.divide(0, counts, make([][]int, b.zones))
	return b.best
}

// divide puts the pods of one class after the other into zones: in[z] holds the numbers of pods of each class so far.
func (b *brute) divide(class int, counts []int, in [][]int) {
	if class == len(counts) {
		if b.mayStand(in) {
			b.price(in)
		}
		return
	}
	var part func(z, left int)
	part = func(z, left int) {
		if z == b.zones-1 {
			in[z] = append(in[z][:class:class], left)
			b.divide(class+1, counts, in)
			return
		}
		for n := range left + 1 {
			in[z] = append(in[z][:class:class], n)
			part(z+1, left-n)
		}
	}
	part(0, counts[class])
}

// mayStand checks the wishes about zones.
func (b *brute) mayStand(in [][]int) bool {
	for c, w := range b.wishes {
		zones, total := 0, 0
		for z := range in {
			n := in[z][c]
			total += n
			if n == 0 {
				continue
			}
			zones++
			if w.zoneAlone && n > 1 || w.zoneApart >= 0 && in[z][w.zoneApart] > 0 || w.zoneWith >= 0 && in[z][w.zoneWith] == 0 {
				return false
			}
		}
		if (w.zoneSelf || w.hostSelf) && zones > 1 || w.skew > 0 && total > 0 && !b.even(c, in) {
			return false
		}
	}
	return true
}

// even checks the skew between the zones in which machines for the class can be bought, or in which other pods that the class may join have
// machines.
func (b *brute) even(c int, in [][]int) bool {
	least, most, domains := math.MaxInt, 0, 0
	for z := range in {
		most = max(most, in[z][c])
		others := b.wishes[c].without != z && slices.Max(in[z]) > 0
		if b.sells(c, z) || others {
			domains++
			least = min(least, in[z][c])
		}
	}
	if domains < max(1, b.wishes[c].domains) {
		least = 0
	}
	return most-least <= b.wishes[c].skew
}

func (b *brute) sells(c, z int) bool {
	return slices.ContainsFunc(b.p.Pools[0].Options, func(o packing.Option) bool {
		return o.Place == z && b.p.Classes[c].Request.Fits(o.Allocatable) && o.Charge[0] <= b.p.Pools[0].Left[0]
	}) && b.admits(c, z)
}

func (b *brute) admits(c, z int) bool {
	for o := range b.p.Pools[0].Options {
		if b.p.Pools[0].Options[o].Place == z && b.ways(c).Has(o) && b.p.Classes[c].Request.Fits(b.p.Pools[0].Options[o].Allocatable) {
			return true
		}
	}
	return false
}

func (b *brute) ways(c int) bitset.Set { return b.p.Classes[c].Levels[0].Ways.Pools[0][0].Options }

// price adds up the bills of the zones, and keeps the least price within the limit and the reservation.
func (b *brute) price(in [][]int) {
	bills := []bill{{}}
	for z := range in {
		bills = sums(bills, b.machines(z, in[z]))
	}
	for _, x := range bills {
		if x.cpu <= b.p.Pools[0].Left[0] && (x.slots == 0 || x.slots <= b.p.Quotas[0]) {
			b.best = min(b.best, x.price)
		}
	}
}

// machines returns the bills of all sets of machines in the zone that hold exactly these pods. It returns none if no machines do.
func (b *brute) machines(z int, pods []int) []bill {
	first := slices.IndexFunc(pods, func(n int) bool { return n > 0 })
	if first < 0 {
		return []bill{{}}
	}
	key := string(bytesOf(pods))
	if known, ok := b.cache[z][key]; ok {
		return known
	}
	var out []bill
	on, rest := make([]int, len(pods)), slices.Clone(pods)
	var fill func(c int)
	fill = func(c int) { // fills the machine that holds a pod of the first class
		if c == len(pods) {
			if on[first] > 0 && b.mayShare(on, pods) {
				if one := b.options(z, on); len(one) > 0 {
					out = append(out, sums(one, b.machines(z, slices.Clone(rest)))...)
				}
			}
			return
		}
		for n := range pods[c] + 1 {
			on[c], rest[c] = n, pods[c]-n
			fill(c + 1)
		}
		on[c], rest[c] = 0, pods[c]
	}
	fill(0)
	out = frontier(out)
	b.cache[z][key] = out
	return out
}

func bytesOf(n []int) []byte {
	out := make([]byte, len(n))
	for i := range n {
		out[i] = byte(n[i])
	}
	return out
}

// mayShare checks the wishes about machines: one machine holds the pods in on, a part of the zone's pods in left.
func (b *brute) mayShare(on, left []int) bool {
	for c, w := range b.wishes {
		if on[c] == 0 {
			continue
		}
		if w.alone && on[c] > 1 || w.most > 0 && on[c] > w.most || w.apart >= 0 && on[w.apart] > 0 || w.hostWith >= 0 && on[w.hostWith] == 0 {
			return false
		}
		if w.hostSelf && on[c] < left[c] {
			return false
		}
	}
	return true
}

// options returns the bills of all options for one machine with these pods.
func (b *brute) options(z int, on []int) []bill {
	sum := make(capacity.Vector, len(b.p.Classes[0].Request))
	for c, n := range on {
		sum.Add(b.p.Classes[c].Request, int64(n))
	}
	var out []bill
	for i := range b.p.Pools[0].Options {
		o := &b.p.Pools[0].Options[i]
		if o.Place != z || !sum.Fits(o.Allocatable) {
			continue
		}
		if slices.ContainsFunc(b.users(on), func(c int) bool { return !b.ways(c).Has(i) }) {
			continue
		}
		x := bill{price: o.Price}
		if b.p.Pools[0].Left[0] < capacity.Most {
			x.cpu = o.Charge[0]
		}
		if len(o.Draws) > 0 {
			x.slots = o.Draws[0].Units
		}
		out = append(out, x)
	}
	return frontier(out)
}

func (b *brute) users(on []int) []int {
	var out []int
	for c, n := range on {
		if n > 0 {
			out = append(out, c)
		}
	}
	return out
}

func sums(a, b []bill) []bill {
	var out []bill
	for _, x := range a {
		for _, y := range b {
			out = append(out, bill{x.price + y.price, x.cpu + y.cpu, x.slots + y.slots})
		}
	}
	return frontier(out)
}

// frontier drops each bill if another bill is at least as good in every amount.
func frontier(bills []bill) []bill {
	var out []bill
	for i, x := range bills {
		beaten := false
		for j, y := range bills {
			if y.price <= x.price && y.cpu <= x.cpu && y.slots <= x.slots && (y != x || j < i) {
				beaten = true
				break
			}
		}
		if !beaten {
			out = append(out, x)
		}
	}
	return out
}
