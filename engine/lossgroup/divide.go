// Package lossgroup shortens the list of offerings of new spot machines, so that an owner does not lose all of its pods at once. A cloud takes the
// spot machines of one type in one zone away together.
package lossgroup

import (
	"cmp"
	"slices"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// Problem holds the choices from which a plan's machines were made.
type Problem struct {
	Pools   []*offering.Pool
	Classes []packing.Class
	// InGang reports whether the pods of the class start together or not at all.
	InGang func(class int) bool
	// Owners holds the names of the owners by the numbers that classes use.
	Owners *capacity.Names
	Cache  *inventory.Cache
	// Machines holds all machines. Targets holds the machines that may take pods, in the order of the solution.
	Machines, Targets []*inventory.Machine
}

// divider distributes the spot machines of one owner over several loss groups, because the cloud takes the machines of one type in one zone away
// together.
//
// A list of offerings is computed for its machine alone. So equal machines have equal lists, and the cloud may start all of them in one zone.
// divider makes lists shorter, never longer. Each listed offering holds the machine's pods, within all rules between pods. So the plan stays
// valid, and its cost rises only if the cheapest offering of a list is removed.
//
// The unit of counting is a cell: a zone with a type. If the lists contain more types than there are cells, some types share a cell.
type divider struct {
	p        *Problem
	zones    capacity.Names
	types    capacity.Names // in the order of the lists
	cellOf   [][]int        // by pool and option: its cell plus one, 0 if it is not computed yet
	owners   []*exposure    // by number, nil for owners without pods on new spot machines
	machines []*dividable
}

// exposure is the number of an owner's pods that can be lost at once.
type exposure struct {
	name  string
	total int   // the number of pods that run or will run
	at    []int // by cell, the number of pods on spot machines that may be of the cell
	// several is true if it has pods on more than one spot machine.
	several bool
	most    int // the largest number in a cell, as look has computed it
}

// risky reports whether more than half of the pods can be lost at once, although the owner has several spot machines.
func (e *exposure) risky() bool { return e.several && e.most > e.total/2 }

// dividable is a new spot machine.
type dividable struct {
	*packing.Machine
	pool       *offering.Pool
	loads      []ownerLoad
	all, cells bitset.Set // the cells of the original list, and of the present list
	listed     []int      // the original list
	cheapest   int        // the cheapest offering of the original list
	unpriced   bool       // the price of an offering is unknown
	why        *exposure  // the owner for whom the list is divided, nil for none
}

// ownerLoad is the number of an owner's pods on a machine.
type ownerLoad struct {
	*exposure
	number, pods int
}

// cellsPerZone is the number of cells in a zone, one for each type. If a plan has more types, types share cells. The number is even, so that
// types with the same cell are in the same half of the types.
const cellsPerZone = 128

func cellOf(zone, kind int) int { return zone*cellsPerZone + kind%cellsPerZone }

// axis is the way in which lists are divided: by zone, or by every second type.
type axis bool

const (
	byZone axis = false
	byType axis = true
)

// of returns the position of the cell on the axis.
func (a axis) of(cell int) int {
	if a == byType {
		return cell % 2
	}
	return cell / cellsPerZone
}

// Divide shortens the lists of new spot machines if more than half of an owner's pods could be lost at once. Other zones or types may raise the
// price by the share tolerance at most. Divide returns the division of each machine whose list is shorter.
func (p *Problem) Divide(s *packing.Solution, tolerance float64) map[*packing.Machine]*engine.Division {
	if tolerance < 0 {
		return nil
	}
	x := &divider{p: p, cellOf: make([][]int, len(p.Pools)), owners: make([]*exposure, p.Owners.Len())}
	x.read(s)
	if len(x.machines) == 0 {
		return nil
	}
	x.count(s)
	x.look()
	for _, m := range x.machines {
		m.why = m.riskiest()
	}
	for _, by := range []axis{byZone, byType} {
		x.narrow(by, tolerance)
		x.look()
	}
	x.widen()
	out := map[*packing.Machine]*engine.Division{}
	for _, m := range x.machines {
		out[m.Machine] = x.write(m)
	}
	return out
}

// read finds the new spot machines with pods that have owners. It leaves out pods that start together, because the loss of some of them is as
// bad as the loss of all.
func (x *divider) read(s *packing.Solution) {
	for i := range s.New {
		m := &s.New[i]
		pool := x.p.Pools[m.Pool]
		if !x.p.isSpot(m) {
			continue
		}
		d := &dividable{Machine: m, pool: pool, listed: m.Listed, cheapest: m.Chosen}
		x.load(d)
		if len(d.loads) == 0 {
			continue
		}
		x.machines = append(x.machines, d)
		if x.cellOf[m.Pool] == nil {
			x.cellOf[m.Pool] = make([]int, len(pool.Options))
		}
		for _, o := range m.Listed {
			option := &pool.Options[o]
			d.unpriced = d.unpriced || option.Offering.PriceUnknown
			if x.cellOf[m.Pool][o] == 0 {
				x.cellOf[m.Pool][o] = 1 + cellOf(x.zones.Index(option.Offering.Zone), x.types.Index(option.Kind.Name))
			}
		}
	}
}

// load sums up the pods of each owner on the machine.
func (x *divider) load(m *dividable) {
	for _, share := range m.Pods {
		owners := x.p.Classes[share.Class].Owners
		if owners == nil || x.p.InGang(share.Class) {
			continue
		}
		for _, n := range share.Pods {
			owner := owners[n]
			if owner < 0 {
				continue
			}
			if k := len(m.loads) - 1; k >= 0 && m.loads[k].number == owner {
				m.loads[k].pods++
				continue
			}
			m.loads = append(m.loads, ownerLoad{number: owner, pods: 1})
		}
	}
	slices.SortStableFunc(m.loads, func(a, b ownerLoad) int { return cmp.Compare(a.number, b.number) })
	sums := m.loads[:0]
	for _, l := range m.loads {
		if k := len(sums) - 1; k >= 0 && sums[k].number == l.number {
			sums[k].pods += l.pods
			continue
		}
		sums = append(sums, l)
	}
	m.loads = sums
	for i := range m.loads {
		l := &m.loads[i]
		e := x.owners[l.number]
		if e == nil {
			e = &exposure{name: x.p.Owners.Name(l.number)}
			x.owners[l.number] = e
		} else {
			e.several = true
		}
		e.total += l.pods
		l.exposure = e
	}
}

// count counts the cells of the owners' pods, present and possible.
func (x *divider) count(s *packing.Solution) {
	cells := cellsPerZone * x.zones.Len()
	for _, e := range x.owners {
		if e != nil {
			e.at = make([]int, cells)
		}
	}
	for _, m := range x.machines {
		m.all = bitset.New(cells)
		for _, o := range m.Listed {
			m.all.Add(x.cellOf[m.Pool][o] - 1)
		}
		m.cells = m.all
		m.move(1)
	}
	known := map[*inventory.Machine]bitset.Set{}
	on := func(e *exposure, machine *inventory.Machine) {
		e.total++
		at, seen := known[machine]
		if !seen {
			at = x.cellsOf(machine)
			known[machine] = at
		}
		if at == nil {
			return
		}
		e.several = true // an existing spot machine in addition to a new one
		for c := at.Next(0); c >= 0; c = at.Next(c + 1) {
			e.at[c]++
		}
	}
	nodes := make(map[string]*inventory.Machine, len(x.p.Machines))
	for _, machine := range x.p.Machines {
		if machine.Node != nil && !machine.Leaving {
			nodes[machine.Node.Name] = machine
		}
	}
	for _, e := range x.owners {
		if e == nil || x.p.Cache.Owned[e.name] == nil {
			continue
		}
		for _, info := range x.p.Cache.Owned[e.name].Infos {
			if machine := nodes[info.Pod.Spec.NodeName]; machine != nil && info.Active() {
				on(e, machine)
			}
		}
	}
	for i, machine := range x.p.Targets {
		x.each(s.OnNodes[i], func(e *exposure) { on(e, machine) })
	}
	for i := range s.New {
		if m := &s.New[i]; !x.p.isSpot(m) {
			x.each(m.Pods, func(e *exposure) { e.total++ })
		}
	}
}

// each calls do for each pod whose owner has pods on new spot machines.
func (x *divider) each(pods []packing.Share, do func(e *exposure)) {
	for _, share := range pods {
		owners := x.p.Classes[share.Class].Owners
		for _, n := range share.Pods {
			if owners != nil && owners[n] >= 0 && x.owners[owners[n]] != nil {
				do(x.owners[owners[n]])
			}
		}
	}
}

func (p *Problem) isSpot(m *packing.Machine) bool {
	return p.Pools[m.Pool].Options[m.Chosen].Offering.CapacityType == v1.CapacityTypeSpot
}

// cellsOf returns the cells to which the machine belongs, or may belong once it starts. It returns nil if it is no spot machine.
func (x *divider) cellsOf(m *inventory.Machine) bitset.Set {
	types, zones := m.LossGroups()
	if len(zones) == 0 {
		return nil
	}
	out := bitset.New(cellsPerZone * x.zones.Len())
	for _, zone := range zones {
		for _, kind := range types {
			if z, t := x.zones.Find(zone), x.types.Find(kind); z >= 0 && t >= 0 {
				out.Add(cellOf(z, t))
			}
		}
	}
	return out
}

// move adds the machine's pods to the counts of its cells, or removes them if sign is -1.
func (m *dividable) move(sign int) {
	for _, l := range m.loads {
		for c := m.cells.Next(0); c >= 0; c = m.cells.Next(c + 1) {
			l.at[c] += sign * l.pods
		}
	}
}

// riskiest returns the risky owner on the machine of which the largest share of pods can be lost at once. It returns nil if there is none.
func (m *dividable) riskiest() (out *exposure) {
	for _, l := range m.loads {
		if l.risky() && (out == nil || l.most*out.total > out.most*l.total) {
			out = l.exposure
		}
	}
	return out
}

// part is one of the parts to which a list may be reduced.
type part struct {
	cells bitset.Set
	price float64 // the price of the part's cheapest offering
	// excess is the sum, over owners, of the pods beyond half that could be lost at once. weight is the sum, over owners, of the machine's share
	// of the pods times the share that could already be lost in the part. Both are in thousandths.
	excess, weight int
}

// narrow reduces lists to one zone, or to every second type, for each owner of which more than half can be lost at once. It chooses the part
// with the least excess, and the cheapest of several.
func (x *divider) narrow(by axis, tolerance float64) {
	var cut []*dividable
	var parts [][]part
	for _, m := range x.machines {
		if m.why == nil || m.unpriced || m.riskiest() == nil {
			continue
		}
		if can := x.partsOf(m, by, tolerance); len(can) > 0 {
			cut, parts = append(cut, m), append(parts, can)
		}
	}
	for _, m := range cut {
		m.move(-1)
	}
	for i, m := range cut {
		for j := range parts[i] {
			m.weigh(&parts[i][j])
		}
		best := slices.MinFunc(parts[i], func(a, b part) int {
			return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.price, b.price), cmp.Compare(a.weight, b.weight))
		})
		m.cells = best.cells
		m.move(1)
	}
}

// partsOf returns the parts of the machine's list that are not much dearer than the list and keep the variety that the pool requires. The
// cheapest part comes first.
func (x *divider) partsOf(m *dividable, by axis, tolerance float64) []part {
	var out []part
	at := map[int]int{}
	options := m.pool.Model.Options
	for _, o := range m.listed {
		cell := x.cellOf[m.Pool][o] - 1
		if !m.cells.Has(cell) {
			continue
		}
		i, known := at[by.of(cell)]
		if !known {
			i = len(out)
			at[by.of(cell)] = i
			out = append(out, part{cells: bitset.New(cellsPerZone * x.zones.Len()), price: options[o].Price})
		}
		out[i].cells.Add(cell)
	}
	if len(out) < 2 {
		return nil
	}
	return slices.DeleteFunc(out, func(c part) bool {
		return c.price > options[m.cheapest].Price*(1+tolerance) || !x.isVaried(m, c.cells)
	})
}

// isVaried reports whether the part keeps as many values as the pool's minValues require, as far as the whole list has them.
func (x *divider) isVaried(m *dividable, cells bitset.Set) bool {
	for _, v := range m.pool.Model.Variety {
		all, kept := map[int]bool{}, map[int]bool{}
		for _, o := range m.listed {
			all[v.Value[o]] = true
			if cells.Has(x.cellOf[m.Pool][o] - 1) {
				kept[v.Value[o]] = true
			}
		}
		if len(kept) < min(v.Min, len(all)) {
			return false
		}
	}
	return true
}

// weigh computes the excess and the weight of a part, if the machine's list is reduced to it.
func (m *dividable) weigh(c *part) {
	for _, l := range m.loads {
		most := 0
		for cell := c.cells.Next(0); cell >= 0; cell = c.cells.Next(cell + 1) {
			most = max(most, l.at[cell])
		}
		if l.several {
			c.excess += 1000 * max(0, most+l.pods-l.total/2) / l.total
			c.weight += 1000 * l.pods * most / l.total / l.total
		}
	}
}

// look computes the largest number of pods of each owner that can be lost at once.
func (x *divider) look() {
	for _, e := range x.owners {
		if e != nil {
			e.most = slices.Max(e.at)
		}
	}
}

// widen adds the removed offerings that put no owner at risk, because a longer list is less likely to be sold out.
func (x *divider) widen() {
	for _, m := range x.machines {
		for _, by := range []axis{byZone, byType} {
			var asked []int
			for c := m.all.Next(0); c >= 0; c = m.all.Next(c + 1) {
				if where := by.of(c); !m.cells.Has(c) && !slices.Contains(asked, where) {
					asked = append(asked, where)
					m.addIfFree(by, where)
				}
			}
		}
	}
}

// addIfFree adds a zone, or a half of the types, to the machine's cells, unless more pods of an owner could then be lost at once.
func (m *dividable) addIfFree(by axis, where int) {
	kept := map[int]bool{} // positions on the other axis
	for c := m.cells.Next(0); c >= 0; c = m.cells.Next(c + 1) {
		kept[(!by).of(c)] = true
	}
	more := bitset.New(64 * len(m.all))
	for c := m.all.Next(0); c >= 0; c = m.all.Next(c + 1) {
		if by.of(c) != where || !kept[(!by).of(c)] || m.cells.Has(c) {
			continue
		}
		for _, l := range m.loads {
			if l.at[c]+l.pods > l.most {
				return
			}
		}
		more.Add(c)
	}
	m.move(-1)
	more.Or(m.cells)
	m.cells = more
	m.move(1)
}

// write shortens the machine's list to its cells, and returns the reason; nil if no offering is removed.
func (x *divider) write(m *dividable) *engine.Division {
	if m.all.Within(m.cells) {
		return nil
	}
	m.Listed = nil
	var zones, types, allZones, allTypes []string
	for _, o := range m.listed {
		option := &m.pool.Options[o]
		allZones, allTypes = append(allZones, option.Offering.Zone), append(allTypes, option.Kind.Name)
		if m.cells.Has(x.cellOf[m.Pool][o] - 1) {
			m.Listed = append(m.Listed, o)
			zones, types = append(zones, option.Offering.Zone), append(types, option.Kind.Name)
		}
	}
	out := &engine.Division{Owner: m.why.words(), Zones: distinct(zones, nil), OtherZones: distinct(allZones, zones), Types: distinct(types, nil), OtherTypes: distinct(allTypes, types)}
	if slices.Contains(m.Listed, m.cheapest) {
		return out
	}
	m.Chosen = m.Listed[0]
	options := m.pool.Model.Options
	if price := options[m.cheapest].Price; price > 0 {
		out.Dearer = options[m.Chosen].Price/price - 1
	}
	i := slices.IndexFunc(m.Listed, func(o int) bool { return options[o].Type != options[m.Chosen].Type })
	if m.RunnerUp = -1; i >= 0 {
		m.RunnerUp = m.Listed[i]
	}
	return out
}

// distinct returns the names in their order, each once, without the names in without.
func distinct(names, without []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(without, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// words returns the owner's name: the kind, then the namespace and the name.
func (e *exposure) words() string {
	parts := strings.SplitN(e.name, "/", 3)
	return parts[1] + " " + parts[0] + "/" + parts[2]
}
