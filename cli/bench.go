package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenon.sh/engine"
)

func newBench() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how cheap and how fast plans are, on clusters drawn from a seed",
		Long: `Draws clusters from a seed, plans them, and prints figures. It needs no cluster and changes nothing. The same seed gives
the same plans everywhere; only the times differ.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newBenchCost(), newBenchSolve(), newBenchConsolidate(), newBenchSmall())
	return command
}

// benchOptions are the flags of all benchmarks.
type benchOptions struct {
	seed            uint64
	workloads       []string
	effort, threads int
	output          string
}

func (o *benchOptions) addFlags(flags *pflag.FlagSet, workloads string) {
	flags.Uint64Var(&o.seed, "seed", 1, "what the pods are drawn from; any number")
	flags.StringSliceVar(&o.workloads, "workload", nil, workloads)
	flags.IntVar(&o.effort, "effort", 0, "units of work to spend on each plan; 0 for the default, below 0 for none")
	flags.IntVar(&o.threads, "threads", 0, "how many goroutines may work at a time; 0 for one")
	addOutputFlag(flags, &o.output)
}

// measuring is the progress text of a benchmark.
const measuring = "measuring %s, workload %d of %d"

func (o *benchOptions) check() error {
	if err := sensible("threads", o.threads, 0); err != nil {
		return err
	}
	return checkOutput(o.output)
}

func (o *benchOptions) engineOptions() engine.Options {
	return engine.Options{Effort: o.effort, Threads: o.threads}
}

// oneOf returns an error if a flag's value is not one of the allowed ones.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	list := strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	return fmt.Errorf("--%s %s: it is %s", flag, value, list)
}

// mostBenchPods is a limit, so that a typing error does not fill the memory.
const mostBenchPods = 1_000_000

// sensible checks a number of a flag.
func sensible(flag string, n, least int) error {
	if n < least || n > mostBenchPods {
		return fmt.Errorf("--%s %d: it is a number from %d to %d", flag, n, least, mostBenchPods)
	}
	return nil
}

// A measurement is one line of a benchmark's table, and one object in its JSON.
type measurement interface {
	cells() []string
}

// writeBenchTable aligns the measurements under headings. It leaves out the columns named in optional that are empty.
func writeBenchTable[M measurement](t *terminal, headings []string, optional []string, measurements []M) {
	rows := [][]string{headings}
	for _, m := range measurements {
		rows = append(rows, m.cells())
	}
	for column := len(headings) - 1; column >= 0; column-- {
		empty := !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[column] != "" })
		if !empty || !slices.Contains(optional, headings[column]) {
			continue
		}
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), column, column+1)
		}
	}
	t.lines(table(t, "", rows))
}

// benchDocument is a benchmark's result for programs.
type benchDocument[M measurement] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Seed       uint64 `json:"seed"`
	Results    []M    `json:"results"`
}

func writeBenchJSON[M measurement](out io.Writer, kind string, seed uint64, results []M) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(benchDocument[M]{engine.CatalogAPIVersion, kind, seed, results}); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
