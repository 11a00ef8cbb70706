package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The files of a journal's folder. When the newer file is full, it replaces the older one.
const (
	NewestFile = "journal.jsonl"
	olderFile  = "journal.1.jsonl"
	// mostBytes is the largest size of each file, enough for months of most clusters.
	mostBytes = 25 << 20
	// tryAgain is the time after which a failed write is tried again.
	tryAgain = 30 * time.Second
)

// ReadDir reads the files of a folder. The folder may have none.
func ReadDir(dir string) (records []Record, notes []string, err error) {
	var readers []io.Reader
	for _, name := range []string{olderFile, NewestFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the journal: %w", err)
		}
		defer f.Close()
		readers = append(readers, f)
	}
	return Read(readers...)
}

// A Keeper writes a journal to a folder, and reads the records of earlier processes from it.
type Keeper struct {
	Journal *Journal
	Dir     string
	// Most is the largest size of a file in bytes; 0 means 25 MiB.
	Most int64
	// Say reports failures of reading and writing. The journal continues in memory.
	Say func(says string, err error)

	failing bool // the failure to write has been reported
}

// Restore reads the files into the journal. From then on, the journal remembers the changes that the file lacks.
func (k *Keeper) Restore() {
	records, notes, err := ReadDir(k.Dir)
	if err != nil {
		k.Say("cannot read the journal of earlier processes, it begins anew", err)
	}
	for _, note := range notes {
		k.Say("reading the journal: "+note, nil)
	}
	k.Journal.mu.Lock()
	defer k.Journal.mu.Unlock()
	k.Journal.wake = make(chan struct{}, 1)
	k.Journal.restore(records)
}

// Run writes until ctx ends, and once more at the end.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(tryAgain)
	defer ticker.Stop()
	for {
		var again <-chan time.Time
		if k.failing {
			again = ticker.C
		}
		select {
		case <-k.Journal.wake:
		case <-again:
		case <-ctx.Done():
			k.Write()
			return nil
		}
		k.Write()
	}
}

// Write writes the changes that the file lacks. It tries a failed write again at the next call.
func (k *Keeper) Write() {
	if err := k.write(); err != nil {
		if !k.failing {
			k.Say("cannot write the journal, it goes on in memory; this is said once", err)
		}
		k.failing = true
		return
	}
	if k.failing {
		k.failing = false
		k.Say("the journal is written again, with what was missing", nil)
	}
}

func (k *Keeper) write() error {
	path := filepath.Join(k.Dir, NewestFile)
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	most := k.Most
	if most == 0 {
		most = mostBytes
	}
	text, written, err := k.Journal.lacking(false)
	if err != nil || len(text) == 0 {
		return err
	}
	if size > 0 && size+int64(len(text)) > most {
		if err := os.Rename(path, filepath.Join(k.Dir, olderFile)); err != nil {
			return err
		}
		if text, written, err = k.Journal.lacking(true); err != nil {
			return err
		}
	}
	if err := appendTo(path, text); err != nil {
		return err
	}
	k.Journal.clean(written)
	return nil
}

// appendTo appends text to the file. If the last line is incomplete, text begins on a new line.
func appendTo(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	if err == nil {
		_, err = f.Write(text)
	}
	return errors.Join(err, f.Close())
}

// lacking returns the text that the file lacks, and the extent of each record after it is written. For a new file it includes all records in
// progress as a whole, because the old file with their beginning will be deleted.
func (j *Journal) lacking(anew bool) (text []byte, written map[string]extent, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	dirty := map[string]bool{}
	for _, id := range j.dirty {
		dirty[id] = true
	}
	written = map[string]extent{}
	for _, r := range j.records {
		whole := anew && r.Outcome == InProgress
		if !dirty[r.ID] && !whole {
			continue
		}
		have, known := j.written[r.ID]
		l := line{Version: version, ID: r.ID}
		if !known || have.machines != len(r.Machines) || whole || anew {
			l.ID, l.Record = "", r
		} else {
			l.Steps = r.Steps[have.steps:]
		}
		if err := encoder.Encode(l); err != nil {
			return nil, nil, fmt.Errorf("write record %s: %w", r.ID, err)
		}
		written[r.ID] = r.extent()
	}
	return out.Bytes(), written, nil
}

// clean notes that the extents have been written.
func (j *Journal) clean(written map[string]extent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := map[string]extent{}
	for _, r := range j.records {
		now[r.ID] = r.extent()
	}
	for id, e := range written {
		if _, there := now[id]; there {
			j.written[id] = e
		}
	}
	j.dirty = slices.DeleteFunc(j.dirty, func(id string) bool {
		e, there := now[id]
		return !there || j.written[id] == e
	})
}
