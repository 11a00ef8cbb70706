package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/journal"
)

// keep writes a world's journal to a folder. said gets its messages.
func keep(w *world, dir string) (k *journal.Keeper, said *[]string) {
	said = new([]string)
	k = &journal.Keeper{Journal: w.journal, Dir: dir, Say: func(says string, err error) {
		if err != nil {
			says += ": " + err.Error()
		}
		*said = append(*said, says)
	}}
	k.Restore()
	return k, said
}

func (w *world) launch(name string) {
	w.claim(name, "small")
	w.journal.Planned(w.snapshot(), &engine.Plan{Launches: []engine.Launch{launchOf("small", 1)}}, []string{name})
	w.clock.Step(time.Second)
}

func TestAnotherProcessReadsBackWhatTheLastOneKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t)
	k, said := keep(w, dir)
	w.launch("a")
	k.Write()
	w.launch("b")
	w.condition(w.claims["a"], v1.ConditionLaunched, "True", "")
	w.idle()
	k.Write()
	k.Write()
	before := w.journal.Document(journal.Filter{}).Records
	w.journal = journal.New(w.clock)
	k, _ = keep(w, dir)
	if after := w.journal.Document(journal.Filter{}).Records; !reflect.DeepEqual(before, after) || len(after) != 2 {
		t.Errorf("read back:\n%+v\nwant\n%+v", after, before)
	}
	w.condition(w.claims["a"], v1.ConditionRegistered, "True", "")
	w.condition(w.claims["a"], v1.ConditionInitialized, "True", "")
	w.idle()
	k.Write()
	records, notes, err := journal.ReadDir(dir)
	if err != nil || len(notes) > 0 || len(*said) > 0 || records[0].Outcome != journal.Done {
		t.Errorf("%s %v %v %v", records[0].Outcome, notes, *said, err)
	}
}

func TestLinesThatCannotBeReadAreSkippedAndSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t)
	k, _ := keep(w, dir)
	w.launch("a")
	k.Write()
	path := filepath.Join(dir, journal.NewestFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := "no line\n{\"version\":1}\n{\"version\":7,\"record\":{\"id\":\"x\"}}\n\n[]\n{\"version\":1,\"id\":\"unknown\",\"steps\":[{}]}\n" + strings.Repeat("x", 17<<20) + "\n"
	if err := os.WriteFile(path, slices.Concat([]byte(bad), whole, whole[:len(whole)/2]), 0o600); err != nil {
		t.Fatal(err)
	}
	records, notes, err := journal.ReadDir(dir)
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	text := strings.Join(notes, "\n")
	for _, want := range []string{"line 9, the last, is half-written", "newer version", "not lines of a journal were skipped: 3, the first is line 1", "longer than 16 MiB were skipped: 1, the first is line 7"} {
		if !strings.Contains(text, want) {
			t.Errorf("the notes do not say %q:\n%s", want, text)
		}
	}
	// The next process writes after the incomplete line, not into it.
	w.journal = journal.New(w.clock)
	k, said := keep(w, dir)
	if len(*said) != 4 {
		t.Errorf("said: %q", *said)
	}
	w.launch("b")
	k.Write()
	if records, _, err := journal.ReadDir(dir); err != nil || len(records) != 2 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

func TestAJournalThatCannotBeWrittenGoesOnInMemoryAndSaysSoOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	w := newWorld(t)
	k, said := keep(w, dir)
	for i := range 3 {
		w.launch(fmt.Sprint("c", i))
		k.Write()
	}
	if len(*said) != 1 || !strings.Contains((*said)[0], "goes on in memory") {
		t.Errorf("said: %q", *said)
	}
	if n := len(w.journal.Document(journal.Filter{}).Records); n != 3 {
		t.Errorf("%d records in memory", n)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k.Write()
	if records, _, err := journal.ReadDir(dir); err != nil || len(records) != 3 || len(*said) != 2 {
		t.Errorf("%d records, %v, said %q", len(records), err, *said)
	}
}

func TestAFolderThatCannotBeReadBeginsAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, journal.NewestFile), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	_, said := keep(w, dir)
	w.launch("a")
	if len(*said) != 1 || !strings.Contains((*said)[0], "begins anew") || w.only().Kind != journal.Launch {
		t.Errorf("said %q", *said)
	}
}

func TestFilesAreBoundedAndWhatIsInProgressMovesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t)
	k, _ := keep(w, dir)
	k.Most = 8 << 10
	w.launch("long")
	k.Write()
	for i := range 60 {
		name := fmt.Sprint("c", i)
		w.launch(name)
		delete(w.claims, name)
		w.idle()
		k.Write()
	}
	total := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(entries) != 2 || total > 2*k.Most {
		t.Errorf("%d files of %d bytes", len(entries), total)
	}
	for _, condition := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized} {
		w.condition(w.claims["long"], condition, "True", "")
	}
	w.idle()
	k.Write()
	records, notes, err := journal.ReadDir(dir)
	if err != nil || len(notes) > 0 || len(records) > 60 {
		t.Fatalf("%d records, %v, %v", len(records), notes, err)
	}
	for _, r := range records {
		if r.Machines[0].Claim == "long" {
			if r.Outcome != journal.Done {
				t.Errorf("what was in progress is %s: %s", r.Outcome, steps(r))
			}
			return
		}
	}
	t.Error("what was in progress is not in the files any more")
}
