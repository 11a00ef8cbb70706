// Package cli holds the subcommands of tenon, one file each, with all flags. A command reads its input, calls the package that does the work, and
// prints the result. Package engine makes the decisions.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit statuses of all commands.
const (
	statusOK          = 0
	statusFailed      = 1   // with one line that names the failure
	statusUnplaced    = 2   // of plan: some pods cannot be placed
	statusUnexamined  = 2   // of doctor: the cluster cannot be examined
	statusToFillIn    = 3   // of convert: the output has placeholders
	statusInterrupted = 130 // by Ctrl-C
	statusTerminated  = 143 // by SIGTERM
)

// errUnplaced ends plan after it has named the pods that cannot be placed.
var errUnplaced = errors.New("some pods cannot be placed")

// errToBeFilledIn ends convert after it has named the placeholders.
var errToBeFilledIn = errors.New("something is to be filled in")

// New returns the command tenon with all its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenon",
		Short: "Start the machines that pending pods need, and remove those that are not worth their price",
		Long: `Tenon watches pods that kube-scheduler cannot place, starts the machines that fit them best, and removes or replaces
machines that are no longer worth their price. It speaks Karpenter's API.`,
		Version:           buildVersion(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, command.CommandPath())
	})
	addCommands(root)
	root.SetUsageFunc(writeUsage)
	return root
}

// cleansUp is the annotation of the commands that must clean up before they end.
const cleansUp = "cleans-up"

// leaveAfter is the time for which other commands may run on after a signal. A computation, or a read from the input, is then abandoned.
const leaveAfter = 300 * time.Millisecond

// Main runs the command with the arguments of the process and returns its exit status. The first signal cancels the command's context, a
// second one ends the process.
func Main() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	root := New()
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	select {
	case err := <-ended:
		return exitStatus(err, os.Stderr)
	case got := <-signals:
		signal.Stop(signals)
		stop()
		return endOf(root, ended, got)
	}
}

// endOf waits for the end of a command after a signal.
func endOf(root *cobra.Command, ended <-chan error, got os.Signal) int {
	if command, _, err := root.Find(os.Args[1:]); err == nil && command.Annotations[cleansUp] != "" {
		return exitStatus(<-ended, os.Stderr)
	}
	select {
	case err := <-ended:
		if err == nil {
			return statusOK // a signal is the normal end of this command
		}
	case <-time.After(leaveAfter):
	}
	if got == syscall.SIGTERM {
		return statusTerminated
	}
	return statusInterrupted
}

// exitStatus prints the error on out, in one line, and returns the status for it.
func exitStatus(err error, out io.Writer) int {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, errUnplaced):
		return statusUnplaced
	case errors.Is(err, errToBeFilledIn):
		return statusToFillIn
	case errors.Is(err, errProblems):
		return statusFailed
	case errors.Is(err, errInterrupted):
		return statusInterrupted
	}
	newTerminal(out).line("tenon: %s", oneLine(err))
	if unexamined := (*unexaminedError)(nil); errors.As(err, &unexamined) {
		return statusUnexamined
	}
	return statusFailed
}
