package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
	"tenon.sh/simulator"
)

// benchSmallOptions are the flags of bench small.
type benchSmallOptions struct {
	seed           uint64
	clusters, days int
	output         string
}

func newBenchSmall() *cobra.Command {
	o := benchSmallOptions{}
	command := &cobra.Command{
		Use:   "small",
		Short: "Compare small clusters with those of a simpler autoscaler, day and night",
		Long: `Draws clusters of one to eight Deployments with one to six replicas, in one to three pools, on demand or on spot machines as well, and simulates
each for some days, under Tenon and under the baseline, which removes or replaces one node at a time. Prints the bills, the evictions, and the
longest time for which a node stayed although its removal would have paid back.`,
		Example: `  tenon bench small --seed 1
  tenon bench small --seed 295 --clusters 1 -o json`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.Uint64Var(&o.seed, "seed", 1, "what the first cluster is drawn from; each further one is drawn from the next number")
	flags.IntVar(&o.clusters, "clusters", 10, "how many clusters to draw")
	flags.IntVar(&o.days, "days", 2, "how many days to simulate")
	addOutputFlag(flags, &o.output)
	return command
}

func (o *benchSmallOptions) run(command *cobra.Command) error {
	if err := cmp.Or(sensible("clusters", o.clusters, 1), sensible("days", o.days, 1), checkOutput(o.output)); err != nil {
		return err
	}
	var results []smallMeasurement
	shown := newProgress(command.ErrOrStderr())
	defer shown.end()
	for i := range o.clusters {
		shown.say("measuring cluster %d of %d", i+1, o.clusters)
		m, err := o.measure(command, o.seed+uint64(i))
		if err != nil {
			return err
		}
		results = append(results, m)
	}
	shown.end()
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeBenchJSON(out, "SmallBenchmark", o.seed, results) })
	}
	headings := []string{"SEED", "BILL", "BASELINE", "RATIO", "EVICTIONS", "BASELINE", "LONGEST STAY", "REASON"}
	writeBenchTable(newTerminal(command.OutOrStdout()), headings, nil, append(results, sumOf(results)))
	return nil
}

// smallMeasurement is the result of one cluster, with Tenon and with the baseline.
type smallMeasurement struct {
	Seed              uint64  `json:"seed"`
	Bill              float64 `json:"bill"` // in USD
	BaselineBill      float64 `json:"baselineBill"`
	Evictions         float64 `json:"evictions"` // the number of evictions by disruptions
	BaselineEvictions float64 `json:"baselineEvictions"`
	// LongestStay is the longest time, in seconds, that a node stayed although its removal would have paid back. StayReason is the reason.
	LongestStay float64 `json:"longestStaySeconds"`
	StayReason  string  `json:"stayReason,omitempty"`
	name        string
}

func (m smallMeasurement) cells() []string {
	stay := "-"
	if m.LongestStay > 0 {
		stay = (time.Duration(m.LongestStay) * time.Second).Round(time.Minute).String()
	}
	return []string{
		cmp.Or(m.name, strconv.FormatUint(m.Seed, 10)), fmt.Sprintf("%.2f", m.Bill), fmt.Sprintf("%.2f", m.BaselineBill), ratio(m.Bill / max(m.BaselineBill, 1e-9)),
		fmt.Sprintf("%.0f", m.Evictions), fmt.Sprintf("%.0f", m.BaselineEvictions), stay, cmp.Or(m.StayReason, "-"),
	}
}

// sumOf adds up all clusters; the stay is the longest.
func sumOf(list []smallMeasurement) smallMeasurement {
	sum := smallMeasurement{name: "all"}
	for _, m := range list {
		sum.Bill, sum.BaselineBill = sum.Bill+m.Bill, sum.BaselineBill+m.BaselineBill
		sum.Evictions, sum.BaselineEvictions = sum.Evictions+m.Evictions, sum.BaselineEvictions+m.BaselineEvictions
		if m.LongestStay > sum.LongestStay {
			sum.LongestStay, sum.StayReason = m.LongestStay, m.StayReason
		}
	}
	return sum
}

// measure simulates one cluster twice.
func (o *benchSmallOptions) measure(command *cobra.Command, seed uint64) (smallMeasurement, error) {
	m := smallMeasurement{Seed: seed}
	file, err := scenario.Parse(workload.SmallCluster(seed))
	if err != nil {
		return m, fmt.Errorf("the cluster drawn from seed %d: %w", seed, err)
	}
	simulate := func(baseline bool) (*simulator.Result, error) {
		c := simulator.Config{Snapshot: file.Snapshot, Course: file.Course, Options: file.Options, Seed: seed, For: time.Duration(o.days) * 24 * time.Hour, Audit: true}
		c.BoundEvery = c.For
		if baseline {
			c.Policy = simulator.Baseline
		}
		w, err := simulator.New(c)
		if err != nil {
			return nil, err
		}
		return w.Run(command.Context())
	}
	ours, err := simulate(false)
	if err != nil {
		return m, interruptedOr(command.Context(), fmt.Errorf("simulate the cluster drawn from seed %d: %w", seed, err))
	}
	theirs, err := simulate(true)
	if err != nil {
		return m, interruptedOr(command.Context(), fmt.Errorf("simulate the cluster drawn from seed %d under the baseline: %w", seed, err))
	}
	m.Bill, m.Evictions = ours.Cost, ours.EvictionsPerPodDay*ours.PodDays
	m.BaselineBill, m.BaselineEvictions = theirs.Cost, theirs.EvictionsPerPodDay*theirs.PodDays
	m.LongestStay, m.StayReason = ours.LongestStay.Time.Seconds(), string(ours.LongestStay.Reason)
	return m, nil
}
