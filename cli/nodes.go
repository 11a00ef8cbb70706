package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
)

// nodesOptions are the flags of nodes.
type nodesOptions struct {
	planOptions
	sort  string
	watch bool
	every time.Duration
}

func newNodes() *cobra.Command {
	o := nodesOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	command := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes as bars of what is requested, with pods, price, age, and why each stays",
		Long: `Lists the nodes of a live cluster, or of a file with -f (what tenon plan -f takes, or a scenario, *.txt): how much of each
is requested, how many pods it runs, what it costs, how old it is, its pool, and why it is not removed. Machines that
have no node yet are listed too. Nothing is changed.

With --watch the list is kept up to date until Ctrl-C: in a terminal in place, elsewhere by printing it again whenever
something other than ages has changed.`,
		Example: `  tenon nodes --watch
  tenon nodes --sort price
  tenon nodes -f snapshot.yaml -o json`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addChangeFlag(flags)
	flags.StringVar(&o.instanceTypes, "instance-types", "", "file of instance types to take prices from, as JSON")
	flags.StringVar(&o.sort, "sort", "pool", "what comes first: pool, name, price (dearest), cpu or memory (emptiest), age (oldest)")
	flags.BoolVarP(&o.watch, "watch", "w", false, "keep the list up to date until Ctrl-C")
	flags.DurationVar(&o.every, "every", 3*time.Second, "how often --watch looks")
	addOutputFlag(flags, &o.output)
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	return command
}

func (o *nodesOptions) run(command *cobra.Command) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	switch {
	case o.watch && o.output != "text":
		return fmt.Errorf("--watch shows text: leave out --output %s", o.output)
	case o.watch && (o.change == "-" || slices.Contains(o.files, "-")):
		return fmt.Errorf("--watch: standard input can be read only once; name a file")
	case o.every < 100*time.Millisecond:
		return fmt.Errorf("--every %s: it is at least 100ms", o.every)
	case !slices.Contains(nodeOrders(), o.sort):
		return fmt.Errorf("--sort %s: it is %s", o.sort, strings.Join(nodeOrders(), ", "))
	}
	if err := o.engineFlags.check(); err != nil {
		return err
	}
	out, ctx := command.OutOrStdout(), command.Context()
	look := func(ctx context.Context, notes *terminal) (*nodeTable, error) { return o.look(ctx, command, notes) }
	list, err := look(ctx, newTerminal(command.ErrOrStderr()))
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if o.watch {
		w := nodeWatch{screen: newScreen(out), look: look, wait: func(ctx context.Context) bool { return pauseFor(ctx, o.every) }}
		return w.run(ctx, list)
	}
	if o.output != outputText {
		return writeAs(out, o.output, func(out io.Writer) error { return writeRecord(out, "Nodes", list) })
	}
	screen := newTerminal(out)
	screen.lines(list.lines(screen))
	return nil
}

// look reads the cluster and returns the table of its nodes.
func (o *nodesOptions) look(ctx context.Context, command *cobra.Command, notes *terminal) (*nodeTable, error) {
	reading, err := o.readAny(ctx, command.InOrStdin(), notes)
	if err != nil {
		return nil, err
	}
	notes.notes(reading.Notes)
	if reading.Made != nil { // without a class, these instance types have the prices
		reading.Snapshot.Classes = append(reading.Snapshot.Classes, engine.Class{InstanceTypes: reading.Made.InstanceTypes})
	}
	o.override(command.Flags(), &reading.Options, &reading.Snapshot)
	reading.Options.Threads = runtime.GOMAXPROCS(0)
	list := newNodeTable(reading.Snapshot, disruption.Plan(reading.Snapshot, reading.Options, nil))
	list.order(o.sort)
	return list, nil
}

// pauseFor waits in real time. It returns false if ctx ended before.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
