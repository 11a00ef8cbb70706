package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// benchConsolidateOptions are the flags of bench consolidate.
type benchConsolidateOptions struct {
	benchOptions
	capacity         string
	pods, largestCPU int
	leave            float64
	passes           int
}

const (
	// mostGPUCores is the size of machines for the workload with GPUs, because pods with several GPUs fit no smaller type.
	mostGPUCores = 96
	// betweenPasses is the time between two passes. It is so long that pods that were moved once may be moved again.
	betweenPasses = 61 * time.Minute
)

func newBenchConsolidate() *cobra.Command {
	o := benchConsolidateOptions{}
	command := &cobra.Command{
		Use:   "consolidate",
		Short: "Measure what consolidation saves after pods have left, and how many pods it moves",
		Long: `Plans pods on an empty cluster, lets them run for two hours, takes a drawn share of them away, and disrupts what is worth
it, an hour after an hour, until nothing is. Moved pods run where the plan expects them. Ratios are to the bound of what is
left: what the remaining pods would cost at least on an empty cluster.`,
		Example: `  tenon bench consolidate --seed 1
  tenon bench consolidate --workload web --pods 70000 --passes 1`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	o.addFlags(flags, "which workloads: web, mem, cpu, mix, spread, gpu, or such as mix-10000 (default: each once)")
	flags.StringVar(&o.capacity, "capacity", capacityOnDemand, "on-demand or spot-too")
	flags.IntVar(&o.pods, "pods", 0, "how many pods there are at first; 0 for what the workload has")
	flags.IntVar(&o.largestCPU, "largest-cpu", 32, "buy no larger types, in vCPU (gpu: at least 96); 0 for the default")
	flags.Float64Var(&o.leave, "leave", 0.3, "the share of the pods that leaves, from 0 to 1")
	flags.IntVar(&o.passes, "passes", 20, "stop after so many passes")
	return command
}

func (o *benchConsolidateOptions) run(command *cobra.Command) error {
	if err := o.verify(); err != nil {
		return err
	}
	workloads := o.workloads
	if len(workloads) == 0 {
		workloads = []string{"web-2000", "mem-2000", "cpu-2000", "mix-2000", "spread-2000", "gpu-1000"}
	}
	cases, err := costCases(workloads, o.pods)
	if err != nil {
		return err
	}
	var results []consolidationMeasurement
	shown := newProgress(command.ErrOrStderr())
	defer shown.end()
	for i, c := range cases {
		shown.say(measuring, c.Name(), i+1, len(cases))
		m, err := o.measure(command, c)
		if err != nil {
			return err
		}
		results = append(results, m)
	}
	shown.end()
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeBenchJSON(out, "ConsolidationBenchmark", o.seed, results) })
	}
	headings := []string{"WORKLOAD", "NODES", "PODS", "AT FIRST", "IN THE END", "NODES", "EVICTIONS/POD", "PASSES", "LONGEST"}
	writeBenchTable(newTerminal(command.OutOrStdout()), headings, nil, results)
	return nil
}

func (o *benchConsolidateOptions) verify() error {
	if err := o.check(); err != nil {
		return err
	}
	if err := oneOf("capacity", o.capacity, capacityOnDemand, capacitySpotToo); err != nil {
		return err
	}
	if math.IsNaN(o.leave) || o.leave < 0 || o.leave > 1 {
		return fmt.Errorf("--leave %v: it is a number from 0 to 1", o.leave)
	}
	return cmp.Or(sensible("pods", o.pods, 0), sensible("largest-cpu", o.largestCPU, 0), sensible("passes", o.passes, 1))
}

// consolidationMeasurement is the result of one workload. Ratios are the nodes' cost divided by the bound for the remaining pods.
type consolidationMeasurement struct {
	Workload     string  `json:"workload"`
	Capacity     string  `json:"capacity"`
	NodesBefore  int     `json:"nodesBefore"`
	Pods         int     `json:"pods"` // remaining pods
	Bound        float64 `json:"bound"`
	RatioBefore  float64 `json:"ratioBefore"`
	RatioAfter   float64 `json:"ratioAfter"`
	NodesAfter   int     `json:"nodesAfter"`
	Evictions    int     `json:"evictions"`
	Passes       int     `json:"passes"` // the number of passes with disruptions
	LongestPass  float64 `json:"longestPassSeconds"`
	StillWaiting int     `json:"stillWaiting"`
}

func (m consolidationMeasurement) cells() []string {
	return []string{
		m.Workload, strconv.Itoa(m.NodesBefore), strconv.Itoa(m.Pods), ratio(m.RatioBefore), ratio(m.RatioAfter), strconv.Itoa(m.NodesAfter),
		fmt.Sprintf("%.3f", float64(m.Evictions)/float64(max(m.Pods, 1))), strconv.Itoa(m.Passes), seconds(m.LongestPass),
	}
}

// measure runs one workload to its end.
func (o *benchConsolidateOptions) measure(command *cobra.Command, c workload.CostCase) (consolidationMeasurement, error) {
	capacityTypes := []string{v1.CapacityTypeOnDemand}
	if o.capacity == capacitySpotToo {
		capacityTypes = append(capacityTypes, v1.CapacityTypeSpot)
	}
	opt := o.engineOptions()
	opt.LargestCPU = o.largestCPU
	if c.Kind == workload.GPU && o.largestCPU > 0 {
		opt.LargestCPU = max(o.largestCPU, mostGPUCores)
	}
	s := workload.ScaledDown(workload.Cost(c.Kind, c.Pods, o.seed, capacityTypes...), opt, o.leave, o.seed)
	m := consolidationMeasurement{Workload: c.Name(), Capacity: o.capacity, NodesBefore: len(s.Nodes), Pods: len(s.Pods)}
	m.Bound = provisioning.Plan(scenario.Unbound(s), opt, nil).Cost.Bound
	m.RatioBefore = costOfNodes(s) / max(m.Bound, 1e-9)
	for range o.passes {
		if command.Context().Err() != nil {
			return m, errInterrupted
		}
		began := time.Now()
		plan := disruption.Plan(s, opt, nil)
		m.LongestPass = max(m.LongestPass, time.Since(began).Seconds())
		if len(plan.Disruptions) == 0 {
			break
		}
		m.Passes++
		for _, d := range plan.Disruptions {
			m.Evictions += len(d.Pods)
		}
		s = scenario.MoveOver(s, plan)
		s = scenario.CarryOut(s, provisioning.Plan(s, opt, nil)) // for moved pods that have no place
		s.Now = s.Now.Add(betweenPasses)
	}
	m.NodesAfter, m.RatioAfter = len(s.Nodes), costOfNodes(s)/max(m.Bound, 1e-9)
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "" {
			m.StillWaiting++
		}
	}
	return m, nil
}

// costOfNodes returns the cost of all nodes, in USD per hour.
func costOfNodes(s *engine.Snapshot) float64 {
	prices, sum := inventory.NewPriceBook(s), 0.0
	for _, n := range s.Nodes {
		price, _ := prices.Price(n.Labels, s.NodePools[0].Spec.Template.Spec.NodeClassRef)
		sum += price
	}
	return sum
}
