package journal

import (
	"cmp"
	"slices"
	"time"
)

// Savings returns the saving of each record until now, in USD, by ID. It adds the cost of a disruption's removed machines from their removal
// on, and subtracts the cost of their replacements from their launch on. So a saving is negative while both run. If the same pool buys
// machines later, their cost ends savings of the pool, the newest first. Savings knows only the events in the records.
func Savings(records []Record, now time.Time) (byID map[string]float64) {
	var events []change
	for i := range records {
		events = append(events, changes(&records[i])...)
	}
	slices.SortStableFunc(events, func(a, b change) int { return a.at.Compare(b.at) })
	byID = map[string]float64{}
	live := map[string][]*saving{} // by pool, in the order of their begin
	for _, e := range events {
		if e.at.After(now) {
			break
		}
		if e.bought > 0 {
			cancel(live[e.pool], e.bought, e.at)
			continue
		}
		list := live[e.pool]
		at := slices.IndexFunc(list, func(x *saving) bool { return x.id == e.id })
		if at < 0 {
			at = len(list)
			list = append(list, &saving{id: e.id, since: e.at})
			live[e.pool] = list
		}
		list[at].accrue(e.at)
		list[at].rate += e.rate
	}
	for _, list := range live {
		for _, x := range list {
			x.accrue(now)
			byID[x.id] += x.usd
		}
	}
	return byID
}

// A change is a time from which a record saves more or less per hour, or at which a pool buys machines.
type change struct {
	at           time.Time
	id, pool     string
	rate, bought float64
}

// changes returns the changes of one record. All changes of a record belong to its first pool, so that they form one sum.
func changes(r *Record) []change {
	if r.Kind != Launch && r.Kind != Disruption || len(r.NodePools) == 0 {
		return nil
	}
	machines := map[string]*Machine{}
	for i := range r.Machines {
		machines[r.Machines[i].Claim] = &r.Machines[i]
	}
	var out []change
	for _, s := range r.Steps {
		m := machines[s.Claim]
		if m == nil {
			continue
		}
		usd := price(m)
		switch {
		case s.What == Launched && r.Kind == Launch:
			out = append(out, change{at: s.Time, pool: m.NodePool, bought: usd})
		case s.What == Launched && m.Comes:
			out = append(out, change{at: s.Time, id: r.ID, pool: r.NodePools[0], rate: -usd})
		case s.What == Lost && m.Comes && r.Kind == Disruption && slices.ContainsFunc(r.Steps, func(x Step) bool { return x.Claim == s.Claim && x.What == Launched }):
			out = append(out, change{at: s.Time, id: r.ID, pool: r.NodePools[0], rate: usd})
		case s.What == Removed && !m.Comes:
			out = append(out, change{at: s.Time, id: r.ID, pool: r.NodePools[0], rate: usd})
		}
	}
	return out
}

// A saving is one record's present saving per hour, and its sum so far.
type saving struct {
	id        string
	since     time.Time
	rate, usd float64
}

func (x *saving) accrue(until time.Time) {
	x.usd += x.rate * until.Sub(x.since).Hours()
	x.since = until
}

// cancel reduces the savings of a pool, the newest first, by the cost of machines that the pool buys.
func cancel(list []*saving, bought float64, at time.Time) {
	for _, x := range slices.Backward(list) {
		if x.rate <= 0 {
			continue
		}
		x.accrue(at)
		part := min(x.rate, bought)
		x.rate, bought = x.rate-part, bought-part
		if bought <= 0 {
			return
		}
	}
}

// A ReasonSaving is the saving of all decisions with one reason.
type ReasonSaving struct {
	Reason        string  `json:"reason"`
	Decisions     int     `json:"decisions"`
	SavingPerHour float64 `json:"savingPerHour"`
	Saved         float64 `json:"savedSoFar"`
}

// ByReason sums up records whose Saved is known, the largest sum first.
func ByReason(records []Record) []ReasonSaving {
	var out []ReasonSaving
	for i := range records {
		r := &records[i]
		if r.Kind != Disruption {
			continue
		}
		at := slices.IndexFunc(out, func(x ReasonSaving) bool { return x.Reason == r.Reason })
		if at < 0 {
			at = len(out)
			out = append(out, ReasonSaving{Reason: r.Reason})
		}
		x := &out[at]
		x.Decisions, x.SavingPerHour, x.Saved = x.Decisions+1, x.SavingPerHour+r.SavingPerHour, x.Saved+r.Saved
	}
	slices.SortFunc(out, func(a, b ReasonSaving) int {
		return cmp.Or(cmp.Compare(b.Saved, a.Saved), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
