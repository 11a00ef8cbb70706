package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// mostRecorded bounds how many passes are on record.
const mostRecorded = 100

// recordedPrefix begins the names of the files of a record, which say the time after it.
const recordedPrefix = "disruptions-"

// disruptionRecord keeps, in a folder, for each of the last passes that disrupted nodes what it saw, as a snapshot file, and
// beside it what it decided: tenon plan --disrupt -f makes the same plan again.
type disruptionRecord struct {
	dir     string
	options engine.Options
}

// add writes a pass down. That it could not is said, and holds nothing up.
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
	name := recordedPrefix + s.Now.UTC().Format("20060102T150405.000000Z")
	return errors.Join(r.file(name+".json", decided), r.file(name+".yaml", seen.Bytes())) // who sees the second file finds the first
}

// file writes a file that is there whole or not at all.
func (r *disruptionRecord) file(name string, text []byte) error {
	f, err := os.CreateTemp(r.dir, "."+name+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(r.dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// trim removes the oldest records.
func (r *disruptionRecord) trim() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && strings.HasPrefix(name, recordedPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names[:max(0, len(names)-mostRecorded)] {
		errs = append(errs, os.Remove(filepath.Join(r.dir, name+".yaml")), os.Remove(filepath.Join(r.dir, name+".json")))
	}
	return errors.Join(errs...)
}

// checkRecord says why nothing can be recorded in the folder; "" stands for none.
func checkRecord(dir string) error {
	if dir == "" {
		return nil
	}
	f, err := os.CreateTemp(dir, "."+recordedPrefix)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
