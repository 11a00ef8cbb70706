package inventory

import "time"

const (
	soldOutFirst  = 3 * time.Minute  // how long a sold-out offering is left alone
	soldOutMost   = 30 * time.Minute // even if the offering was sold out many times before
	soldOutMemory = time.Hour        // without being sold out again for this long, it is a new case
)

// SoldOut is the time until which an offering is left alone. The time doubles each time that the offering is sold out again, because an unavailable
// machine should be requested less and less often.
type SoldOut struct {
	until time.Time
	times int
}

// Again returns the mark after a launch has found the offering sold out now. Several launches that fail at once count as one failure.
func (s SoldOut) Again(now time.Time) SoldOut {
	switch {
	case s.IsOver(now):
		s = SoldOut{}
	case s.Holds(now):
		return s
	}
	return SoldOut{now.Add(min(soldOutFirst<<min(s.times, 10), soldOutMost)), s.times + 1}
}

// Until returns when the mark ends.
func (s SoldOut) Until() time.Time { return s.until }

// Holds reports whether the offering is left alone now.
func (s SoldOut) Holds(now time.Time) bool { return now.Before(s.until) }

// IsOver reports whether the mark is too old to lengthen the next one.
func (s SoldOut) IsOver(now time.Time) bool { return now.Sub(s.until) > soldOutMemory }
