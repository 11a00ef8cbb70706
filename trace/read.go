package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// mostLine is how many bytes a line of a trace may have.
const mostLine = 1 << 20

// Read reads a trace: CSV, or lines of JSON if it begins with a brace, plain or in gzip. Messages contain the file's name.
func Read(in io.Reader, file string) (*Trace, error) { return readAtMost(in, file, MostPods) }

func readAtMost(in io.Reader, file string, pods int) (*Trace, error) {
	b := newBuilder(file)
	b.most = pods
	lines, err := b.open(in)
	if err != nil {
		return nil, err
	}
	if !lines.next() {
		if lines.err != nil {
			return nil, lines.err
		}
		return nil, b.errorf(0, "it is empty")
	}
	if strings.HasPrefix(lines.text, "{") {
		err = b.readJSON(lines)
	} else {
		err = b.readCSV(lines)
	}
	if err = errors.Join(err, lines.err); err != nil {
		return nil, err
	}
	return b.finish()
}

// lines reads a file line by line and skips blank lines.
type lines struct {
	b      *builder
	in     *bufio.Reader
	buffer []byte
	text   string
	number int
	// open is true if the line has no end. unended is the number of this line.
	open    bool
	unended int
	err     error
}

func (b *builder) open(in io.Reader) (*lines, error) {
	reader := bufio.NewReaderSize(in, 1<<16)
	if magic, _ := reader.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(reader)
		if err != nil {
			return nil, b.errorf(0, "it begins as gzip does and is none: %v", err)
		}
		reader = bufio.NewReaderSize(unpacked, 1<<16)
	}
	if mark, _ := reader.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) { // the mark at the beginning of UTF-8 from spreadsheets
		_, _ = reader.Discard(3)
	}
	return &lines{b: b, in: reader}, nil
}

// next goes to the next line that is not blank. It returns false at the end or after an error.
func (l *lines) next() bool {
	for {
		l.buffer = l.buffer[:0]
		l.number++
		for {
			part, err := l.in.ReadSlice('\n')
			l.buffer = append(l.buffer, part...)
			if len(l.buffer) > mostLine {
				l.err = l.b.errorf(l.number, "the line is longer than %d bytes", mostLine)
				return false
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				l.err = l.b.errorf(l.number, "the file cannot be read on: %v", err)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					l.err = l.b.errorf(l.number, "the file is cut off here: the rest of the gzip data is missing")
				}
				return false
			}
			l.open = err != nil
			break
		}
		text := bytes.TrimSpace(l.buffer)
		if len(text) > 0 {
			l.text = string(text)
			if l.open {
				l.unended = l.number
			}
			return true
		}
		if l.open {
			return false
		}
	}
}

// cut explains an unreadable line if it is the last one and has no end.
func (l *lines) cut() string {
	if l.open {
		return "; it is the last one and has no end: the file seems to be cut off"
	}
	return ""
}

// columns are the columns of CSV that are not resources.
var columns = [...]string{"namespace", "pod", "owner", "arrival", "departure", "labels", "selector", "tolerations"}

// readCSV reads the names of columns, and then a pod from each line.
func (b *builder) readCSV(l *lines) error {
	names, err := splitCSV(l.text)
	if err != nil {
		return b.errorf(l.number, "the names of columns: %v", err)
	}
	at := map[string]int{}
	var resources []string
	for i, name := range names {
		name = strings.TrimSpace(name)
		if own := strings.ToLower(name); slices.Contains(columns[:], own) || own == "cpu" || own == "memory" || own == "ephemeral-storage" {
			name = own
		}
		if _, twice := at[name]; twice {
			return b.errorf(l.number, "column %s is there twice", name)
		}
		switch {
		case slices.Contains(columns[:], name):
		case isResource(name):
			resources = append(resources, name)
		default:
			return b.errorf(l.number, "unknown column %q: the columns are %s, cpu, memory, ephemeral-storage and resources such as nvidia.com/gpu", name, strings.Join(columns[:], ", "))
		}
		at[name] = i
	}
	for _, name := range []string{"pod", "arrival", "cpu", "memory"} {
		if _, there := at[name]; !there {
			return b.errorf(l.number, "column %s is missing: the first line names the columns, at least pod, arrival, cpu and memory", name)
		}
	}
	r := row{resources: resources, amounts: make([]string, len(resources))}
	for l.next() {
		cells, err := splitCSV(l.text)
		if err != nil {
			return b.errorf(l.number, "%v%s", err, l.cut())
		}
		if len(cells) != len(names) {
			return b.errorf(l.number, "it has %s, and there are %s%s", plural(len(cells), "value"), plural(len(names), "column"), l.cut())
		}
		of := func(name string) string {
			if i, there := at[name]; there {
				return strings.TrimSpace(cells[i])
			}
			return ""
		}
		r.namespace, r.pod, r.owner, r.arrival, r.departure = of("namespace"), of("pod"), of("owner"), of("arrival"), of("departure")
		r.labels, r.selector, r.tolerations = of("labels"), of("selector"), of("tolerations")
		for i, name := range resources {
			r.amounts[i] = of(name)
		}
		if r.namespace == "" {
			r.namespace = "default"
		}
		if err := b.add(&r, l.number); err != nil {
			return err
		}
	}
	if l.unended > 0 {
		b.note("%s:%d: the last line has no end: if the file was cut off there, its last value is wrong", b.file, l.unended)
	}
	return nil
}

// splitCSV splits one line. A value in quotes cannot continue in the next line.
func splitCSV(text string) ([]string, error) {
	if !strings.Contains(text, `"`) {
		return strings.Split(text, ","), nil
	}
	reader := csv.NewReader(strings.NewReader(text))
	cells, err := reader.Read()
	if err != nil {
		return nil, errors.New("the quotes are not closed, or stand within a value")
	}
	return cells, nil
}

// document is a line of JSON.
type document struct {
	Namespace   string            `json:"namespace,omitempty"`
	Pod         string            `json:"pod"`
	Owner       string            `json:"owner,omitempty"`
	Arrival     cell              `json:"arrival"`
	Departure   cell              `json:"departure,omitempty"`
	Requests    map[string]cell   `json:"requests,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Selector    map[string]string `json:"selector,omitempty"`
	Tolerations []string          `json:"tolerations,omitempty"`
}

// cell is a text, or a number in its written form.
type cell string

func (c *cell) UnmarshalJSON(text []byte) error {
	switch {
	case string(text) == "null":
		return nil
	case text[0] == '"':
		return json.Unmarshal(text, (*string)(c))
	case text[0] != '-' && (text[0] < '0' || text[0] > '9'):
		return fmt.Errorf("%s is neither text nor a number", text)
	}
	*c = cell(text)
	return nil
}

func (b *builder) readJSON(l *lines) error {
	for more := true; more; more = l.next() {
		decoder := json.NewDecoder(strings.NewReader(l.text))
		decoder.DisallowUnknownFields()
		var d document
		if err := decoder.Decode(&d); err != nil {
			return b.errorf(l.number, "this is no pod: %s%s", strings.TrimPrefix(err.Error(), "json: "), l.cut())
		}
		if decoder.More() {
			return b.errorf(l.number, "there is more than one object in the line")
		}
		r := row{
			namespace: d.Namespace, pod: d.Pod, owner: d.Owner, arrival: string(d.Arrival), departure: string(d.Departure),
			labels: pairsText(d.Labels), selector: pairsText(d.Selector), tolerations: strings.Join(d.Tolerations, ";"),
		}
		if r.namespace == "" {
			r.namespace = "default"
		}
		for _, name := range slices.Sorted(maps.Keys(d.Requests)) {
			if !isResource(name) {
				return b.errorf(l.number, "pod %s: %q is no resource such as cpu, memory, ephemeral-storage or nvidia.com/gpu", d.Pod, name)
			}
			r.resources, r.amounts = append(r.resources, name), append(r.amounts, string(d.Requests[name]))
		}
		if err := b.add(&r, l.number); err != nil {
			return err
		}
	}
	return nil
}
