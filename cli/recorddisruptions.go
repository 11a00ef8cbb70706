package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// mostRecorded is the largest number of recorded passes.
const mostRecorded = 100

// The names of a pass's files begin with recordedPrefix and the time, so that names sort by time.
const (
	recordedPrefix = "disruptions-"
	recordedTime   = "20060102T150405.000000"
)

// disruptionRecord keeps the last passes that disrupted nodes in a folder: the input of a pass as a snapshot file, and its decisions in a
// second file. tenon plan --disrupt -f makes the same plan from the snapshot.
type disruptionRecord struct {
	dir     string
	options engine.Options
}

// add records a pass. It only logs errors, so that they delay nothing.
func (r *disruptionRecord) add(ctx context.Context, s *engine.Snapshot, plan *engine.Plan) {
	if err := errors.Join(r.write(s, plan), r.trim()); err != nil {
		log.FromContext(ctx).Error(err, "cannot record what was disrupted", "folder", r.dir)
	}
}

func (r *disruptionRecord) write(s *engine.Snapshot, plan *engine.Plan) error {
	var seen bytes.Buffer
	if err := scenario.Write(&seen, s, r.options); err != nil {
		return err
	}
	decided, err := json.Marshal(plan.Disruptions)
	if err != nil {
		return err
	}
	name := recordedPrefix + strings.Replace(s.Now.UTC().Format(recordedTime), ".", "-", 1)
	return errors.Join(r.file(name+".json", decided), r.file(name+".yaml", seen.Bytes())) // a reader that sees the second file finds the first
}

// file writes a file atomically. A killed process may leave a partial file, whose name belongs to the pass, so that trim removes it with the
// pass.
func (r *disruptionRecord) file(name string, text []byte) error {
	path := filepath.Join(r.dir, name)
	err := os.WriteFile(path+".part", text, 0o600)
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	return err
}

// trim removes all files of the oldest passes.
func (r *disruptionRecord) trim() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	files := map[string][]string{} // the files of each pass
	for _, e := range entries {
		if pass, _, ok := strings.Cut(e.Name(), "."); ok && strings.HasPrefix(pass, recordedPrefix) {
			files[pass] = append(files[pass], e.Name())
		}
	}
	passes := slices.Sorted(maps.Keys(files))
	var errs []error
	for _, pass := range passes[:max(0, len(passes)-mostRecorded)] {
		for _, name := range files[pass] {
			errs = append(errs, os.Remove(filepath.Join(r.dir, name)))
		}
	}
	return errors.Join(errs...)
}

// checkRecord returns an error if passes cannot be recorded in the folder; "" means no folder.
func checkRecord(dir string) error {
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, recordedPrefix+"check.part")
	err := os.WriteFile(path, nil, 0o600)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("the folder has to be there, and writable: %w", err)
	}
	return nil
}
