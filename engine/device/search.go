package device

// A search is one attempt to allocate. It goes depth first over claims, their requests and devices, and undoes failed attempts. Of equal devices
// it tries only one.
type search struct {
	facts  *Facts
	pools  []Pool
	claims []Claim
	effort int
	// countable means that nothing can end the search with an error: then counting may shorten it.
	countable bool
	slots     []*slot
	counters  []map[[2]string]int64 // the rest, by pool
	choices   [][][]choice          // by claim and request
	values    [][][]Value           // by claim and constraint: the values of its devices so far
	picks     [][]Pick
	undos     []undo // one per pick
	reason    *Reason
	deepest   struct {
		claim, number int
		request       string
	}
}

// An outcome is the result of a part of the search.
type outcome uint8

const (
	failed   outcome = iota // try something else
	done                    // everything is allocated
	exceeded                // the claim would hold too many devices, with any choice of devices
	stopped                 // the attempt is over, for search.reason
)

// next serves request r of claim c, and all later requests.
func (s *search) next(c, r int) outcome {
	if c == len(s.claims) {
		return done
	}
	if r == len(s.claims[c].Requests) {
		if out := s.next(c+1, 0); out != exceeded {
			return out
		}
		return failed // other choices in this claim do not make the next claim smaller, but may serve it otherwise
	}
	exceededAll := true
	for i := range s.choices[c][r] {
		out := s.serve(c, r, &s.choices[c][r][i], 0, 0)
		if out == exceeded {
			continue
		}
		exceededAll = false
		if out != failed {
			return out
		}
	}
	if exceededAll {
		return exceeded
	}
	return failed
}

// serve gives the choice its device number n, from slot start on, and continues with the rest.
func (s *search) serve(c, r int, ch *choice, n, start int) outcome {
	need := ch.ask.Count
	if ch.ask.All {
		if need = len(ch.all); need == 0 {
			return failed
		}
	}
	if n >= need {
		return s.next(c, r+1)
	}
	s.note(c, r, ch)
	if len(s.picks[c])+need-n > maxDevices {
		return exceeded
	}
	if ch.ask.All {
		return s.serveAll(c, r, ch, n)
	}
	var tried map[int]bool
	for i := start; i < len(s.slots); i++ {
		if s.countable && ch.from[i] < need-n {
			break
		}
		d := s.slots[i]
		fresh := !d.touched()
		if fresh && tried[d.kind] || s.isTaken(c, ch, d) {
			continue
		}
		if s.effort--; s.effort < 0 {
			return s.stop(&Reason{Code: GaveUp, Claim: ch.claim, Request: ch.fullName(), Selector: -1})
		}
		matches, reason := s.selects(ch, d)
		if reason != nil {
			return s.stop(reason)
		}
		if !matches || !s.take(c, ch, d) {
			if s.reason != nil {
				return stopped
			}
			continue
		}
		out := s.serve(c, r, ch, n+1, i+1)
		if out == done {
			return done
		}
		s.giveBack(c, d)
		if out != failed {
			return out
		}
		if fresh {
			if tried == nil {
				tried = map[int]bool{}
			}
			tried[d.kind] = true
		}
	}
	return failed
}

// serveAll serves a choice with All, from device number n of the choice on: it takes each of the devices.
func (s *search) serveAll(c, r int, ch *choice, n int) outcome {
	d := ch.all[n]
	if s.isTaken(c, ch, d) || !s.take(c, ch, d) {
		if s.reason != nil {
			return stopped
		}
		return failed
	}
	out := s.serve(c, r, ch, n+1, 0)
	if out != done {
		s.giveBack(c, d)
	}
	return out
}

func (s *search) stop(reason *Reason) outcome {
	s.reason = reason
	return stopped
}

// note records the deepest request of the search, for the reason.
func (s *search) note(c, r int, ch *choice) {
	if number := c<<16 + r; number >= s.deepest.number {
		s.deepest.claim, s.deepest.number, s.deepest.request = c, number, ch.fullName()
	}
}

// isTaken reports whether another claim has the device. For Admin only the same claim counts.
func (s *search) isTaken(c int, ch *choice, d *slot) bool {
	if !ch.ask.Admin {
		return d.taken || len(d.claims) > 0
	}
	for _, other := range d.claims {
		if other == c {
			return true
		}
	}
	return false
}

// selects evaluates the selectors in order, up to the first that does not match.
func (s *search) selects(ch *choice, d *slot) (bool, *Reason) {
	for i, selector := range ch.ask.Selectors {
		switch s.facts.Answers[selector][d.dev.Shape] {
		case No:
			return false, nil
		case Failed:
			return false, &Reason{Code: SelectorFailed, Claim: ch.claim, Request: ch.fullName(), Selector: i, What: d.id.Driver + "/" + d.id.Pool + "/" + d.id.Device}
		}
	}
	return !d.dev.Elsewhere, nil
}

// consumes returns the part of a device that the choice takes. It returns nil if the choice may not take any part.
func (s *search) consumes(ch *choice, d *slot) map[string]int64 {
	consumed, ok := ch.consumed[d.dev.Shape]
	if !ok {
		if amounts, allowed := s.facts.Shapes[d.dev.Shape].consumes(ch.ask.Capacity); allowed {
			consumed = amounts
		}
		ch.consumed[d.dev.Shape] = consumed
	}
	return consumed
}

func (s *search) hasCapacity(ch *choice, d *slot) bool {
	consumed := s.consumes(ch, d)
	if consumed == nil {
		return false
	}
	capacities := s.facts.Shapes[d.dev.Shape].Capacities
	for name, amount := range consumed {
		if plus(plus(amount, d.consumed[name]), d.sharing[name]) > capacities[name].Amount {
			return false
		}
	}
	return true
}

// take allocates a matching device, if its capacity, counters, taints and the claim's constraints allow it.
func (s *search) take(c int, ch *choice, d *slot) bool {
	shape := &s.facts.Shapes[d.dev.Shape]
	if !s.hasCapacity(ch, d) && !ch.ask.All {
		return false
	}
	if d.dev.NotModelled != "" {
		s.reason = &Reason{Code: NotModelled, Claim: ch.claim, Request: ch.fullName(), Selector: -1, What: d.dev.NotModelled}
		return false
	}
	counts := s.countsFor(shape, d)
	if counts && !s.countersLeft(d) || !Tolerates(ch.ask.Tolerations, d.dev.Taints) {
		return false
	}
	constraints := s.claims[c].Constraints
	values := make([][]Value, len(constraints))
	for i := range constraints {
		values[i] = s.values[c][i]
		if !constraints[i].concerns(ch.request, ch.ask.Name) {
			continue
		}
		joined, ok := constraints[i].admits(values[i], shape)
		if !ok && ch.ask.All {
			s.reason = &Reason{Code: ConstraintImpossible, Claim: ch.claim, Request: ch.fullName(), Selector: -1, What: constraints[i].Attribute}
		}
		if !ok {
			return false
		}
		values[i] = joined
	}
	if !s.hasCapacity(ch, d) {
		return false
	}
	s.undos = append(s.undos, undo{values: s.values[c], counts: counts})
	s.values[c] = values
	if counts {
		consume(s.counters[d.pool], d.dev.Consumes, -1)
	}
	pick := Pick{ID: d.id, Request: ch.fullName(), Shared: shape.Shared, Admin: ch.ask.Admin}
	if shape.Shared {
		pick.Consumed = s.consumes(ch, d)
		d.share(pick.Consumed, 1)
	} else {
		d.claims = append(d.claims, c)
	}
	s.picks[c] = append(s.picks[c], pick)
	return true
}

// An undo is the state that giveBack restores.
type undo struct {
	values [][]Value
	counts bool
}

// giveBack undoes the last take.
func (s *search) giveBack(c int, d *slot) {
	last := s.undos[len(s.undos)-1]
	s.undos = s.undos[:len(s.undos)-1]
	pick := s.picks[c][len(s.picks[c])-1]
	s.picks[c] = s.picks[c][:len(s.picks[c])-1]
	s.values[c] = last.values
	if last.counts {
		consume(s.counters[d.pool], d.dev.Consumes, 1)
	}
	if pick.Shared {
		d.share(pick.Consumed, -1)
		return
	}
	d.claims = d.claims[:len(d.claims)-1]
}

// share adds n times a claim's part of the device.
func (d *slot) share(consumed map[string]int64, n int) {
	d.shares += n
	if d.sharing == nil {
		d.sharing = map[string]int64{}
	}
	for name, amount := range consumed {
		d.sharing[name] = plus(d.sharing[name], int64(n)*amount)
	}
}

// countsFor reports whether an allocation of the device takes its counters: a shared device takes them once.
func (s *search) countsFor(shape *Shape, d *slot) bool {
	return len(d.dev.Consumes) > 0 && !(shape.Shared && (d.counted || d.shares > 0))
}

// countersLeft checks all counters of the pool, like kube-scheduler: an overdrawn counter blocks every device with counters.
func (s *search) countersLeft(d *slot) bool {
	left := s.counters[d.pool]
	consume(left, d.dev.Consumes, -1)
	defer consume(left, d.dev.Consumes, 1)
	for _, amount := range left {
		if amount < 0 {
			return false
		}
	}
	return true
}
