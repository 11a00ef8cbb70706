package consolidation

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// replace removes the machines if their pods find room elsewhere or on cheaper machines and the move pays. It reports whether it did.
func (s *search) replace(gone []int) bool {
	price, cost := 0.0, 0.0
	for _, j := range gone {
		price += s.p.Machines[j].Price
		cost += s.p.Machines[j].Cost
	}
	limit := price - s.margin(price) - s.p.Strict*cost/s.p.Horizon
	if limit <= 0 {
		return false
	}
	loads := s.take(gone)
	bought, ok := s.purchase(loads, limit)
	if ok {
		limit = bought
	}
	s.spread(loads, false)
	rest := slices.DeleteFunc(loads, func(l load) bool { return l.n == 0 })
	paid, found := 0.0, len(rest) == 0
	if !found {
		paid, found = s.purchase(rest, limit)
	}
	switch {
	case !ok && !(found && paid < limit) || !s.allowed(gone):
	case found && paid < limit:
		s.commit(gone, paid)
		return true
	case ok:
		s.undo(nil)
		s.commit(gone, bought)
		return true
	}
	s.undo(gone)
	return false
}

// purchase returns the price of new machines that hold the loads, if it is below limit: one option, or several, each chosen because it gives
// the most worth for its price.
func (s *search) purchase(loads []load, limit float64) (paid float64, ok bool) {
	value := 0.0
	sum := make(capacity.Vector, len(s.p.Worth))
	admitted := bitset.Full(len(s.p.Options))
	for _, l := range loads {
		value += float64(float64(l.n) * s.worth[l.class])
		sum.Add(s.p.Classes[l.class].Request, int64(l.n))
		admitted.And(s.p.Classes[l.class].Options)
	}
	if value >= limit {
		return 0, false
	}
	if s.shares(loads) {
		for _, o := range s.options {
			option := &s.p.Options[o]
			if option.Price >= limit {
				break
			}
			s.effort--
			if admitted.Has(o) && sum.Fits(option.Allocatable) {
				limit, paid, ok = option.Price, option.Price, true
				break
			}
		}
	}
	if several, found := s.several(loads, limit); found {
		return several, true
	}
	return paid, ok
}

// shares reports whether one machine may take all pods of each kind together.
func (s *search) shares(loads []load) bool {
	var kinds []Lot
	for _, l := range loads {
		c := &s.p.Classes[l.class]
		if c.Kind < 0 {
			continue
		}
		n := l.n
		for _, k := range kinds {
			if k.Of == c.Kind {
				n += k.N
			}
		}
		if n > c.Most {
			return false
		}
		kinds = append(kinds, Lot{c.Kind, l.n})
	}
	return true
}

// several buys the option that gives the most worth for its price, again and again, until all loads have room. ok is false if that costs limit or
// more.
func (s *search) several(loads []load, limit float64) (paid float64, ok bool) {
	left := s.byClass(loads)
	for len(left) > 0 {
		value := 0.0
		for _, l := range left {
			value += float64(float64(l.n) * s.worth[l.class])
		}
		if paid+value >= limit {
			return 0, false
		}
		price, most := 0.0, 0.0
		for _, o := range s.promising {
			option := &s.p.Options[o]
			if s.most[o]*(1+1e-9) < most*option.Price {
				break // even if full, this option and all later ones would give less
			}
			if paid+option.Price >= limit || value*(1+1e-9) < most*option.Price {
				continue
			}
			if rate := s.fill(o, left) / option.Price; rate > most || rate == most && rate > 0 && option.Price < price {
				s.best, s.counts = s.counts, s.best
				price, most = option.Price, rate
			}
		}
		if most == 0 {
			return 0, false
		}
		paid += price
		for i, n := range s.best {
			left[i].n -= n
		}
		left = slices.DeleteFunc(left, func(l load) bool { return l.n == 0 })
	}
	return paid, true
}

// byClass adds up loads of the same class that follow each other.
func (s *search) byClass(loads []load) []load {
	out := make([]load, 0, len(loads))
	for _, l := range loads {
		if n := len(out); n > 0 && out[n-1].class == l.class {
			out[n-1].n += l.n
		} else {
			out = append(out, l)
		}
	}
	return out
}

// fill puts pods of the loads on the option, load after load, until no more fit, and returns the worth of these pods. s.counts[i] is the number
// of pods of load i on the option.
func (s *search) fill(o int, loads []load) (worth float64) {
	s.room = append(s.room[:0], s.p.Options[o].Allocatable...)
	s.counts = append(s.counts[:0], make([]int, len(loads))...)
	m := machine{kinds: s.kinds[:0]}
	s.effort -= len(loads)/8 + 1
	for i, l := range loads {
		c := &s.p.Classes[l.class]
		if !c.Options.Has(o) {
			continue
		}
		n := min(c.Request.Times(s.room, l.n), m.space(c))
		if n == 0 {
			continue
		}
		s.counts[i] = n
		s.room.Add(c.Request, -int64(n))
		worth += float64(float64(n) * s.worth[l.class])
		if c.Kind >= 0 {
			m.tally(c.Kind, n)
		}
	}
	s.kinds = m.kinds
	return worth
}

const (
	// companions bounds the machines that are removed together with one machine.
	companions = 5
	// among bounds the machines from which companions are chosen.
	among = 40
)

// together tries two to six machines at a time, because their pods may fit on a cheaper set of machines. It removes the smallest set that pays.
func (s *search) together() {
	s.effort = s.p.Effort
	ranked := s.ranked()
	for at, j := range ranked {
		if s.effort <= 0 {
			return
		}
		if s.state[j].gone {
			continue
		}
		others := s.companionsOf(j, ranked[at+1:])
		for k := 1; k <= min(companions, len(others)); k++ {
			if s.replace(append([]int{j}, others[:k]...)) {
				break
			}
		}
	}
}

// companionsOf returns machines of the list that may be removed together with j, at most companions.
func (s *search) companionsOf(j int, list []int) []int {
	var out []int
	for k, i := range list {
		if k == among || len(out) == companions {
			break
		}
		if !s.state[i].gone && s.kin(i, j) {
			out = append(out, i)
		}
	}
	return out
}

// kin reports whether some option takes pods of both machines.
func (s *search) kin(i, j int) bool {
	for _, a := range s.state[i].loads {
		for _, b := range s.state[j].loads {
			if s.p.Classes[a.class].Options.Meets(s.p.Classes[b.class].Options) {
				return true
			}
		}
	}
	return len(s.state[i].loads) == 0 || len(s.state[j].loads) == 0
}
