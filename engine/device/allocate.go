package device

import "fmt"

// maxDevices is the largest number of devices of one claim.
const maxDevices = 32

// DefaultEffort is the default number of devices to try.
const DefaultEffort = 100_000

// A Pick is one device for a claim.
type Pick struct {
	ID
	// Request is "gpu", or "gpu/large" for a choice of firstAvailable.
	Request string
	// Shared means that other claims may have the rest of the device, beside Consumed.
	Shared   bool
	Consumed map[string]int64
	Admin    bool
}

// Allocate finds devices of one machine for the unallocated claims of one pod. It returns the picks of each claim, or the reason why there are
// none. Like kube-scheduler it tries devices in the order of pools and devices, and takes the first solution; effort bounds how many devices it
// tries (0 means DefaultEffort).
func Allocate(facts *Facts, pools []Pool, state *Usage, claims []Claim, effort int) ([][]Pick, *Reason) {
	if effort <= 0 {
		effort = DefaultEffort
	}
	s := &search{facts: facts, pools: pools, claims: claims, effort: effort, picks: make([][]Pick, len(claims))}
	s.readPools(state)
	if reason := s.readClaims(); reason != nil {
		return nil, reason
	}
	// No search is needed if counting already fails. But counting must not hide an error that kube-scheduler would report first.
	if s.countable = !s.mayFail(); s.countable {
		if reason := s.shortfall(); reason != nil {
			return nil, reason
		}
		for _, requests := range s.choices {
			for _, choices := range requests {
				for i := range choices {
					s.countFrom(&choices[i])
				}
			}
		}
	}
	switch s.next(0, 0) {
	case done:
		return s.picks, nil
	case stopped:
		return nil, s.reason
	}
	if reason := s.shortfall(); reason != nil {
		return nil, reason
	}
	r := s.claims[s.deepest.claim]
	return nil, &Reason{Code: NotTogether, Claim: r.Name, Request: s.deepest.request, Selector: -1}
}

// A slot is one device of a usable pool, with its allocations by the Usage and by the search.
type slot struct {
	dev  *Device
	id   ID
	pool int
	// taken and consumed are the Usage's whole allocation and shares. counted means that the device's counters are taken already.
	taken    bool
	counted  bool
	consumed map[string]int64
	kind     int // slots of one kind are equal until the search touches them

	claims  []int // claims of the search with the whole device
	shares  int   // number of claims of the search that share it
	sharing map[string]int64
}

func (d *slot) touched() bool { return len(d.claims) > 0 || d.shares > 0 }

// readPools lists the devices and the rest of the counters.
func (s *search) readPools(state *Usage) {
	kinds := map[kindKey]int{}
	s.counters = make([]map[[2]string]int64, len(s.pools))
	for p := range s.pools {
		pool := &s.pools[p]
		if pool.Incomplete || pool.Invalid != "" {
			continue
		}
		left := make(map[[2]string]int64, len(pool.Counters))
		for _, c := range pool.Counters {
			left[[2]string{c.Set, c.Name}] = c.Amount
		}
		s.counters[p] = left
		for _, list := range [][]Device{pool.Devices, pool.Others} {
			for i := range list {
				if state.InUse(ID{pool.Driver, pool.Name, list[i].Name}) {
					consume(left, list[i].Consumes, -1)
				}
			}
		}
		for i := range pool.Devices {
			d := &slot{dev: &pool.Devices[i], id: ID{pool.Driver, pool.Name, pool.Devices[i].Name}, pool: p}
			d.taken = state.taken[d.id]
			share, ok := state.shares[d.id]
			d.consumed, d.counted = share.consumed, ok && share.consumed != nil
			key := d.kindKey()
			if _, ok := kinds[key]; !ok {
				kinds[key] = len(kinds)
			}
			d.kind = kinds[key]
			s.slots = append(s.slots, d)
		}
	}
}

// A kindKey is equal for devices that nothing distinguishes. Most devices differ in their shapes only.
type kindKey struct {
	shape            int
	taken, elsewhere bool
	rest             string
}

func (d *slot) kindKey() kindKey {
	key := kindKey{shape: d.dev.Shape, taken: d.taken, elsewhere: d.dev.Elsewhere}
	if len(d.dev.Consumes) > 0 {
		key.rest = fmt.Sprint(d.pool, d.dev.Consumes)
	}
	if d.counted || len(d.dev.Taints) > 0 || d.dev.NotModelled != "" {
		key.rest += fmt.Sprint(d.counted, d.consumed, d.dev.Taints, d.dev.NotModelled) // fmt prints maps in key order
	}
	return key
}

// consume adds n times the counters of a device to left; it skips counters that the pool does not have.
func consume(left map[[2]string]int64, counters []Counter, n int64) {
	for _, c := range counters {
		key := [2]string{c.Set, c.Name}
		if have, ok := left[key]; ok {
			left[key] = plus(have, n*c.Amount)
		}
	}
}

// A choice is one choice of a request, prepared for the search.
type choice struct {
	ask            *Choice
	claim, request string
	all            []*slot // for All: the requested devices
	// consumed is the part of a device that the choice takes, by shape; nil if it may not take any.
	consumed map[int]map[string]int64
	// from counts, at each slot, the slots from there on that suit the choice if nothing else is requested.
	from []int
}

func (ch *choice) fullName() string {
	if ch.ask.Name == "" {
		return ch.request
	}
	return ch.request + "/" + ch.ask.Name
}

// need returns the number of devices that the choice takes.
func (ch *choice) need() int {
	if ch.ask.All {
		return max(1, len(ch.all))
	}
	return ch.ask.Count
}

// readClaims prepares every choice. It fails if kube-scheduler reports an error before its search.
func (s *search) readClaims() *Reason {
	s.choices = make([][][]choice, len(s.claims))
	for c := range s.claims {
		claim := &s.claims[c]
		least := 0
		s.choices[c] = make([][]choice, len(claim.Requests))
		for r := range claim.Requests {
			request := &claim.Requests[r]
			fewest := -1
			for i := range request.Choices {
				ch := choice{ask: &request.Choices[i], claim: claim.Name, request: request.Name, consumed: map[int]map[string]int64{}}
				n := ch.ask.Count
				if ch.ask.All {
					if reason := s.findAll(&ch); reason != nil {
						return reason
					}
					n = len(ch.all)
				}
				if fewest < 0 || n < fewest {
					fewest = n
				}
				s.choices[c][r] = append(s.choices[c][r], ch)
			}
			least += max(0, fewest)
		}
		if least > maxDevices {
			return &Reason{Code: TooManyDevices, Claim: claim.Name, Selector: -1, Need: least, Have: maxDevices}
		}
		s.values = append(s.values, make([][]Value, len(claim.Constraints)))
	}
	return nil
}

// findAll lists the devices of a choice with All. An unusable pool is an error, because it may have more devices.
func (s *search) findAll(ch *choice) *Reason {
	next := 0
	for p := range s.pools {
		pool := &s.pools[p]
		if pool.Incomplete || pool.Invalid != "" {
			code := PoolInvalid
			if pool.Incomplete {
				code = PoolIncomplete
			}
			return &Reason{Code: code, Claim: ch.claim, Request: ch.fullName(), Selector: -1, What: pool.Driver + "/" + pool.Name}
		}
		for ; next < len(s.slots) && s.slots[next].pool == p; next++ {
			d := s.slots[next]
			matches, reason := s.selects(ch, d)
			if reason != nil {
				return reason
			}
			if matches && s.hasCapacity(ch, d) {
				ch.all = append(ch.all, d)
			}
		}
	}
	return nil
}

// mayFail reports whether the search could end with an error, which counting would miss.
func (s *search) mayFail() bool {
	for _, d := range s.slots {
		if d.dev.NotModelled != "" {
			return true
		}
	}
	for c := range s.claims {
		for r := range s.choices[c] {
			for i := range s.choices[c][r] {
				ask := s.choices[c][r][i].ask
				if ask.All && len(s.claims[c].Constraints) > 0 {
					return true
				}
				for _, d := range s.slots {
					if _, reason := s.selects(&s.choices[c][r][i], d); reason != nil {
						return true
					}
				}
			}
		}
	}
	return false
}
