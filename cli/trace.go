package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tenon.sh/trace"
)

func newTrace() *cobra.Command {
	command := &cobra.Command{
		Use:   "trace",
		Short: "Make traces of pods from what Prometheus has recorded, for tenon simulate --trace",
		Long: `A trace says when pods came and went, what they asked for and whose they were. tenon simulate --trace replays it: yesterday
under another policy. It is CSV, or lines of JSON, with a pod in each line.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newTraceFromPrometheus(), newTraceCheck())
	return command
}

func newTraceFromPrometheus() *cobra.Command {
	output := "csv"
	command := &cobra.Command{
		Use:   "from-prometheus FILE...",
		Short: "Make a trace of metrics of kube-state-metrics",
		Long: `Reads what Prometheus answers to /api/v1/query_range about kube_pod_info, kube_pod_container_resource_requests and kube_pod_owner,
each in a file of its own or several in one folder's files, also as gzip; and, where they are given, kube_pod_completion_time (when
pods of Jobs were done) and kube_pod_init_container_resource_requests. A pod comes with its first sample and goes a step after its
last one. Writes the trace to standard output, and what was left out to standard error.`,
		Example: `  for m in kube_pod_info kube_pod_container_resource_requests kube_pod_owner kube_pod_completion_time; do
    curl -s "$PROMETHEUS/api/v1/query_range?query=$m&start=2026-03-02T00:00:00Z&end=2026-03-03T00:00:00Z&step=60s" > $m.json
  done
  tenon trace from-prometheus *.json > yesterday.csv`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			return convertTrace(command, files, output)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", output, "csv, or json for lines of JSON")
	return command
}

func newTraceCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a trace, or how many pods it holds",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			t, err := readTrace(files[0], command.InOrStdin(), trace.Read)
			if err != nil {
				return err
			}
			newTerminal(command.ErrOrStderr()).notes(t.Notes)
			newTerminal(command.OutOrStdout()).line("%s of %s, from %s to %s", count(len(t.Pods), "pod"), count(len(t.Kinds), "kind"), t.Begin().Format("2006-01-02T15:04:05Z"), t.End().Format("2006-01-02T15:04:05Z"))
			return nil
		},
	}
}

// convertTrace reads all files before it writes anything.
func convertTrace(command *cobra.Command, files []string, output string) error {
	if output != "csv" && output != "json" {
		return fmt.Errorf("--output %s: it is csv or json", output)
	}
	from := trace.NewPrometheus()
	for _, name := range files {
		_, err := readTrace(name, command.InOrStdin(), func(in io.Reader, file string) (*trace.Trace, error) { return nil, from.Add(in, file) })
		if err != nil {
			return err
		}
	}
	t, err := from.Trace()
	if err != nil {
		return err
	}
	newTerminal(command.ErrOrStderr()).notes(t.Notes)
	write := t.WriteCSV
	if output == "json" {
		write = t.WriteJSON
	}
	if err := write(command.OutOrStdout()); err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return nil
}

// readTrace reads a file, or standard input for the name -.
func readTrace(name string, stdin io.Reader, read func(in io.Reader, file string) (*trace.Trace, error)) (*trace.Trace, error) {
	if name == "-" {
		return read(stdin, "standard input")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, errors.New(name + " is a folder: name files")
	}
	return read(file, name)
}
