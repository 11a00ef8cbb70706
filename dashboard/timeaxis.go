package dashboard

import "time"

// A timeTick is a round time on an axis.
type timeTick struct {
	X    int
	Says string
	End  string // the end of the axis that the text is aligned with: "start" or "end", "" for neither
}

// mostTimes is how many times an axis has at most.
const mostTimes = 8

// timeTicks returns round times between two times, at the places of x. The first tick of a day has its date.
func timeTicks(from, to time.Time, x func(time.Time) int) []timeTick {
	step := timeStep(to.Sub(from))
	var out []timeTick
	day := ""
	for at := from.UTC().Truncate(step); !at.After(to); at = at.Add(step) {
		if at.Before(from) {
			continue
		}
		says := at.Format("15:04")
		if step < time.Minute {
			says = at.Format("15:04:05")
		}
		date := at.Format("2 Jan")
		switch {
		case step >= 24*time.Hour:
			says = date
		case date != day:
			says = date + " " + says
		}
		day = date
		t := timeTick{X: x(at), Says: says}
		if along := float64(at.Sub(from)) / max(1, float64(to.Sub(from))); along < 0.03 {
			t.End = "start"
		} else if along > 0.97 {
			t.End = "end"
		}
		out = append(out, t)
	}
	return out
}

// timeStep returns the shortest round step that divides a span into few parts.
func timeStep(span time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour,
	} {
		if span <= mostTimes*step {
			return step
		}
	}
	days := (span + mostTimes*24*time.Hour - 1) / (mostTimes * 24 * time.Hour)
	return days * 24 * time.Hour
}
