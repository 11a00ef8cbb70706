package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// version is the version of a file's lines. A reader skips lines of a newer version.
	version = 1
	// longestLine is the length of a record with 20,000 machines. Longer lines are skipped.
	longestLine = 16 << 20
	// WholeLines begins a note about skipped lines, unless the line is an incomplete last line.
	WholeLines = "lines that"
)

// A line is one line of a file: a whole record, which replaces earlier lines of this record, or further steps of a record.
type line struct {
	Version int     `json:"version"`
	Record  *Record `json:"record,omitempty"`
	ID      string  `json:"id,omitempty"`
	Steps   []Step  `json:"steps,omitempty"`
}

// A reading is the content of files. Records are in the order of their first line.
type reading struct {
	records []*Record
	index   map[string]int
	notes   []string
}

// Read reads files of a journal, the oldest first. It skips unreadable lines and counts them in the notes.
func Read(files ...io.Reader) (records []Record, notes []string, err error) {
	r := &reading{index: map[string]int{}}
	for _, f := range files {
		if err := r.read(f); err != nil {
			return nil, nil, err
		}
	}
	for _, x := range r.records {
		records = append(records, *x)
	}
	return records, r.notes, nil
}

// trouble counts lines that were skipped for one cause.
type trouble struct{ count, first int }

func (t *trouble) add(number int) {
	if t.count++; t.first == 0 {
		t.first = number
	}
}

func (r *reading) read(from io.Reader) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var newer, garbage, huge trouble
	for number := 1; ; number++ {
		text, long, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the journal: %w", err)
		}
		var l line
		switch {
		case long:
			huge.add(number)
		case len(text) == 0:
		case json.Unmarshal(text, &l) != nil || l.Version < 1 || l.Version == version && !r.add(&l):
			if err != nil { // no end of line
				r.notes = append(r.notes, fmt.Sprintf("line %d, the last, is half-written and was skipped: whoever wrote it was ended", number))
			} else {
				garbage.add(number)
			}
		case l.Version > version:
			newer.add(number)
		}
		if err != nil {
			break
		}
	}
	for _, x := range []struct {
		trouble
		says string
	}{
		{newer, "are of a newer version of Tenon, which has to be used to read them"}, {garbage, "are not lines of a journal"},
		{huge, fmt.Sprintf("are longer than %d MiB", longestLine>>20)},
	} {
		if x.count > 0 {
			r.notes = append(r.notes, fmt.Sprintf(WholeLines+" %s were skipped: %d, the first is line %d", x.says, x.count, x.first))
		}
	}
	return nil
}

// readLine returns a line without its end. If the line is too long, it returns no text.
func readLine(in *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !long {
			text = append(text, part...)
		}
		if long = long || len(text) > longestLine; long {
			text = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil && !long {
			text = text[:len(text)-1]
		}
		return text, long, err
	}
}

// add adds a line. It returns false if the line is invalid. It ignores steps of a record whose own line is missing.
func (r *reading) add(l *line) bool {
	switch {
	case l.Record != nil:
		if l.Record.ID == "" || l.Record.Time.IsZero() || l.Record.Kind == "" {
			return false
		}
		if at, known := r.index[l.Record.ID]; known {
			r.records[at] = l.Record
			return true
		}
		r.index[l.Record.ID] = len(r.records)
		r.records = append(r.records, l.Record)
		return true
	case l.ID == "":
		return false
	}
	if at, known := r.index[l.ID]; known {
		for _, s := range l.Steps {
			r.records[at].apply(s)
		}
	}
	return true
}
