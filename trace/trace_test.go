package trace_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"tenon.sh/trace"
)

const header = "namespace,pod,owner,arrival,departure,cpu,memory\n"

func csvOf(t *testing.T, x *trace.Trace) string {
	t.Helper()
	var out strings.Builder
	if err := x.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func read(t *testing.T, text string) *trace.Trace {
	t.Helper()
	x, err := trace.Read(strings.NewReader(text), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const full = `namespace,pod,owner,arrival,departure,cpu,memory,nvidia.com/gpu,labels,selector,tolerations
shop,web-1,ReplicaSet/web,2026-03-02T00:00:00Z,,500m,1Gi,,app=web;tier=front,,
shop,train,Job/train,2026-03-02T00:05:00.5Z,2026-03-02T01:00:00Z,4,16Gi,1,,gpu=yes,nvidia.com/gpu:NoSchedule;spot=true:NoExecute;*
`

func TestCSVAndJSONSayTheSame(t *testing.T) {
	t.Parallel()
	x := read(t, full)
	if got := csvOf(t, x); got != full {
		t.Errorf("written:\n%s\nread:\n%s", got, full)
	}
	var lines strings.Builder
	if err := x.WriteJSON(&lines); err != nil {
		t.Fatal(err)
	}
	if got := csvOf(t, read(t, lines.String())); got != full {
		t.Errorf("by way of JSON:\n%s\n%s", lines.String(), got)
	}
	if got := csvOf(t, read(t, zip(t, full))); got != full {
		t.Errorf("by way of gzip: %s", got)
	}
	spreadsheet := "\xef\xbb\xbf" + strings.ReplaceAll(full, "\n", "\r\n")
	if got := csvOf(t, read(t, spreadsheet)); got != full {
		t.Errorf("as spreadsheets write it: %s", got)
	}
}

func TestColumnsMayBeInAnyOrderAndTimesSeconds(t *testing.T) {
	t.Parallel()
	x := read(t, "Memory, cpu,arrival,pod\n1Gi,1,1772409600,a\n\n,,1772409601.5,b\n")
	want := "namespace,pod,owner,arrival,departure,cpu,memory\ndefault,a,,2026-03-02T00:00:00Z,,1,1Gi\ndefault,b,,2026-03-02T00:00:01.5Z,,,\n"
	if got := csvOf(t, x); got != want {
		t.Errorf("got\n%s", got)
	}
}

// Errors name file and line, and nothing of the file is replayed.
func TestBadInputIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	at := "2026-03-02T00:00:00Z"
	pod := func(cells string) string { return header + cells + "\n" }
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "t.csv: it is empty"},
		{"blank", "\n \n", "t.csv: it is empty"},
		{"no pods", header, "t.csv: it holds no pods"},
		{"unknown column", "pod,arrival,cpu,memory,colour\n", `t.csv:1: unknown column "colour"`},
		{"missing column", "pod,arrival,cpu\na," + at + ",1\n", "t.csv:1: column memory is missing"},
		{"column twice", "pod,arrival,cpu,memory,cpu\n", "t.csv:1: column cpu is there twice"},
		{"negative", pod("x,a,," + at + ",,-1,1Gi"), "t.csv:2: pod a: cpu -1 is negative"},
		{"absurd cores", pod("x,a,," + at + ",,20000,1Gi"), "t.csv:2: pod a: cpu 20000 is more than a pod can ask for: 10k"},
		{"absurd memory", pod("x,a,," + at + ",,1,9Ei"), "memory 9Ei is more than a pod can ask for"},
		{"thousandths of bytes", pod("x,a,," + at + ",,1,500m"), "memory 500m is no whole number"},
		{"no amount", pod("x,a,," + at + ",,one,1Gi"), `cpu "one" is no amount`},
		{"beyond counting", pod("x,a,," + at + ",,1e999999999,1Gi"), `cpu "1e999999999" is no amount`},
		{"departure first", pod("x,a,," + at + ",2026-03-01T00:00:00Z,1,1Gi"), "t.csv:2: pod a departs at 2026-03-01T00:00:00Z, which is not after its arrival"},
		{"no arrival", pod("x,a,,,,1,1Gi"), "arrival of pod a: it is empty"},
		{"no time", pod("x,a,,yesterday,,1,1Gi"), `arrival of pod a: "yesterday" is no time`},
		{"milliseconds", pod("x,a,,1772409600000,,1,1Gi"), "are these milliseconds?"},
		{"not a number", pod("x,a,,NaN,,1,1Gi"), `"NaN" is no time`},
		{"no name", pod("x,,," + at + ",,1,1Gi"), "t.csv:2: pod: it has no name"},
		{"odd name", pod("x,a b,," + at + ",,1,1Gi"), `the name "a b" has characters that no name has`},
		{"odd owner", pod("x,a,web," + at + ",,1,1Gi"), `owner of pod a: "web" has not the form Kind/name`},
		{"too few values", pod("x,a,," + at + ",,1"), "t.csv:2: it has 6 values, and there are 7 columns"},
		{"cut off", header + "x,a,," + at + ",,1,1Gi\nx,b,," + at + ",", "t.csv:3: it has 5 values, and there are 7 columns; it is the last one and has no end: the file seems to be cut off"},
		{"open quotes", pod(`x,"a,,` + at + ",,1,1Gi"), "t.csv:2: the quotes are not closed"},
		{"long line", header + strings.Repeat("x", 2<<20) + "\n", "t.csv:2: the line is longer than 1048576 bytes"},
		{"two of a name", header + "x,a,," + at + ",,1,1Gi\nx,b,," + at + ",,1,1Gi\nx,a,,2026-03-02T01:00:00Z,,1,1Gi\n", "t.csv:4: pod x/a is there already, from line 2"},
		{"no JSON", "{\"pod\":\"a\",\n", "t.csv:1: this is no pod: unexpected EOF"},
		{"half a line of JSON", `{"pod":"a","arrival":"` + at + `"}` + "\n" + `{"pod":"b","arr`, "t.csv:2: this is no pod: unexpected EOF; it is the last one and has no end"},
		{"unknown member", `{"pod":"a","when":1}`, `t.csv:1: this is no pod: unknown field "when"`},
		{"unknown resource", `{"pod":"a","arrival":1,"requests":{"cpus":1}}`, `"cpus" is no resource`},
		{"two objects", `{"pod":"a","arrival":1} {}`, "t.csv:1: there is more than one object in the line"},
		{"a list of cells", `{"pod":"a","arrival":[1]}`, "[1] is neither text nor a number"},
		{"selector", "pod,arrival,cpu,memory,selector\na," + at + ",1,1Gi,zone\n", `selector: "zone" has not the form key=value`},
		{"toleration", "pod,arrival,cpu,memory,tolerations\na," + at + ",1,1Gi,a:Never\n", `"Never" is no effect`},
		{"gzip cut off", zip(t, full)[:90], "the file is cut off here: the rest of the gzip data is missing"},
		{"no gzip", "\x1f\x8bx", "it begins as gzip does and is none"},
	} {
		x, err := trace.Read(strings.NewReader(c.text), "t.csv")
		if err == nil || !strings.Contains(err.Error(), c.want) || x != nil {
			t.Errorf("%s: %v, which does not say %q", c.name, err, c.want)
		}
	}
}

// A line may be longer than the read buffer, up to 1 MiB. The pods around it are read normally.
func TestLongLinesAreReadWhole(t *testing.T) {
	t.Parallel()
	const pod = "x,%s,,2026-03-02T00:00:00Z,,1,1Gi,%s\n"
	for _, length := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10, 1<<20 - 1} {
		line := fmt.Sprintf(pod, "long", "")
		var labels strings.Builder
		for i := 0; len(line)+labels.Len() < length-40; i++ {
			fmt.Fprintf(&labels, "label-%07d=some-value;", i)
		}
		text := labels.String() + "z=" + strings.Repeat("v", max(1, length-len(line)-labels.Len()-2))
		whole := strings.TrimSuffix(header, "\n") + ",labels\n" + fmt.Sprintf(pod, "a", "") + fmt.Sprintf(pod, "long", text) + fmt.Sprintf(pod, "z", "k=v")
		for _, written := range []string{whole, zip(t, whole)} {
			x := read(t, written)
			if got := csvOf(t, x); got != whole || len(x.Notes) > 0 {
				t.Errorf("a line of %d bytes: %d bytes are read as %d, notes %q", length, len(whole), len(got), x.Notes)
			}
		}
	}
}

func TestWhatMayBeRightIsNoted(t *testing.T) {
	t.Parallel()
	x := read(t, header+"x,b,,2026-03-02T01:00:00Z,,1,1Gi\nx,a,,2026-03-02T00:00:00Z,2026-03-02T01:00:00Z,1,1Gi\n"+
		"x,d,DaemonSet/agent,2026-03-02T00:00:00Z,,1,1Gi\nx,a,,2026-03-02T01:00:00Z,,1,1Gi")
	notes := strings.Join(x.Notes, "\n")
	for _, want := range []string{
		"t.csv:3: this pod arrives before the one in line 2: all are put in order",
		"t.csv: 1 pod of DaemonSets or of the nodes themselves left out",
		"t.csv:5: the last line has no end",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not said:\n%s", want, notes)
		}
	}
	if x.Pods[0].Name != "a" || len(x.Pods) != 3 {
		t.Errorf("the pods are %v", x.Pods)
	}
}

// endless generates a trace of n pods while it is read.
type endless struct {
	n, made int
	rest    []byte
}

func (e *endless) Read(into []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.made > e.n {
			return 0, io.EOF
		}
		if e.made == 0 {
			e.rest = []byte(header)
		} else {
			at := time.Unix(int64(1772409600+e.made/10), 0).UTC().Format(time.RFC3339)
			e.rest = fmt.Appendf(nil, "ns-%d,job-%d-abcde,Job/job-%d,%s,,%dm,1Gi\n", e.made%10, e.made, e.made, at, 100*(e.made%7+1))
		}
		e.made++
	}
	n := copy(into, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A trace is read line by line, and needs memory only for its pods. Beyond the limit it is refused.
func TestAMillionPodsAreReadInBoundedMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := trace.Read(&endless{n: 1_000_000}, "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (after.HeapAlloc - before.HeapAlloc) / 1_000_000; len(x.Pods) != 1_000_000 || each > 250 {
		t.Errorf("%d pods take %d bytes each", len(x.Pods), each)
	}
	if _, err := trace.ReadAtMost(&endless{n: 20_001}, "t.csv", 20_000); err == nil || err.Error() != "t.csv:20002: this is pod 20001, and a trace may hold 20000: cut it into shorter times" {
		t.Errorf("beyond the limit: %v", err)
	}
}

// No input causes a panic, and a written trace is read as the same trace.
func FuzzRead(f *testing.F) {
	f.Add(full)
	f.Add(`{"pod":"a","arrival":1,"requests":{"cpu":"1"},"tolerations":["*"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := trace.Read(strings.NewReader(text), "t.csv")
		if err != nil {
			return
		}
		first := csvOf(t, x)
		again, err := trace.Read(strings.NewReader(first), "again")
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := csvOf(t, again); second != first {
			t.Errorf("another time it is\n%s\nand not\n%s", second, first)
		}
	})
}
