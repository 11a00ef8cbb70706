package device

import "slices"

// A Code names the reason why claims cannot be served. Codes are stable, because metrics and tests count by them.
type Code string

// The reasons why a machine cannot serve claims. In the first group one request falls short by itself; Reason.Have is the number of devices that
// were left.
const (
	SelectorsLeaveTooFew Code = "SelectorsLeaveTooFew" // too few devices match; Reason.Selector is the decisive selector
	OnlyElsewhere        Code = "OnlyElsewhere"        // matching devices serve other machines
	CapacityTooSmall     Code = "CapacityTooSmall"     // too few matching devices have the requested capacity left
	DevicesTainted       Code = "DevicesTainted"       // too few of these have tolerated taints only
	DevicesTaken         Code = "DevicesTaken"         // too few of these are free

	NotTogether Code = "NotTogether" // each request alone could be served, but not all: constraints, counters, or competition for devices
	GaveUp      Code = "GaveUp"      // the effort was spent before an answer was found
	NotModelled Code = "NotModelled" // the answer depends on a need that this package does not model

	// Errors of kube-scheduler, which end the attempt for every machine.
	SelectorFailed       Code = "SelectorFailed"       // a selector cannot be evaluated for a device
	PoolIncomplete       Code = "PoolIncomplete"       // all devices are requested, but a pool is not published completely
	PoolInvalid          Code = "PoolInvalid"          // all devices are requested, but a pool contradicts itself
	ConstraintImpossible Code = "ConstraintImpossible" // all devices are requested, but they violate a constraint
	TooManyDevices       Code = "TooManyDevices"       // more devices than a claim may hold
)

// A Reason says why claims cannot be served.
type Reason struct {
	Code    Code
	Claim   string
	Request string // "gpu", or "gpu/large" for one choice; empty if the reason is not about a single request
	// Selector is the index in Choice.Selectors of the selector that left too few devices or failed; -1 if none did.
	Selector int
	// Passed counts the devices before the decisive selector, or before the check of the code.
	Passed int
	// Have and Need are the numbers of devices that were left and that are needed.
	Have, Need int
	// What names a device, pool or attribute, if there is one.
	What string
}

// Fatal reports whether other machines need not be tried, because kube-scheduler reports an error and stops.
func (r *Reason) Fatal() bool {
	switch r.Code {
	case SelectorFailed, PoolIncomplete, PoolInvalid, ConstraintImpossible, TooManyDevices:
		return true
	}
	return false
}

// nearness ranks the reasons of a request's choices: the later the failed check, the nearer the miss.
func (r *Reason) nearness() (int, int, int) {
	for i, c := range []Code{SelectorsLeaveTooFew, OnlyElsewhere, CapacityTooSmall, DevicesTainted, DevicesTaken} {
		if r.Code == c {
			return i, r.Selector, r.Have
		}
	}
	return -1, 0, 0
}

// shortfall finds the first request that no choice could serve even if nothing else were requested, and returns the nearest miss of its choices.
// It returns nil if there is no such request.
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

// miss counts the devices that one choice has left after each check, with the allocations of the Usage only. It returns nil if enough are left.
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

// A step is a check of a choice on each device, after the selectors.
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
