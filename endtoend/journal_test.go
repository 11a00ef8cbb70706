package endtoend_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/journal"
)

// A consolidation is in the journal, and on the page that shows it, from its cause to what it has saved so far.
func TestTheJournalFollowsAConsolidation(t *testing.T) {
	world := newWorld(t)
	world.start()
	w := world.in(t, "saved")
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(5 * time.Second) })
	w.workload(4, "1900m", nil)
	if nodes := len(w.nodes()); nodes != 2 {
		w.Fatalf("%d nodes for 4 pods of which two fit each", nodes)
	}
	w.leaveEvenly(2, w.corner)
	w.scale(w.corner, 2)

	told := ""
	var done journal.Record
	w.until(3*time.Minute, func() (bool, string) {
		records := w.decided()
		i := slices.IndexFunc(records, func(r journal.Record) bool { return r.Kind == journal.Disruption })
		if i < 0 {
			return false, fmt.Sprintf("no consolidation is in the journal: %+v", records)
		}
		done = records[i]
		if state := fmt.Sprint(done.Outcome, len(done.Steps)); state != told {
			told = state
			w.Log(w.tenon("journal", done.ID, "--kubeconfig", w.playground.Kubeconfig()))
		}
		return done.Outcome == journal.Done, fmt.Sprintf("it has not ended: %+v", done)
	})
	if done.Reason != "Underutilized" || done.Pods != 1 || done.PriceBefore <= 0 || math.Abs(done.PriceBefore-done.PriceAfter-done.SavingPerHour) > 1e-9 {
		w.Errorf("the decision is %+v", done)
	}
	var steps []journal.What
	for i, s := range done.Steps {
		if i > 0 && s.Time.Before(done.Steps[i-1].Time) || s.Time.IsZero() {
			w.Errorf("%s was at %s", s.What, s.Time)
		}
		if s.What != journal.Draining { // if a look falls into it
			steps = append(steps, s.What)
		}
	}
	if want := []journal.What{journal.Deleted, journal.Drained, journal.Removed}; !slices.Equal(steps, want) {
		w.Errorf("its steps are %q, want %q", steps, want)
	}
	w.until(time.Minute, func() (bool, string) {
		now := w.decided()
		i := slices.IndexFunc(now, func(r journal.Record) bool { return r.ID == done.ID })
		return i >= 0 && now[i].Saved > done.Saved && now[i].Saved > 0, fmt.Sprintf("what is saved does not grow from $%g", done.Saved)
	})
	file := filepath.Join(w.TempDir(), "page.html")
	says := w.tenon("dashboard", "--kubeconfig", w.playground.Kubeconfig(), "--export", file)
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), done.Says) {
		w.Errorf("the page does not show %q: %v %s", done.Says, err, says)
	}
}

// decided are the decisions about the corner, as tenon journal reads them from the controller.
func (w *world) decided() []journal.Record {
	w.Helper()
	out := w.tenon("journal", "--kubeconfig", w.playground.Kubeconfig(), "--pool", w.corner, "-o", "json")
	var d journal.Document
	if err := json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &d); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return d.Records
}
