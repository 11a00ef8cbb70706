package cli

import (
	"cmp"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionRecord describes this program.
type versionRecord struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes"`
}

func newVersion() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version, the commit that the program was built from, and the versions of Go and of Kubernetes' libraries (client-go).
A program that is not a release has the version "unreleased".`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return writeVersion(command.OutOrStdout(), output, thisVersion())
		},
	}
	addOutputFlag(command.Flags(), &output)
	return command
}

// thisVersion describes this program with what its build records.
func thisVersion() versionRecord {
	record := versionRecord{
		Version: buildVersion(), Commit: cmp.Or(commit(), "unknown"),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kubernetes: "unknown",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		record.Kubernetes = cmp.Or(kubernetesVersion(info), record.Kubernetes)
	}
	return record
}

func writeVersion(out io.Writer, output string, v versionRecord) error {
	if output != outputText {
		return writeAs(out, output, func(out io.Writer) error { return writeRecord(out, "Version", v) })
	}
	t := newTerminal(out)
	t.line("version    %s", v.Version)
	t.line("commit     %s", v.Commit)
	t.line("go         %s %s", v.Go, v.Platform)
	t.line("kubernetes %s (client-go)", v.Kubernetes)
	return nil
}
