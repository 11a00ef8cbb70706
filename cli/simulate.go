package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tenon.sh/engine"
	"tenon.sh/examples"
	"tenon.sh/provider/simulated"
	"tenon.sh/scenario"
	"tenon.sh/simulator"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	planOptions
	days      float64
	warmUp    time.Duration
	lookEvery time.Duration
	effort    int
	seed      uint64
	compare   []string
	profile   string
	trace     string
	picture   string
	change    string
	empty     bool
}

func newSimulate() *cobra.Command {
	o := simulateOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Let days pass over a cluster in seconds, and say what it cost and whom it disturbed",
		Long: `Runs a cluster on a virtual clock: workloads that scale by the hour, roll out and run jobs, a cloud whose machines take
time to boot, sell out and are taken away, kube-scheduler, and Tenon's own decisions. Prints machines, what they cost
beside a lower bound, pods that waited, and pods that were evicted.

Without -f it is a cluster of about 500 machines. A scenario (*.txt) says how its workloads change; of manifests or a
snapshot every workload stays as large as it is. --trace lets the pods of a file come and go beside them, such as yesterday's
(tenon trace makes one). --compare runs the same days once for each setting, or for Baseline, an autoscaler as they have been
for years, and says what each costs and whom it disturbs; --compare curve tries how strict to be. --change compares the cluster as it is
with one that has the objects of a file in place of its own. The same input and seed give the same output, byte for byte.`,
		Example: `  tenon simulate
  tenon simulate -f cluster.txt --days 2 --seed 7 --compare WhenEmpty,WhenEmptyOrUnderutilized,Balanced
  tenon simulate -f pools.yaml --trace yesterday.csv --compare Baseline,WhenEmptyOrUnderutilized,Balanced --picture yesterday.svg
  tenon simulate -f snapshot.yaml --empty --trace yesterday.csv --change pool.yaml
  tenon simulate --days 1 --compare Baseline,payback=1h,payback=4h,Balanced+after=10m
  tenon snapshot > s.yaml; tenon simulate -f s.yaml --days 0.5 -o json`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.simulate(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "a scenario, or file or folder of objects, - for standard input; can be repeated")
	o.addCatalogFlags(flags)
	flags.StringVar(&o.trace, "trace", "", "pods that come and go: CSV or lines of JSON, also as gzip, - for standard input; needs -f with a NodePool")
	flags.Float64Var(&o.days, "days", 7, "how many days pass (default with --trace: until its last pod comes or goes)")
	flags.DurationVar(&o.warmUp, "warm-up", time.Hour, "how long the cluster runs before anything is measured")
	flags.DurationVar(&o.lookEvery, "look-every", simulator.UsualDisruptEvery, "the least time between two looks at the nodes for disruption, in full steps of "+simulator.Moment.String()+", three times as much while few pods leave nodes; unless it is set, a cluster of up to 50 nodes is looked at each minute: less is nearer to a real controller, more is computed faster")
	flags.IntVar(&o.effort, "effort", simulator.UsualEffort, "units of work to spend on each plan, unless the scenario's first command says how many; 0 for as much as a controller spends, below 0 for none")
	flags.Uint64Var(&o.seed, "seed", 1, "what chance follows from")
	flags.StringSliceVar(&o.compare, "compare", nil, "what to compare, a list of settings: a policy (Baseline, WhenEmpty, WhenEmptyOrUnderutilized, Balanced), payback=DURATION, after=DURATION (consolidateAfter), or several of them joined by +; curve stands for "+strings.Join(curve, ","))
	flags.StringVar(&o.profile, "profile", "", "how the cloud behaves: "+strings.Join(simulated.ProfileNames(), ", ")+" (default: the scenario's, or "+simulator.UsualProfile+")")
	addOutputFlag(flags, &o.output)
	flags.StringVar(&o.picture, "picture", "", "draw to this SVG file what each setting cost hour by hour, and how many pods waited")
	flags.StringVar(&o.change, "change", "", "compare with a cluster that "+changedObjects)
	flags.BoolVar(&o.empty, "empty", false, "leave out the pods, workloads, nodes and NodeClaims of -f: only the pods of --trace run, on machines that are bought for them")
	o.engineFlags.addFlags(flags)
	return command
}

// mostDays bounds the length of a simulation. A longer one is probably a typing error.
const mostDays = 366

func (o *simulateOptions) verify() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if !(o.days > 0 && o.days <= mostDays) {
		return fmt.Errorf("--days %v: it is a number above 0, %d at most", o.days, mostDays)
	}
	if o.warmUp < 0 || o.warmUp > mostDays*24*time.Hour {
		return fmt.Errorf("--warm-up %s: it cannot be negative, nor more than %d days", o.warmUp, mostDays)
	}
	if o.lookEvery < simulator.Moment || o.lookEvery > 30*time.Minute {
		return fmt.Errorf("--look-every %s: it is from %s to 30m", o.lookEvery, simulator.Moment)
	}
	if err := checkProfile(o.profile); err != nil {
		return err
	}
	for _, text := range o.compare {
		if _, err := readSetting(text); err != nil {
			return err
		}
	}
	switch {
	case isScenario(o.files):
		if err := o.checkCatalogFlags(); err != nil {
			return err
		}
	case len(o.files) == 0 && (o.instanceTypes != "" || o.region != ""):
		return errors.New("--instance-types and --region need -f: the built-in cluster says itself what types and zones there are")
	}
	if o.trace != "" && len(o.files) == 0 {
		return errors.New("--trace needs -f with what machines can be bought: a NodePool and its node class, or a scenario")
	}
	if o.picture != "" {
		if err := checkPicture(o.picture); err != nil {
			return err
		}
	}
	if o.trace == "-" && slices.Contains(o.files, "-") {
		return errors.New("-f - and --trace - cannot both be standard input")
	}
	if o.change == "-" && (o.trace == "-" || slices.Contains(o.files, "-")) {
		return errors.New("--change - cannot be standard input when another one is")
	}
	if o.change != "" && len(o.compare) > 0 {
		return errors.New("--change and --compare are two comparisons: ask for one of them")
	}
	if o.empty && o.trace == "" {
		return errors.New("--empty needs --trace: without pods there is nothing to simulate")
	}
	return o.engineFlags.check()
}

// checkProfile checks --profile. An empty name is the default profile.
func checkProfile(name string) error {
	if _, err := simulated.ProfileByName(name); name != "" && err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	return nil
}

func (o *simulateOptions) simulate(command *cobra.Command) error {
	if err := o.verify(); err != nil {
		return err
	}
	config, err := o.world(command.Context(), command.InOrStdin(), newTerminal(command.ErrOrStderr()))
	if err != nil {
		return err
	}
	if command.Flags().Changed("look-every") {
		config.DisruptEvery = o.lookEvery
	}
	if o.empty {
		config.Snapshot, config.Course.Workloads = emptied(config.Snapshot), nil
	}
	if err := o.addTrace(&config, command.Flags().Changed("days"), command.InOrStdin(), newTerminal(command.ErrOrStderr())); err != nil {
		return err
	}
	o.override(command.Flags(), &config.Options, &config.Snapshot)
	if len(config.Snapshot.Commitments) > 0 {
		newTerminal(command.ErrOrStderr()).notes([]string{"commitments count in decisions; the bill is at full prices, whoever pays"})
	}
	if command.Flags().Changed("effort") {
		config.Options.Effort = o.effort
	}
	// The simulation makes much short-lived garbage and keeps little: rare collections save a tenth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	settings := settingsOf(o.compare)
	if o.change != "" {
		if settings, err = o.changed(config.Snapshot, command.InOrStdin(), newTerminal(command.ErrOrStderr())); err != nil {
			return err
		}
	}
	shown := newProgress(command.ErrOrStderr())
	if shown != nil {
		config.Watched = showHours(shown, len(settings)*hoursOf(config.For))
	}
	results, err := simulateAll(command.Context(), config, settings)
	shown.end()
	if err != nil {
		return interruptedOr(command.Context(), err)
	}
	if o.output != outputText {
		err = writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeSimulationJSON(out, results) })
	} else {
		writeSimulation(newTerminal(command.OutOrStdout()), results, o.days)
	}
	if err == nil && o.picture != "" {
		err = writePicture(o.picture, results, o.days)
	}
	return err
}

// world reads the cluster and its future course.
func (o *simulateOptions) world(ctx context.Context, stdin io.Reader, notes *terminal) (simulator.Config, error) {
	config := simulator.Config{
		Seed: o.seed, WarmUp: o.warmUp, For: time.Duration(o.days * float64(24*time.Hour)).Truncate(time.Second), Profile: o.profile,
	}
	if len(o.files) > 0 && !isScenario(o.files) {
		reading, err := o.read(ctx, stdin, notes)
		if err != nil {
			return config, err
		}
		notes.notes(reading.Notes)
		config.Snapshot, config.Options = reading.Snapshot, reading.Options
		if config.Options.Effort == 0 { // a snapshot has only the options of its controller
			config.Options.Effort = o.effort
		}
		return config, nil
	}
	read := func() (*scenario.File, error) { return scenario.Parse(examples.Week) }
	if len(o.files) > 0 {
		read = func() (*scenario.File, error) { return readScenario(o.files[0]) }
	}
	file, err := read()
	if err != nil {
		return config, err
	}
	config.Snapshot, config.Course, config.Options = file.Snapshot, file.Course, file.Options
	if !file.SaysEffort {
		config.Options.Effort = o.effort
	}
	return config, nil
}

// simulateAll runs the world once for each setting, or once unchanged. The worlds are independent, so they may run in parallel.
func simulateAll(ctx context.Context, config simulator.Config, settings []setting) ([]*simulator.Result, error) {
	if config.Options.Threads == 0 {
		config.Options.Threads = max(1, runtime.GOMAXPROCS(0)/len(settings)) // the plans do not depend on it
	}
	results, errs := make([]*simulator.Result, len(settings)), make([]error, len(settings))
	var group sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, x := range settings {
		config.Policy, config.Payback, config.ConsolidateAfter = x.policy, x.payback, x.after
		if x.cluster != nil {
			config.Setting, config.Snapshot = x.name, x.cluster
		}
		world, err := simulator.New(config)
		if err != nil {
			return nil, err
		}
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i], errs[i] = world.Run(ctx)
		})
	}
	group.Wait()
	return results, errors.Join(errs...)
}

func writeSimulationJSON(out io.Writer, results []*simulator.Result) error {
	document := struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		Results    []*simulator.Result `json:"results"`
	}{engine.CatalogAPIVersion, "Simulation", results}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
