package budget

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// window is a recurring time: it opens by a schedule and stays open for its length.
type window struct {
	schedule *cron.SpecSchedule
	length   time.Duration
}

// readWindow reads a cron line or a macro such as @daily, in a zone.
func readWindow(schedule string, length time.Duration, zone *time.Location) (window, error) {
	text := strings.TrimSpace(schedule)
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return window{}, fmt.Errorf("schedule %q names a time zone: name it in the annotation for it", schedule)
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return window{}, fmt.Errorf("schedule %q cannot be read: %w", schedule, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return window{}, fmt.Errorf("schedule %q cannot be read: want five fields, or a macro such as @daily", schedule)
	}
	spec.Location = zone
	return window{spec, length}, nil
}

// isOpen reports whether the window opened at most its length ago.
func (w window) isOpen(now time.Time) bool {
	opened := w.schedule.Next(now.Add(-w.length))
	return !opened.IsZero() && !opened.After(now)
}

// turn returns when the window may next open or close, the zero time for never. If windows overlap, it may return a time without a change.
func (w window) turn(now time.Time) time.Time {
	opened := w.schedule.Next(now.Add(-w.length))
	if opened.IsZero() || opened.After(now) {
		return opened
	}
	return opened.Add(w.length)
}

// mostAdjoining bounds the number of adjoining windows that Changes checks: more than the minutes of a working week.
const mostAdjoining = 8000

// Changes returns when the window next opens or closes, the zero time for never. A closing at the moment of the next opening is no change.
func (w window) Changes(now time.Time) time.Time {
	open, at := w.isOpen(now), now
	for range mostAdjoining {
		if at = w.turn(at); at.IsZero() || w.isOpen(at) != open {
			return at
		}
	}
	return time.Time{}
}

// opens returns when the window is next open, now if it is; the zero time for never.
func (w window) opens(now time.Time) time.Time {
	if w.isOpen(now) {
		return now
	}
	return w.schedule.Next(now)
}

// moveWindow is the content of the annotation tenon.sh/move-window: "0 14 * * sun for 3h in Europe/Zurich".
type moveWindow struct {
	schedule string
	length   time.Duration
	zone     string // empty for the pool's zone
}

func readMoveWindow(text string) (m moveWindow, err error) {
	text, zone, zoned := strings.Cut(text, " in ")
	schedule, length, ok := strings.Cut(text, " for ")
	if !ok || zoned && strings.TrimSpace(zone) == "" {
		return m, fmt.Errorf("a schedule and a duration, such as \"0 14 * * sun for 3h in Europe/Zurich\"")
	}
	m.schedule, m.zone = strings.TrimSpace(schedule), strings.TrimSpace(zone)
	m.length, err = time.ParseDuration(strings.TrimSpace(length))
	if err != nil || m.length <= 0 {
		return m, fmt.Errorf("a duration such as 3h instead of %q", strings.TrimSpace(length))
	}
	_, err = readWindow(m.schedule, m.length, time.UTC)
	return m, err
}
