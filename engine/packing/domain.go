package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// choicesOf returns the domains in which some listed option holds a pod of the class.
func (pl *placement) choicesOf(c, l int) []domainChoice {
	ls := &pl.classes[c].levels[l]
	if ls.spotsRead {
		return ls.choices
	}
	ls.spotsRead = true
	if ls.choices = pl.sameChoices(c, l); ls.choices != nil {
		return ls.choices
	}
	domains := pl.sold(c, l).domains
	n := 0
	for domain := range domains {
		if domains[domain].ok {
			n++
		}
	}
	ls.choices = make([]domainChoice, 0, n)
	for domain, sold := range domains {
		if !sold.ok {
			continue
		}
		switch host := pl.besideResidents(ls, ls.view.domains[domain]); host {
		case nil:
		case ls.host:
			ls.choices = append(ls.choices, domainChoice{domain: domain, tier: sold.tier})
		default:
			ls.choices = append(ls.choices, domainChoice{domain: domain, tier: sold.tier, beside: host})
		}
	}
	if len(ls.choices) > 1 || pl.p.Weighted {
		pl.compare(c, l)
	}
	return ls.choices
}

// sameChoices returns the choices of an earlier level of the class with the same view, ways and sets; nil if there is none.
func (pl *placement) sameChoices(c, l int) []domainChoice {
	if len(pl.p.Layout.Residents) > 0 {
		return nil
	}
	levels, ways := pl.classes[c].levels, pl.p.Classes[c].Levels[l].Ways
	for k := range l {
		if earlier := &levels[k]; earlier.spotsRead && earlier.view == levels[l].view && pl.p.Classes[c].Levels[k].Ways == ways && slices.Equal(earlier.rules.Sets, levels[l].rules.Sets) {
			return earlier.choices
		}
	}
	return nil
}

// waysIn returns the part of the level's ways that lies in one domain; nil if there is none.
func (pl *placement) waysIn(c, l, domain int) *Ways {
	return pl.narrowed(pl.p.Classes[c].Levels[l].Ways, pl.classes[c].levels[l].view, domain)
}

func (pl *placement) narrowed(ways *Ways, v *view, domain int) *Ways {
	key := narrowKey{ways, v, domain}
	if out, ok := pl.narrow[key]; ok {
		return out
	}
	out := v.narrowed(pl.market.pools, ways, domain)
	pl.narrow[key] = out
	return out
}

type saleKey struct {
	ways  *Ways
	view  *view
	shape int
}

// sale lists in which domains of a view a machine for a request can be bought, before the solver has bought any machine.
type sale struct {
	domains []sold // one entry for each domain of the view
	// rates holds, for each domain, the least product, over the options there, of the option's price and the share of the option that the request
	// takes up. It is nil until it is needed.
	rates []float64
}

// sold describes one domain: ok is true if some listed option there holds the request, and tier is the rank of the heaviest pool with one of these
// options.
type sold struct {
	tier int
	ok   bool
}

// sold returns the sale for a pod of the class at the level.
func (pl *placement) sold(c, l int) *sale {
	pl.prepare(c, l)
	f := pl.lessons.frame
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saleOf(pl, c, l)
}

// rates returns, for a pod of the class at the level, how dear each domain is (see sale.rates).
func (pl *placement) rates(c, l int) []float64 {
	pl.prepare(c, l)
	f := pl.lessons.frame
	f.mu.Lock()
	defer f.mu.Unlock()
	sale, v := f.saleOf(pl, c, l), pl.classes[c].levels[l].view
	if sale.rates == nil {
		sale.rates = make([]float64, len(v.domains))
		for domain := range v.domains {
			sale.rates[domain] = f.rate(pl.p.Classes[c].Levels[l].Ways, v.options[domain], pl.p.Classes[c].Request)
		}
		pl.market.look(v.offers)
	}
	return sale.rates
}

func (f *frame) saleOf(pl *placement, c, l int) *sale {
	class, v := &pl.p.Classes[c], pl.classes[c].levels[l].view
	key := saleKey{class.Levels[l].Ways, v, f.shapeOf[c]}
	out := f.sales[key]
	if out == nil {
		out = &sale{domains: make([]sold, len(v.domains))}
		for domain := range v.domains {
			out.domains[domain] = f.sells(key.ways, v.options[domain], class.Request)
		}
		f.sales[key] = out
		pl.market.look(v.offers)
	}
	return out
}

// sells looks for a listed option that holds the request, in the heaviest pool that has one. The options are in the order of a view.
func (f *frame) sells(ways *Ways, options []offered, request capacity.Vector) (out sold) {
	for _, at := range slices.Backward(options) { // dear options are large, so most pods fit the first
		p := &f.pools[at.pool]
		if out.ok && -p.Weight >= out.tier {
			continue
		}
		if option := &p.Options[at.option]; option.Listed && request.Fits(option.Allocatable) && admits(ways.Pools[at.pool], at.option) && f.affordable(at) {
			if out = (sold{-p.Weight, true}); out.tier == f.heaviest {
				break
			}
		}
	}
	return out
}

// affordable reports whether limits and quotas have room for one machine of the option while no machine is bought yet.
func (f *frame) affordable(at offered) bool {
	p := &f.pools[at.pool]
	option := &p.Options[at.option]
	if p.limited && !within(option.Charge, p.Left) {
		return false
	}
	return !slices.ContainsFunc(option.Draws, func(d Draw) bool { return f.quotas[d.Quota] < d.Units })
}

func (f *frame) rate(ways *Ways, options []offered, request capacity.Vector) float64 {
	best := math.Inf(1)
	for _, at := range options {
		option := &f.pools[at.pool].Options[at.option]
		if !option.Listed || !request.Fits(option.Allocatable) || !admits(ways.Pools[at.pool], at.option) {
			continue
		}
		share := 0.0
		for d, n := range request {
			if n > 0 {
				share = max(share, float64(n)/float64(option.Allocatable[d]))
			}
		}
		best = min(best, option.Price*share)
	}
	return best
}

// compare finds out how much dearer each domain is than the cheapest for the class's request, and in which domains its dependants can have
// machines. In a Weighted problem, the cheapest domain of the last level counts too, because all domains of an earlier level may be dear.
func (pl *placement) compare(c, l int) {
	ls := &pl.classes[c].levels[l]
	rates := pl.rates(c, l)
	least := leastRate(rates, ls.choices)
	if last := len(pl.p.Classes[c].Levels) - 1; pl.p.Weighted && l < last {
		least = min(least, leastRate(pl.rates(c, last), pl.choicesOf(c, last)))
	}
	unwanted := pl.unwanted(c, l)
	for i := range ls.choices {
		choice := &ls.choices[i]
		choice.dear = rates[choice.domain]
		if least > 0 {
			choice.dear = choice.dear/least - 1
		}
		choice.wanted = !unwanted.Has(choice.domain)
	}
}

func leastRate(rates []float64, choices []domainChoice) float64 {
	least := math.Inf(1)
	for i := range choices {
		least = min(least, rates[choices[i].domain])
	}
	return least
}

// unwanted returns the domains that the class should avoid, because another class has to run beside its pods and can have no machine there.
func (pl *placement) unwanted(c, l int) bitset.Set {
	v, out := pl.classes[c].levels[l].view, bitset.Set(nil)
	for _, set := range pl.classes[c].levels[l].rules.Sets {
		if pl.p.spent() {
			break
		}
		out = pl.unwantedFor(set, c, v, out)
	}
	return out
}

// unwantedFor adds the domains in which some class other than c, which has to run beside pods of the set, can have no machine.
func (pl *placement) unwantedFor(set, c int, v *view, out bitset.Set) bitset.Set {
	u := pl.unservedOf(set)
	if u == nil {
		return out
	}
	where := u.where[v]
	if where == nil {
		where = u.view.domainsOf(v)
		u.where[v] = where
	}
	for domain := range v.domains {
		if classes := u.classes[where[domain]]; len(classes) > 1 || len(classes) == 1 && classes[0] != c {
			if out == nil {
				out = bitset.New(len(v.domains))
			}
			out.Add(domain)
		}
	}
	pl.market.look(len(v.domains))
	return out
}

// unserved lists, for one set, the classes that have to run beside its pods and can have no machine in some domains: none can be bought
// there, and no node there has room.
type unserved struct {
	view    *view           // the view of the set's own keys
	classes [][]int         // the classes for each domain, two at most
	where   map[*view][]int // cached results of view.domainsOf
}

// unservedOf returns the unserved of the set. It returns nil if all dependants of the set can have a machine in all domains.
func (pl *placement) unservedOf(set int) *unserved {
	if out, known := pl.unserved[set]; known {
		return out
	}
	var keys []int
	for _, key := range pl.p.Layout.Sets[set].Keys {
		if key != topology.Host && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out, any := &unserved{view: pl.viewOf(keys), where: map[*view][]int{}}, false
	out.classes = make([][]int, len(out.view.domains))
	sells := map[saleKey][]bool{}
	for _, f := range pl.followers[set] {
		if pl.p.spent() {
			break
		}
		pl.prepare(f.class, f.level)
		key := saleKey{pl.p.Classes[f.class].Levels[f.level].Ways, pl.classes[f.class].levels[f.level].view, pl.shapeOf[f.class]}
		if sells[key] == nil {
			sells[key] = pl.soldIn(f, out.view)
		}
		var room []bool
		for at, sold := range sells[key] {
			if sold || len(out.classes[at]) > 1 || slices.Contains(out.classes[at], f.class) {
				continue
			}
			if room == nil {
				room = pl.roomIn(f, out.view)
			}
			if !room[at] {
				out.classes[at], any = append(out.classes[at], f.class), true
			}
		}
		pl.market.look(len(out.view.domains))
	}
	if !any {
		out = nil
	}
	pl.unserved[set] = out
	return out
}

// soldIn reports for each domain of a view whether a machine for the dependant can be bought there. The dependant's own view has all of
// the view's keys.
func (pl *placement) soldIn(f dependant, v *view) []bool {
	out := make([]bool, len(v.domains))
	own := pl.classes[f.class].levels[f.level].view
	where := v.domainsOf(own)
	for domain, sold := range pl.sold(f.class, f.level).domains {
		if sold.ok {
			out[where[domain]] = true
		}
	}
	pl.market.look(len(own.domains))
	return v.alike(out)
}

// roomIn reports for each domain of a view whether some node there has room for the dependant.
func (pl *placement) roomIn(f dependant, v *view) []bool {
	out := make([]bool, len(v.domains))
	nodes := pl.p.Classes[f.class].Levels[f.level].Nodes
	for n := nodes.Next(0); n >= 0; n = nodes.Next(n + 1) {
		pl.market.look(1)
		if at := v.domainAt[pl.nodes.list[n].place]; !out[at] {
			out[at] = pl.nodes.needs(f.class, n).Fits(pl.nodes.list[n].room)
		}
	}
	return v.alike(out)
}
