package controller

import "time"

// Window collects causes for one pass. The zero value is closed and empty.
type Window struct {
	first, last time.Time
	causes      map[string]bool
}

// Add notes a cause and reports whether it is a new one.
func (w *Window) Add(cause string, now time.Time) bool {
	if w.causes[cause] {
		return false
	}
	if w.causes == nil {
		w.causes = map[string]bool{}
		w.first = now
	}
	w.causes[cause] = true
	w.last = now
	return true
}

// Join notes a cause that matters only beside another cause. It reports whether the cause is new.
func (w *Window) Join(cause, beside string, now time.Time) bool {
	return w.causes[beside] && w.Add(cause, now)
}

// Closes returns when the window closes: idle after the last new cause, but no later than most after the first one. Without a cause the
// window is not open.
func (w *Window) Closes(idle, most time.Duration) (at time.Time, open bool) {
	if w.causes == nil {
		return time.Time{}, false
	}
	at = w.last.Add(idle)
	if latest := w.first.Add(most); latest.Before(at) {
		at = latest
	}
	return at, true
}
