package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tenon.sh/journal"
)

// On a terminal of any width, a table has one line for each row. Elsewhere nothing is cut.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	list, err := tableOf(t, watchedCluster+"node ip-10-0-3-7.eu-west-1.compute.internal pool=p type=large\nnode n2 pool=p type=large\n"+
		"pod a cpu=1 node=n2 owner=ReplicaSet/a\npod b cpu=7 node=ip-10-0-3-7.eu-west-1.compute.internal do-not-disrupt\n")()
	must(t, err)
	decisions := &journal.Document{Records: []journal.Record{{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ID: "20260102T030405", Kind: journal.Refusal, NodePools: []string{"general"},
		Says: "nothing can run 4 pods: " + strings.Repeat("the pod asks for label team In (red), which the pool does not define; ", 6),
	}}}
	for name, table := range map[string]func(*terminal) []string{
		"nodes":   func(screen *terminal) []string { return list.lines(screen)[2:] },
		"journal": func(screen *terminal) []string { return journalLines(screen, decisions) },
	} {
		whole := table(&terminal{out: &bytes.Buffer{}})
		for _, columns := range []int{80, 100, 120, 160, 200} {
			lines := table(&terminal{out: &bytes.Buffer{}, columns: columns})
			if len(lines) != len(whole) {
				t.Errorf("%s: %d lines in %d columns, %d without a terminal", name, len(lines), columns, len(whole))
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(strings.TrimRight(line, " ")); n > columns {
					t.Errorf("%s: %d characters in %d columns: %s", name, n, columns, line)
				}
			}
		}
		if text := strings.Join(whole, "\n"); strings.Contains(text, "…") {
			t.Errorf("%s: cut though there is no terminal:\n%s", name, text)
		}
	}
	wide := strings.Join(list.lines(&terminal{out: &bytes.Buffer{}, columns: 160}), "\n")
	if !strings.Contains(wide, "█") || !strings.Contains(wide, "BECAUSE") || !strings.Contains(wide, "…") {
		t.Errorf("160 columns have room for bars and for the begin of reasons:\n%s", wide)
	}
}

func TestTheWidestColumnsAreCutOnceTheProseIsGone(t *testing.T) {
	t.Parallel()
	prose := strings.Repeat("word ", 20)
	rows := [][]string{{"NAME", "MACHINE", "AGE", "BECAUSE"}, {strings.Repeat("n", 30), strings.Repeat("m", 20), "1d", prose}}
	for columns, want := range map[int]string{
		0:  strings.Repeat("n", 30) + " " + strings.Repeat("m", 20) + " 1d " + prose,
		90: strings.Repeat("n", 30) + " " + strings.Repeat("m", 20) + " 1d " + prose[:30] + "…",
		40: strings.Repeat("n", 15) + "… " + strings.Repeat("m", 16) + "… 1d",
		10: "nnnnn… mmmmm… 1d",
	} {
		if got := strings.Join(fit(rows, columns)[1], " "); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}

// The progress line is cleared before other output, and drawn again below it.
func TestProgressIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{t: &terminal{out: &out, columns: 10}}
	p.say("hour %d", 1)
	p.say("something that is too long")
	fmt.Fprintln(p.beside(&bytes.Buffer{}), "note")
	p.end()
	p.end()
	if want := "\r\x1b[Khour 1\r\x1b[Ksomethin…\r\x1b[Knote\n\r\x1b[Ksomethin…\r\x1b[K"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
	var none *progress
	none.say("nothing")
	none.end()
	if none.beside(&out) != &out || newProgress(&out) != nil {
		t.Error("what is no terminal has a progress")
	}
}
