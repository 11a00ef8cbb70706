package yield_test

import (
	"fmt"
	"testing"
	"time"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/yield"
)

var now = time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)

// machine returns an unused machine that counts against the limits with these amounts of two resources. It may go.
func machine(number int, a, b int64) yield.Machine {
	return yield.Machine{Number: number, Counts: capacity.Vector{a, b}, Yields: true, Created: now.Add(-time.Hour)}
}

func stays(m yield.Machine) yield.Machine {
	m.Yields = false
	return m
}

// forRoom returns a machine that was bought for no pod, the given time ago.
func forRoom(m yield.Machine, ago time.Duration) yield.Machine {
	m.ForRoom, m.Created = true, now.Add(-ago)
	return m
}

// If the limits have room, no machine goes. Otherwise as few machines go as the limits need, and none if that is not enough.
func TestAsFewMachinesGoAsTheLimitsNeed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left   capacity.Vector
		unused []yield.Machine
		most   int
		needs  []capacity.Vector
		want   string
	}{
		"there is room":                       {capacity.Vector{4, 8}, []yield.Machine{machine(1, 4, 8)}, 9, []capacity.Vector{{4, 8}}, "[] true false"},
		"nobody can give it":                  {capacity.Vector{0, 0}, []yield.Machine{machine(1, 4, 8)}, 9, []capacity.Vector{{5, 1}}, "[] false false"},
		"one that is enough, not two":         {capacity.Vector{0, 0}, []yield.Machine{machine(1, 2, 4), machine(2, 2, 4), machine(3, 4, 8)}, 9, []capacity.Vector{{4, 8}}, "[3] true false"},
		"the one with the least beyond":       {capacity.Vector{0, 0}, []yield.Machine{machine(1, 8, 9), machine(2, 4, 8), machine(3, 6, 8)}, 9, []capacity.Vector{{4, 8}}, "[2] true false"},
		"of equal ones the first":             {capacity.Vector{0, 0}, []yield.Machine{machine(7, 4, 8), machine(3, 4, 8)}, 9, []capacity.Vector{{4, 8}}, "[7] true false"},
		"two that complete each other":        {capacity.Vector{0, 0}, []yield.Machine{machine(1, 4, 0), machine(2, 0, 8)}, 9, []capacity.Vector{{4, 8}}, "[1 2] true false"},
		"a part of the limits is left":        {capacity.Vector{2, 8}, []yield.Machine{machine(1, 2, 8)}, 9, []capacity.Vector{{4, 8}}, "[1] true false"},
		"what is not needed is not looked at": {capacity.Vector{4, -3}, nil, 9, []capacity.Vector{{4, 0}}, "[] true false"},
		"not one that has to stay":            {capacity.Vector{0, 0}, []yield.Machine{stays(machine(1, 4, 8)), machine(2, 8, 8)}, 9, []capacity.Vector{{4, 8}}, "[2] true false"},
		"all that could go have to stay":      {capacity.Vector{0, 0}, []yield.Machine{stays(machine(1, 4, 8))}, 9, []capacity.Vector{{4, 8}}, "[] false false"},
		"more than may go":                    {capacity.Vector{0, 0}, []yield.Machine{machine(1, 2, 4), machine(2, 2, 4)}, 1, []capacity.Vector{{4, 8}}, "[1 2] false true"},
		"the need for which fewer go":         {capacity.Vector{0, 0}, []yield.Machine{machine(1, 2, 4), machine(2, 2, 4)}, 9, []capacity.Vector{{4, 8}, {2, 4}}, "[1] true false"},
		"needs that nobody can give":          {capacity.Vector{0, 0}, []yield.Machine{machine(1, 2, 4)}, 9, []capacity.Vector{{4, 8}, {2, 4}}, "[1] true false"},
	} {
		p := yield.Pool{Left: c.left, Unused: c.unused, Most: c.most}
		got := p.For("web", c.needs, now.Add(-time.Minute), now)
		if text := fmt.Sprint(got.Gone, got.Made, got.TooMany); text != c.want || !got.From.IsZero() {
			t.Errorf("%s: %s from %v, want %s", name, text, got.From, c.want)
		}
	}
}

// A choice takes earlier choices into account: their amounts are used, and the surplus of their removed machines is free.
func TestEachChoiceCountsOnThoseBefore(t *testing.T) {
	t.Parallel()
	p := yield.Pool{Left: capacity.Vector{0, 0}, Unused: []yield.Machine{machine(1, 8, 16), machine(2, 4, 8)}, Most: 2}
	for i, want := range []string{"[2] true false", "[1] true false", "[] true false", "[] false false"} {
		got := p.For(fmt.Sprint("pod-", i), []capacity.Vector{{4, 8}}, now.Add(-time.Minute), now)
		if text := fmt.Sprint(got.Gone, got.Made, got.TooMany); text != want {
			t.Errorf("choice %d: %s, want %s", i, text, want)
		}
	}
	if p.Most != 0 || len(p.Unused) != 0 {
		t.Errorf("%d more may go, of %d", p.Most, len(p.Unused))
	}
}

// If machines without a pod were bought while the pod waited, and took the room of the pod's machine, the pod's machine was not available. So
// the bought machines stay for as long as the pod had waited then, at most an hour.
func TestMachinesThatWereBoughtWhileAPodWaitedStayForAsLong(t *testing.T) {
	t.Parallel()
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for name, c := range map[string]struct {
		waited time.Duration
		unused []yield.Machine
		want   string // the time at which they go, in minutes from now, or "now"
	}{
		"bought before the pod came":       {minutes(5), []yield.Machine{forRoom(machine(1, 4, 8), minutes(6))}, "now"},
		"bought for somebody":              {minutes(5), []yield.Machine{machine(1, 4, 8)}, "now"},
		"bought after three minutes":       {minutes(5), []yield.Machine{forRoom(machine(1, 4, 8), minutes(2))}, "1"},
		"bought after one minute":          {minutes(5), []yield.Machine{forRoom(machine(1, 4, 8), minutes(4))}, "now"},
		"bought after a day":               {minutes(1450), []yield.Machine{forRoom(machine(1, 4, 8), minutes(10))}, "50"},
		"two of one purchase":              {minutes(5), []yield.Machine{forRoom(machine(1, 2, 4), minutes(2)), forRoom(machine(2, 2, 4), minutes(2)+30*time.Second)}, "1"},
		"two at different times":           {minutes(9), []yield.Machine{forRoom(machine(1, 2, 4), minutes(2)), forRoom(machine(2, 2, 4), minutes(4))}, "now"},
		"too small a place for the pod's":  {minutes(9), []yield.Machine{forRoom(machine(1, 2, 4), minutes(2)), machine(2, 2, 4)}, "now"},
		"and the other half of the limits": {minutes(5), []yield.Machine{forRoom(machine(1, 4, 8), minutes(2)), machine(2, 4, 8)}, "1"},
	} {
		p := yield.Pool{Left: capacity.Vector{0, 0}, Unused: c.unused, Most: 9}
		got := p.For("web", []capacity.Vector{{4, 8}}, now.Add(-c.waited), now)
		text := "now"
		if !got.Made {
			text = fmt.Sprint(got.From.Sub(now).Minutes())
		}
		if text != c.want {
			t.Errorf("%s: %s (%+v), want %s", name, text, got, c.want)
		}
	}
}

// If it is doubtful whether new machines are available, machines go for one machine at a time, because the first one shows it.
func TestOneTriesWhetherMachinesCanBeHadNow(t *testing.T) {
	t.Parallel()
	p := yield.Pool{Left: capacity.Vector{0, 0}, Most: 9}
	for i := range 4 {
		p.Unused = append(p.Unused, forRoom(machine(i, 4, 8), 4*time.Minute))
	}
	for i, c := range []struct {
		name string
		made bool
	}{{"web", true}, {"db", false}, {"web", true}} {
		if got := p.For(c.name, []capacity.Vector{{4, 8}}, now.Add(-5*time.Minute), now); got.Made != c.made {
			t.Errorf("choice %d, for %s: %+v", i, c.name, got)
		}
	}
}
