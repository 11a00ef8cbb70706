package consolidation

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// replace removes the machines if their pods find room elsewhere or on something cheaper, and moving them pays.
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
	bought, machines := s.purchase(loads, limit)
	if machines > 0 {
		limit = bought
	}
	s.spread(loads, false)
	rest := slices.DeleteFunc(loads, func(l load) bool { return l.n == 0 })
	paid, more := 0.0, 0
	if len(rest) > 0 {
		paid, more = s.purchase(rest, limit)
	}
	beside := (more > 0 || len(rest) == 0) && paid < limit // the loads find room beside what is bought for the rest
	if beside {
		machines, bought = more, paid
	}
	// The one machine that is bought for the first has room for the others, which follow.
	if !beside && machines == 0 || !s.allowed(gone, machines <= 1) {
		s.undo(gone)
		return false
	}
	if !beside {
		s.undo(nil)
	}
	s.commit(gone, bought)
	return true
}

// purchase is the price and the number of machines that hold the loads, if the price is less than limit: one, or several of which each
// gives the most worth for its price. The number is 0 if there are none.
func (s *search) purchase(loads []load, limit float64) (paid float64, machines int) {
	value := 0.0
	sum := make(capacity.Vector, len(s.p.Worth))
	admitted := bitset.Full(len(s.p.Options))
	for _, l := range loads {
		value += float64(float64(l.n) * s.worth[l.class])
		sum.Add(s.p.Classes[l.class].Request, int64(l.n))
		admitted.And(s.p.Classes[l.class].Options)
	}
	if value >= limit {
		return 0, 0
	}
	if s.shares(loads) {
		for _, o := range s.options {
			option := &s.p.Options[o]
			if option.Price >= limit {
				break
			}
			s.effort--
			if admitted.Has(o) && sum.Fits(option.Allocatable) {
				limit, paid, machines = option.Price, option.Price, 1
				break
			}
		}
	}
	if several, n := s.several(loads, limit); n > 0 {
		return several, n
	}
	return paid, machines
}

// shares reports whether one machine takes so many pods of each kind.
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

// several buys the machine that gives the most worth for its price, again and again, for less than limit in all.
func (s *search) several(loads []load, limit float64) (paid float64, machines int) {
	left := s.byClass(loads)
	for len(left) > 0 {
		value := 0.0
		for _, l := range left {
			value += float64(float64(l.n) * s.worth[l.class])
		}
		if paid+value >= limit {
			return 0, 0
		}
		price, most := 0.0, 0.0
		for _, o := range s.promising {
			option := &s.p.Options[o]
			if s.most[o]*(1+1e-9) < most*option.Price {
				break // full to the brim it would still give less, and so would those that follow
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
			return 0, 0
		}
		paid, machines = paid+price, machines+1
		for i, n := range s.best {
			left[i].n -= n
		}
		left = slices.DeleteFunc(left, func(l load) bool { return l.n == 0 })
	}
	return paid, machines
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

// fill puts what fits of the loads on the option, in their order, and says what that is worth; how many of each come is in
// s.counts.
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
	// companions is how many further machines are looked at together with one.
	companions = 5
	// among is how many machines they are chosen from.
	among = 40
)

// together looks at several machines at a time: what two or three of them hold may fit a cheaper set.
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

// companionsOf lists machines of the list that may go together with j, at most so many.
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
