package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario"
)

// seen runs a watch that makes one look for each function, and returns its output.
func seen(t *testing.T, live bool, looks ...func() (*nodeTable, error)) string {
	t.Helper()
	var out bytes.Buffer
	turn := 0
	first, err := looks[0]()
	if err != nil {
		t.Fatal(err)
	}
	w := nodeWatch{
		screen: &screen{terminal: &terminal{out: &out}, live: live},
		look:   func(context.Context, *terminal) (*nodeTable, error) { return looks[turn]() },
		wait: func(context.Context) bool {
			turn++
			return turn < len(looks)
		},
	}
	if err := w.run(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func tableOf(t *testing.T, text string) func() (*nodeTable, error) {
	return func() (*nodeTable, error) {
		file, err := scenario.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list := newNodeTable(file.Snapshot, disruption.Plan(file.Snapshot, engine.Options{}, nil))
		list.order("pool")
		return list, nil
	}
}

const (
	watchedCluster = "pool p\ntype large cpu=8 mem=16Gi price=0.17\n"
	watchedNode    = "node n1 pool=p type=large\npod a cpu=1 node=n1 owner=ReplicaSet/a\n"
)

func TestWithoutATerminalTheListIsPrintedOncePerChange(t *testing.T) {
	t.Parallel()
	one := tableOf(t, watchedCluster+watchedNode)
	// In the second table only the time differs: the clock is later, and the node is older.
	later := tableOf(t, "now 2026-01-01T13:00:00Z\n"+watchedCluster+"node n1 pool=p type=large age=2h\npod a cpu=1 node=n1 age=61m owner=ReplicaSet/a\n")
	two := tableOf(t, watchedCluster+watchedNode+"node n2 pool=p type=large\n")
	got := seen(t, false, one, one, later, two, two)
	if n := strings.Count(got, "NODE "); n != 2 {
		t.Errorf("printed %d times:\n%s", n, got)
	}
	if !strings.HasPrefix(got, "1 node, ") || !strings.Contains(got, "\n\n2 nodes, ") || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%q", got)
	}
}

func TestInATerminalTheListIsOverwrittenAndTheScreenGivenBack(t *testing.T) {
	t.Parallel()
	one := tableOf(t, watchedCluster+watchedNode)
	got := seen(t, true, one, one)
	if strings.Contains(got, "\x1b[2J") {
		t.Error("the screen is cleared, which flickers")
	}
	if strings.Contains(got, "\n") {
		t.Error("a line feed could scroll the screen")
	}
	if n := strings.Count(got, "\x1b[1;1H1 node, "); n != 2 {
		t.Errorf("%d frames, not 2", n)
	}
	if !strings.HasPrefix(got, "\x1b[?1049h") || !strings.HasSuffix(got, "\x1b[?1049l") {
		t.Errorf("the screen is not given back: %q", got)
	}
}

func TestAWatchOutlivesALookThatFails(t *testing.T) {
	t.Parallel()
	one := tableOf(t, watchedCluster+watchedNode)
	fails := func() (*nodeTable, error) { return nil, errors.New("the API server\nis away") }
	got := seen(t, false, one, fails, fails, one)
	if n := strings.Count(got, "not up to date: the API server is away"); n != 1 {
		t.Errorf("said %d times:\n%s", n, got)
	}
	if n := strings.Count(got, "1 node, "); n != 3 {
		t.Errorf("printed %d times, not at first, with the failure, and without it:\n%s", n, got)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if pauseFor(ctx, time.Hour) {
		t.Error("it waited")
	}
}
