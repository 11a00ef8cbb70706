package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine"
)

// Each pass has two files. The oldest passes are removed, together with the partial files of killed processes.
func TestTheRecordOfDisruptionsKeepsTheLastPasses(t *testing.T) {
	t.Parallel()
	r := &disruptionRecord{dir: t.TempDir()}
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	left := filepath.Join(r.dir, "disruptions-20260102T030405-000000.yaml.part")
	mine := filepath.Join(r.dir, "notes.txt")
	for _, path := range []string{left, mine} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range mostRecorded + 3 {
		r.add(t.Context(), &engine.Snapshot{Now: begin.Add(time.Duration(i) * time.Millisecond)}, &engine.Plan{Disruptions: []engine.Disruption{{Nodes: []string{"n"}}}})
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2*mostRecorded+1 {
		t.Errorf("%d files, want two for each of %d passes and one that is none of ours", len(entries), mostRecorded)
	}
	if first := entries[0].Name(); first != "disruptions-20260102T030405-003000.json" {
		t.Errorf("the oldest is %s", first)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".part") {
			t.Errorf("%s is left", e.Name())
		}
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read %s: %v, %v", entries[0].Name(), info.Mode(), err)
	}
}

func TestAFolderThatCannotBeWrittenEndsTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/nonexistent", file} {
		if checkRecord(dir) == nil {
			t.Errorf("%s is taken", dir)
		}
	}
	if err := checkRecord(t.TempDir()); err != nil {
		t.Error(err)
	}
}
