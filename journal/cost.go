package journal

import (
	"slices"
	"time"
)

// A CostPoint is the cost of the machines from a time on, in USD per hour.
type CostPoint struct {
	Time         time.Time
	PricePerHour float64
}

// Costs returns the cost of the machines over time. It combines the price in the snapshot of each decision with a step whenever a decision's machine
// was launched, lost or removed. A snapshot's price includes only nodes. So it may lack a machine between launch and registration, or a machine whose
// node is gone and whose NodeClaim still exists. Within these bounds, the result is the sum of the steps.
func Costs(records []Record) []CostPoint {
	var events []costEvent
	for i := range records {
		events = append(events, costEvents(&records[i])...)
	}
	slices.SortStableFunc(events, func(a, b costEvent) int { return a.at.Compare(b.at) })
	var out []CostPoint
	sum, under := 0.0, 0.0 // `under` is the price of the machines that may or may not be among the nodes
	for _, e := range events {
		under = max(0, under+e.under)
		switch {
		case e.seen == nil && len(out) == 0:
			continue // the cost of the other machines is unknown
		case e.seen == nil:
			sum = max(0, sum+e.more)
		case len(out) == 0:
			sum = *e.seen
		default:
			sum = min(max(sum, *e.seen), *e.seen+under)
		}
		if n := len(out); n > 0 && out[n-1].Time.Equal(e.at) {
			out[n-1].PricePerHour = sum
			continue
		}
		out = append(out, CostPoint{e.at, sum})
	}
	return out
}

// A costEvent is a time at which the machines' cost changes, or at which a snapshot shows their price.
type costEvent struct {
	at          time.Time
	seen        *float64
	more, under float64
}

func costEvents(r *Record) []costEvent {
	var out []costEvent
	if !r.Seen.At.IsZero() {
		out = append(out, costEvent{at: r.Seen.At, seen: &r.Seen.PricePerHour})
	}
	type step struct {
		claim string
		what  What
	}
	first := map[step]time.Time{}
	for _, s := range r.Steps {
		at := s.Time
		if at.Before(r.Seen.At) { // conditions have whole seconds
			at = r.Seen.At
		}
		if k := (step{s.Claim, s.What}); first[k].IsZero() || at.Before(first[k]) {
			first[k] = at
		}
	}
	for i := range r.Machines {
		m := &r.Machines[i]
		usd, when := price(m), func(what What) time.Time { return first[step{m.Claim, what}] }
		if m.Comes {
			out = append(out, costsOfComing(usd, when)...)
			continue
		}
		out = append(out, costEvent{at: r.Time, under: usd})
		if removed := when(Removed); !removed.IsZero() {
			out = append(out, costEvent{at: removed, more: -usd, under: -usd})
		} else if kept := when(Kept); !kept.IsZero() {
			out = append(out, costEvent{at: kept, under: -usd})
		}
	}
	return out
}

// costsOfComing returns the events of a new machine, which has a cost from its launch on.
func costsOfComing(usd float64, when func(What) time.Time) []costEvent {
	launched, lost := when(Launched), when(Lost)
	if launched.IsZero() {
		return nil
	}
	out := []costEvent{{at: launched, more: usd, under: usd}}
	if joined := earlier(when(Registered), earlier(when(Ready), lost)); !joined.IsZero() {
		out = append(out, costEvent{at: joined, under: -usd})
	}
	if !lost.IsZero() {
		out = append(out, costEvent{at: lost, more: -usd})
	}
	return out
}

// earlier returns the earlier of two times. It ignores a zero time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
