package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario/workload"
)

// benchCostOptions are the flags of bench cost.
type benchCostOptions struct {
	benchOptions
	capacity, catalog          string
	pods                       int
	maxPodsPerNode, largestCPU int
}

// The values of --capacity.
const (
	capacityOnDemand = "on-demand"
	capacitySpotToo  = "spot-too"
)

func newBenchCost() *cobra.Command {
	o := benchCostOptions{}
	command := &cobra.Command{
		Use:   "cost",
		Short: "Compare the cost of plans with the least that any plan can cost",
		Long: `Plans seven workloads on the instance types and prices of EC2, or of Azure, and prints what each plan costs in USD per hour: with the
cheapest and with the dearest offering that each launch lists, and how both compare with the bound, which no plan can be
below. EXPECTED and UNHINTED are what the machines would cost if kube-scheduler placed the pods, with and without the
plan's nominations. LARGEST is the largest machine, in vCPU, that the plan chooses first.

The second line of a workload is the same with small machines: what limiting the damage of one lost machine costs. Its
ratios are to the bound of the first line. Workload gpu has no such line, as its larger pods only fit large machines.`,
		Example: `  tenon bench cost --seed 3
  tenon bench cost --capacity spot-too --workload mix,spread -o json`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	o.addFlags(flags, "which workloads: web, mem, cpu, mix, spread, gpu, or names such as mix-10000 (default: all)")
	flags.StringVar(&o.capacity, "capacity", capacityOnDemand, "what may be bought: on-demand or spot-too")
	flags.StringVar(&o.catalog, "catalog", catalog.NameAWS, "whose instance types and prices: aws or azure")
	flags.IntVar(&o.pods, "pods", 0, "how many pods each workload has; 0 for what the benchmark says")
	flags.IntVar(&o.maxPodsPerNode, "max-pods-per-node", 110, "second line: the most pods of a machine; 0 for any number")
	flags.IntVar(&o.largestCPU, "largest-cpu", 32, "second line: the largest machine, in vCPU; 0 for the default size")
	return command
}

func (o *benchCostOptions) run(command *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := oneOf("capacity", o.capacity, capacityOnDemand, capacitySpotToo); err != nil {
		return err
	}
	if err := oneOf("catalog", o.catalog, catalog.NameAWS, catalog.NameAzure); err != nil {
		return err
	}
	if err := cmp.Or(sensible("pods", o.pods, 0), sensible("max-pods-per-node", o.maxPodsPerNode, 0), sensible("largest-cpu", o.largestCPU, 0)); err != nil {
		return err
	}
	cases, err := costCases(o.workloads, o.pods)
	if err != nil {
		return err
	}
	var results []costMeasurement
	shown := newProgress(command.ErrOrStderr())
	defer shown.end()
	for i, c := range cases {
		if err := command.Context().Err(); err != nil {
			return errInterrupted
		}
		shown.say(measuring, c.Name(), i+1, len(cases))
		results = append(results, o.measure(c)...)
	}
	shown.end()
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeBenchJSON(out, "CostBenchmark", o.seed, results) })
	}
	headings := []string{"WORKLOAD", "CHEAPEST", "DEAREST", "BOUND", "CHEAPEST/BOUND", "DEAREST/BOUND", "EXPECTED/BOUND", "UNHINTED/BOUND",
		"NODES", "LARGEST", "UNPLACED", "TIME"}
	writeBenchTable(newTerminal(command.OutOrStdout()), headings, []string{"EXPECTED/BOUND", "UNHINTED/BOUND", "UNPLACED"}, results)
	return nil
}

// costCases selects workloads by kind or by name, all of them without names. If pods is not 0, each workload has that many.
func costCases(names []string, pods int) ([]workload.CostCase, error) {
	all := workload.CostCases()
	var known []string
	for _, c := range all {
		known = append(known, c.Name())
	}
	if len(names) == 0 {
		names = known
	}
	var out []workload.CostCase
	for _, name := range names {
		found := false
		for _, c := range all {
			if c.Kind != name && c.Name() != name {
				continue
			}
			found = true
			if pods > 0 {
				c.Pods = pods
			}
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
		if !found {
			return nil, fmt.Errorf("--workload %s: there is no such workload: there are %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// measure plans one workload, and once more with small machines.
func (o *benchCostOptions) measure(c workload.CostCase) []costMeasurement {
	capacityTypes := []string{v1.CapacityTypeOnDemand}
	if o.capacity == capacitySpotToo {
		capacityTypes = append(capacityTypes, v1.CapacityTypeSpot)
	}
	s := workload.Cost(c.Kind, c.Pods, o.seed, capacityTypes...)
	if o.catalog == catalog.NameAzure {
		s = workload.OnAzure(s, c.Kind)
	}
	opt := o.engineOptions()
	first := measureCost(s, opt)
	first.Workload, first.Capacity = c.Name(), o.capacity
	out := []costMeasurement{first.compare(first.Bound)}
	if c.Kind == workload.GPU || o.maxPodsPerNode == 0 && o.largestCPU == 0 {
		return out
	}
	opt.MaxPodsPerNode, opt.LargestCPU = o.maxPodsPerNode, o.largestCPU
	limited := measureCost(s, opt)
	limited.Workload, limited.Capacity = c.Name(), o.capacity
	limited.MaxPodsPerNode, limited.LargestAllowedCPU = o.maxPodsPerNode, o.largestCPU
	return append(out, limited.compare(first.Bound))
}

// costMeasurement is one plan's cost. Amounts are in USD per hour; ratios are to the bound of the plan without limits.
type costMeasurement struct {
	Workload string `json:"workload"`
	Capacity string `json:"capacity"`
	// MaxPodsPerNode and LargestAllowedCPU limit the plan's machines; 0 means no limit.
	MaxPodsPerNode    int     `json:"maxPodsPerNode,omitempty"`
	LargestAllowedCPU int     `json:"largestAllowedCPU,omitempty"`
	Pods              int     `json:"pods"`
	Unplaced          int     `json:"unplaced"`
	Nodes             int     `json:"nodes"`
	LargestCPU        int64   `json:"largestCPU"`       // the largest size of the first types of launches
	LargestListedCPU  int64   `json:"largestListedCPU"` // the largest size of all types of launches
	MostPodsPerNode   int     `json:"mostPodsPerNode"`
	Cheapest          float64 `json:"cheapest"`
	Dearest           float64 `json:"dearest"`
	Expected          float64 `json:"expected,omitempty"`
	Unhinted          float64 `json:"unhinted,omitempty"`
	Bound             float64 `json:"bound"`
	CheapestRatio     float64 `json:"cheapestRatio,omitempty"`
	DearestRatio      float64 `json:"dearestRatio,omitempty"`
	ExpectedRatio     float64 `json:"expectedRatio,omitempty"`
	UnhintedRatio     float64 `json:"unhintedRatio,omitempty"`
	Seconds           float64 `json:"seconds"`
}

func measureCost(s *engine.Snapshot, opt engine.Options) costMeasurement {
	began := time.Now()
	plan := provisioning.Plan(s, opt, nil)
	took := time.Since(began)
	nomination.Foresee(s, opt, plan)
	m := costMeasurement{
		Seconds: took.Seconds(), Pods: len(s.Pods), Unplaced: len(plan.Unplaced), Nodes: len(plan.Launches),
		Cheapest: plan.Cost.LaunchesPerHour, Expected: plan.Cost.Expected, Unhinted: plan.Cost.Unhinted, Bound: plan.Cost.Bound,
	}
	cores := map[string]int64{}
	for _, t := range s.Classes[0].InstanceTypes {
		cores[t.Name] = t.Capacity.Cpu().Value()
	}
	for _, l := range plan.Launches {
		dearest := l.Price
		for _, o := range l.Offerings {
			dearest = max(dearest, o.Price)
		}
		m.Dearest += dearest
		m.MostPodsPerNode = max(m.MostPodsPerNode, len(l.Pods))
		for i, name := range l.InstanceTypes {
			if i == 0 {
				m.LargestCPU = max(m.LargestCPU, cores[name])
			}
			m.LargestListedCPU = max(m.LargestListedCPU, cores[name])
		}
	}
	return m
}

// compare fills in the ratios.
func (m costMeasurement) compare(bound float64) costMeasurement {
	if bound > 0 {
		m.CheapestRatio, m.DearestRatio = m.Cheapest/bound, m.Dearest/bound
		m.ExpectedRatio, m.UnhintedRatio = m.Expected/bound, m.Unhinted/bound
	}
	return m
}

func (m costMeasurement) cells() []string {
	title := m.Workload
	if m.MaxPodsPerNode+m.LargestAllowedCPU > 0 {
		title = "  limited"
	}
	return []string{
		title, money(m.Cheapest), money(m.Dearest), money(m.Bound), ratio(m.CheapestRatio), ratio(m.DearestRatio), ratio(m.ExpectedRatio),
		ratio(m.UnhintedRatio), strconv.Itoa(m.Nodes), strconv.FormatInt(m.LargestCPU, 10), unlessZero(m.Unplaced), seconds(m.Seconds),
	}
}

// ratio formats a ratio; it is empty for 0.
func ratio(r float64) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%.4f", r)
}

func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func seconds(s float64) string { return fmt.Sprintf("%.3fs", s) }
