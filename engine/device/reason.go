package device

import "slices"

// A Code says in one word why claims cannot be served. Codes are stable: metrics and tests count by them.
type Code string

// Why claims cannot be served by a machine. The first group speaks of one request that falls short by itself; Reason.Have says how many
// devices were left where it did.
const (
	SelectorsLeaveTooFew Code = "SelectorsLeaveTooFew" // too few devices match; Reason.Selector is the one that left too few
	OnlyElsewhere        Code = "OnlyElsewhere"        // devices match, and serve other machines
	CapacityTooSmall     Code = "CapacityTooSmall"     // of devices that match, too few have the capacity left that is asked of each
	DevicesTainted       Code = "DevicesTainted"       // too few of them are without a taint that the claim does not tolerate
	DevicesTaken         Code = "DevicesTaken"         // too few of them are free

	NotTogether Code = "NotTogether" // each request could be served, but not all: constraints, counters, or devices that several want
	GaveUp      Code = "GaveUp"      // the effort was spent before an answer was found
	NotModelled Code = "NotModelled" // the answer depends on something that is not known here

	// The attempt fails for every machine, as kube-scheduler reports an error.
	SelectorFailed       Code = "SelectorFailed"       // a selector cannot be evaluated for a device
	PoolIncomplete       Code = "PoolIncomplete"       // all devices are asked for while a pool is not published completely
	PoolInvalid          Code = "PoolInvalid"          // the same of a pool that contradicts itself
	ConstraintImpossible Code = "ConstraintImpossible" // all devices are asked for, and they break a constraint
	TooManyDevices       Code = "TooManyDevices"       // more than a claim may hold
)

// A Reason says why claims cannot be served.
type Reason struct {
	Code    Code
	Claim   string
	Request string // "gpu", or "gpu/large" for one choice of it; empty if it concerns no single one
	// Selector is the place in Choice.Selectors of the one that left too few devices or failed; -1 if none did.
	Selector int
	// Passed counts devices that passed all selectors before that one, or whatever came before what the code names.
	Passed int
	// Have and Need are how many devices were left, and how many would have to be.
	Have, Need int
	// What names a device, pool or attribute where there is one to name.
	What string
}

// Fatal says that other machines need not be tried: kube-scheduler reports an error rather than look further.
func (r *Reason) Fatal() bool {
	switch r.Code {
	case SelectorFailed, PoolIncomplete, PoolInvalid, ConstraintImpossible, TooManyDevices:
		return true
	}
	return false
}

// nearness orders reasons for one request's choices: the further its devices came, the nearer the miss.
func (r *Reason) nearness() (int, int, int) {
	for i, c := range []Code{SelectorsLeaveTooFew, OnlyElsewhere, CapacityTooSmall, DevicesTainted, DevicesTaken} {
		if r.Code == c {
			return i, r.Selector, r.Have
		}
	}
	return -1, 0, 0
}

// shortfall finds the first request that no choice of could be served even if nothing else was asked for, and of its choices the
// nearest miss. It returns nil if there is no such request.
func (s *search) shortfall() *Reason {
	for c := range s.claims {
		for r := range s.claims[c].Requests {
			var nearest *Reason
			for i := range s.choices[c][r] {
				miss := s.miss(&s.choices[c][r][i])
				if miss == nil {
					nearest = nil
					break
				}
				if nearest == nil || nearer(miss, nearest) {
					nearest = miss
				}
			}
			if nearest != nil {
				return nearest
			}
		}
	}
	return nil
}

func nearer(a, b *Reason) bool {
	stageA, selectorA, haveA := a.nearness()
	stageB, selectorB, haveB := b.nearness()
	if stageA != stageB {
		return stageA > stageB
	}
	if selectorA != selectorB {
		return selectorA > selectorB
	}
	return haveA > haveB
}

// miss counts how many devices one choice has left after each thing it asks, with nothing but what the Usage says allocated. It returns
// nil if enough are left.
func (s *search) miss(ch *choice) *Reason {
	need := ch.need()
	left := s.slots
	for i := range ch.ask.Selectors {
		passed := left[:0:0]
		for _, d := range left {
			if s.facts.Answers[ch.ask.Selectors[i]][d.dev.Shape] == Yes {
				passed = append(passed, d)
			}
		}
		if len(passed) < need {
			return ch.reason(SelectorsLeaveTooFew, i, len(left), len(passed), need)
		}
		left = passed
	}
	if len(left) < need {
		return ch.reason(SelectorsLeaveTooFew, -1, len(left), len(left), need)
	}
	for _, step := range s.steps(ch) {
		passed := left[:0:0]
		for _, d := range left {
			if step.pass(d) {
				passed = append(passed, d)
			}
		}
		if len(passed) < need {
			return ch.reason(step.code, -1, len(left), len(passed), need)
		}
		left = passed
	}
	return nil
}

// A step is something beside selectors that a choice asks of each device.
type step struct {
	code Code
	pass func(d *slot) bool
}

func (s *search) steps(ch *choice) []step {
	return []step{
		{OnlyElsewhere, func(d *slot) bool { return !d.dev.Elsewhere }},
		{CapacityTooSmall, func(d *slot) bool { return s.hasCapacity(ch, d) }},
		{DevicesTainted, func(d *slot) bool { return Tolerates(ch.ask.Tolerations, d.dev.Taints) }},
		{DevicesTaken, func(d *slot) bool { return ch.ask.Admin || !d.taken }},
	}
}

// countFrom fills ch.from in.
func (s *search) countFrom(ch *choice) {
	ch.from = make([]int, len(s.slots))
	steps := s.steps(ch)
	n := 0
	for i, d := range slices.Backward(s.slots) {
		matches, _ := s.selects(ch, d)
		if matches && !slices.ContainsFunc(steps, func(step step) bool { return !step.pass(d) }) {
			n++
		}
		ch.from[i] = n
	}
}

func (ch *choice) reason(code Code, selector, passed, have, need int) *Reason {
	return &Reason{Code: code, Claim: ch.claim, Request: ch.fullName(), Selector: selector, Passed: passed, Have: have, Need: need}
}
