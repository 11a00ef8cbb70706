package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenon.sh/dashboard"
	"tenon.sh/scenario"
	"tenon.sh/simulator"
	"tenon.sh/trace"
)

// Why a page compares nothing over a day.
const (
	noTrace = "Give this page a recorded day, and a change can be compared with the cluster as it is: tenon dashboard --trace yesterday.csv. " +
		"tenon trace from-prometheus makes such a file of the metrics of kube-state-metrics, tenon trace from-audit of an API server's audit log. " +
		"The journal makes none: it does not hold what pods ask for, nor when they go."
	noChild = "The controller compares nothing over a day, since that takes as much time and memory as the controller has for itself. " +
		"tenon dashboard --trace yesterday.csv does so on your own machine."
)

// recordedDay is a trace that the page compares changes over. Each comparison is a process of its own with a limit of memory, so that
// whatever comes of it the page goes on.
type recordedDay struct {
	file, memory, profile string
	running               sync.WaitGroup // comparisons
	mu                    sync.Mutex     // guards last
	last                  dayFile
}

// dayFile is what a trace held when it was read.
type dayFile struct {
	info os.FileInfo
	name string
	days float64
}

// readDay reads the trace a first time, to say early what is wrong with it.
func readDay(file, memory, profile string) (*recordedDay, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("--trace %s: name a file: each comparison reads it anew, and this can be read once only", file)
	}
	d := &recordedDay{file: file, memory: memory, profile: profile}
	_, err := d.read()
	return d, err
}

// read reads the trace unless it is as it was read last.
func (d *recordedDay) read() (dayFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(d.file)
	if err == nil && sameFile(info, d.last.info) {
		return d.last, nil
	}
	t, err := readTrace(d.file, nil, trace.Read)
	if err != nil {
		return dayFile{}, fmt.Errorf("--trace: %w", err)
	}
	length := lengthOf(t)
	if length.Hours() > mostDays*24 {
		return dayFile{}, fmt.Errorf("--trace %s: it goes on for %.0f days, and %d can be simulated", d.file, length.Hours()/24, mostDays)
	}
	const form = "2006-01-02 15:04:05 UTC"
	d.last = dayFile{info: info, days: length.Hours() / 24,
		name: fmt.Sprintf("%s: %s from %s to %s", filepath.Base(d.file), count(len(t.Pods), "pod"), t.Begin().Format(form), t.End().Format(form))}
	return d.last, nil
}

// sameFile reports whether a file is the one that it was, and has been left alone; of a file that was not there it is not.
func sameFile(now, then os.FileInfo) bool {
	return now != nil && then != nil && os.SameFile(now, then) && now.ModTime().Equal(then.ModTime()) && now.Size() == then.Size()
}

// pageCluster is the cluster of a page, for tenon simulate.
type pageCluster struct {
	reading *scenario.Reading
	// scenario is the file that says as well how its cloud behaves, info what that was; empty for objects.
	scenario string
	info     os.FileInfo
	flags    []string // of the page, which a scenario is read with
	// Commands are what people type to have the cluster in files, Simulate the command that reads them.
	commands []string
	simulate string
}

// clusterOf says how tenon simulate reads the cluster of the page, which was started with these flags. An absolute path is not for those
// who look at the page: a file's name stands for it.
func (o *dashboardOptions) clusterOf(flags *pflag.FlagSet) pageCluster {
	var c pageCluster
	files := slices.Clone(o.files)
	if len(files) == 0 {
		c.commands = []string{"tenon snapshot" + shellWords(sharedFlags(flags, newSnapshot())) + " -o cluster.yaml"}
		files = []string{"cluster.yaml"}
	}
	c.simulate, c.flags = "tenon simulate", sharedFlags(flags, newSimulate())
	for _, name := range files {
		if name == "-" {
			name = "stdin.yaml"
			c.commands = append(c.commands, "# "+name+" stands for what this page was given on standard input.")
		}
		c.simulate += shellWords([]string{"-f", name})
	}
	c.simulate += shellWords(c.flags)
	if isScenario(o.files) {
		c.scenario = o.files[0]
		c.info, _ = os.Stat(c.scenario) // whoever reads it says what is wrong
	}
	return c
}

// sharedFlags are those that were given and that a command has too, but for files.
func sharedFlags(flags *pflag.FlagSet, with *cobra.Command) []string {
	var out []string
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "filename" && f.Name != "trace" && with.Flags().Lookup(f.Name) != nil {
			out = append(out, "--"+f.Name+"="+f.Value.String())
		}
	})
	return out
}

// shellWords writes words as a shell reads them, each after a blank, and of absolute paths their files' names.
func shellWords(words []string) string {
	var b strings.Builder
	for _, word := range words {
		name, value, assigns := strings.Cut(word, "=")
		switch {
		case filepath.IsAbs(word):
			word = filepath.Base(word)
		case assigns && filepath.IsAbs(value):
			word = name + "=" + filepath.Base(value)
		}
		if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+") != "" {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		b.WriteString(" " + word)
	}
	return b.String()
}

// hereDocument has a shell write a file.
func hereDocument(name, text string) string {
	end := "END"
	for strings.Contains(text, end) {
		end += "_"
	}
	return fmt.Sprintf("cat > %s <<'%s'\n%s\n%[2]s", name, end, strings.TrimSuffix(text, "\n"))
}

// of is the day for the cluster that was read.
func (d *recordedDay) of(c pageCluster) *dashboard.Day {
	w := &whatIf{snapshot: c.reading.Snapshot, options: c.reading.Options, ignored: c.reading.Ignored}
	return &dashboard.Day{
		Name: func() string {
			day, err := d.read()
			if err != nil {
				return d.hiding(c).Replace(oneLine(err))
			}
			return day.name
		},
		Check: func(text []byte, _ func() bool) (*dashboard.Outcome, error) {
			out, _ := w.read(text)
			for _, o := range out.Objects {
				if o.Kind == "Deployment" {
					out.Mistakes = append(out.Mistakes, dashboard.Mistake{Field: "kind", Text: fmt.Sprintf("Deployment %s/%s would change nothing: the pods are those of the recorded day", o.Namespace, o.Name)})
				}
			}
			return out, nil
		},
		Compare: func(ctx context.Context, text []byte, hours func(done, all int)) (*dashboard.Comparison, error) {
			d.running.Add(1)
			defer d.running.Done()
			day, err := d.read()
			if err != nil {
				return nil, errors.New(d.hiding(c).Replace(oneLine(err)))
			}
			document, notes, err := d.simulate(ctx, day, c, text, hours)
			if err != nil {
				return nil, err
			}
			return d.comparison(document, notes, day, c, string(text))
		},
	}
}

// hiding keeps to itself where files are: that is not for the page.
func (d *recordedDay) hiding(c pageCluster) *strings.Replacer {
	words := []string{d.file, filepath.Base(d.file)}
	if c.scenario != "" {
		words = append(words, c.scenario, filepath.Base(c.scenario))
	}
	return strings.NewReplacer(words...)
}

// simulate runs tenon simulate, with the cluster and the change in pipes: there may be no place for files. It ends with ctx, and at the
// latest when this process has gone, as it has nobody to say its next hour to.
func (d *recordedDay) simulate(ctx context.Context, day dayFile, c pageCluster, text []byte, hours func(done, all int)) (document []byte, notes []string, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program to start it again: %w", err)
	}
	var cluster, out bytes.Buffer
	args := []string{"simulate", "--empty", "--trace", d.file, "--change", "/dev/fd/3", "--memory-limit", d.memory, "--progress", "-o", "json"}
	if c.scenario != "" {
		if info, _ := os.Stat(c.scenario); !sameFile(info, c.info) {
			return nil, nil, fmt.Errorf("the scenario %s has changed since this page read it: start tenon dashboard again", filepath.Base(c.scenario))
		}
		args = append(append(args, "-f", c.scenario), c.flags...)
	} else {
		args = append(args, "-f", "-", "--profile", d.profile)
		if err := scenario.Write(&cluster, emptied(c.reading.Snapshot), c.reading.Options); err != nil {
			return nil, nil, err
		}
	}
	change, into, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("start tenon simulate: %w", err)
	}
	defer change.Close()
	ofAnother := false
	said := &simulationSays{hiding: d.hiding(c), hours: func(done, all int) { // the trace has been read
		if info, _ := os.Stat(d.file); done == 1 && !sameFile(info, day.info) {
			ofAnother = true
		}
		hours(done, all)
	}}
	command := exec.CommandContext(ctx, program, args...)
	command.Args[0] = "tenon"
	command.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.GOMAXPROCS(0)-1))) // one core is the page's
	command.Stdin, command.Stdout, command.Stderr, command.ExtraFiles = &cluster, &out, said, []*os.File{change}
	var writing sync.WaitGroup
	writing.Go(func() {
		defer into.Close()
		_, _ = into.Write(text) // whoever does not read it to its end says so itself
	})
	err = command.Run()
	change.Close() // nobody else reads it, so that nothing is written any more
	writing.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return nil, nil, said.problem(err, d.memory)
	case ofAnother:
		return nil, nil, fmt.Errorf("the trace %s was replaced as the comparison began: compare once more", filepath.Base(d.file))
	}
	return out.Bytes(), said.notes, nil
}

// comparison is what the page shows of a document of tenon simulate --change.
func (d *recordedDay) comparison(document []byte, notes []string, day dayFile, c pageCluster, text string) (*dashboard.Comparison, error) {
	var read struct{ Results []*simulator.Result }
	if err := json.Unmarshal(document, &read); err != nil {
		return nil, fmt.Errorf("read what tenon simulate has found: %w", err)
	}
	if len(read.Results) != 2 {
		return nil, fmt.Errorf("tenon simulate has found %d results, not 2", len(read.Results))
	}
	before, after := read.Results[0], read.Results[1]
	difference := "the same"
	switch less := fmt.Sprintf("%.2f", math.Abs(before.Cost-after.Cost)); {
	case less == "0.00":
	case after.Cost < before.Cost:
		difference = "$" + less + " less"
	default:
		difference = "$" + less + " more"
	}
	// Pods that wait cost nothing, and are in no wait that has an end.
	waiting := fmt.Sprintf("Pods that wait cost nothing: %.1f of them wait on average unchanged, and %.1f changed; at the end %d, and %d.",
		meanWaiting(before), meanWaiting(after), before.AtEnd.Waiting, after.AtEnd.Waiting)
	out := &dashboard.Comparison{
		Document: document, Picture: []byte(drawSimulation(read.Results, day.days)), Notes: notes, Day: day.name,
		Headline: fmt.Sprintf("Over %s these pods cost $%.2f with the cluster unchanged, and $%.2f changed: %s.", dayWords(day.days), before.Cost, after.Cost, difference),
		Parts:    []dashboard.Part{{Rows: comparisonRows(read.Results), Lines: []string{waiting}}},
		Commands: strings.Join(append(c.commands, hereDocument("changed.yaml", text), c.simulate+" --empty --change changed.yaml --trace"+shellWords([]string{d.file})), "\n"),
	}
	if before.Bound > 0 {
		out.Parts[0].Lines = append(out.Parts[0].Lines, fmt.Sprintf("The bound, below which no plan for them can cost, is $%.2f unchanged and $%.2f changed.", before.Bound, after.Bound))
		out.Parts = append(out.Parts, dashboard.Part{Title: causesTitle, Rows: causeRows(read.Results)})
	}
	return out, nil
}

// meanWaiting is how many pods wait on average.
func meanWaiting(r *simulator.Result) float64 {
	sum := 0.0
	for i := range r.Hours {
		sum += r.Hours[i].Waiting
	}
	return sum / float64(max(1, len(r.Hours)))
}

// simulationSays reads what tenon simulate says on standard error.
type simulationSays struct {
	hours  func(done, all int)
	hiding *strings.Replacer // what is not for the page
	notes  []string
	others []string // the first of them
	begun  []byte   // a line that is not whole
}

const (
	mostSaid     = 64 << 10 // bytes of a line
	mostSaidElse = 20       // lines
)

func (s *simulationSays) Write(p []byte) (int, error) {
	s.begun = append(s.begun, p...)
	for {
		line, rest, whole := bytes.Cut(s.begun, []byte("\n"))
		if !whole && len(s.begun) < mostSaid {
			return len(p), nil
		}
		s.begun = rest
		s.line(string(line))
	}
}

func (s *simulationSays) line(line string) {
	var done, all int
	line = s.hiding.Replace(line)
	note, isNote := strings.CutPrefix(line, "note: ")
	n, _ := fmt.Sscanf(line, progressForm, &done, &all)
	switch {
	case n == 2:
		s.hours(done, all)
	case isNote:
		s.notes = append(s.notes, note)
	case len(s.others) < mostSaidElse:
		s.others = append(s.others, line)
	}
}

// outOfMemory is how a program ends that gets no memory: it says so, or it gets no thread, or the runtime itself fails (that is goroutine 0),
// as its collector of garbage does not look at whether it got any.
var outOfMemory = []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "pthread_create failed", "goroutine 0 "}

// problem is why there is no document, for people.
func (s *simulationSays) problem(err error, memory string) error {
	for _, line := range s.others {
		if slices.ContainsFunc(outOfMemory, func(said string) bool { return strings.Contains(line, said) }) {
			return fmt.Errorf("it took more than %s of memory, and was ended: tenon dashboard --compare-memory gives it more, a shorter trace needs less", memory)
		}
		if said, found := strings.CutPrefix(line, "tenon: "); found {
			return errors.New(said)
		}
	}
	log.Printf("tenon simulate has ended without a result: %v\n%s", err, strings.Join(s.others, "\n"))
	return errors.New("tenon simulate has ended without a result, and the log of this page's server says why")
}
