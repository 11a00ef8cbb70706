package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// benchSolveOptions are the flags of bench solve.
type benchSolveOptions struct {
	benchOptions
	pods           []int
	preferences    string
	nodes, running int
}

// The workloads of bench solve.
const (
	workloadDiverse    = "diverse"
	workloadPreference = "preference"
	workloadFlexible   = "flexible"
	workloadMinValues  = "min-values"
)

func newBenchSolve() *cobra.Command {
	o := benchSolveOptions{}
	command := &cobra.Command{
		Use:   "solve",
		Short: "Measure how long plans take and how much memory they need",
		Long: `Plans pods with constraints of five kinds (diverse), pods full of wishes (preference), a few pods on all of EC2's types
(flexible), and the same with a pool that asks for several values of four keys (min-values), and prints how long that
took, what was allocated, and the peak of the heap beyond what the cluster itself takes. Peaks include garbage that is
not collected yet.`,
		Example: `  tenon bench solve --workload diverse --pods 10000,100000
  tenon bench solve --workload preference --preferences Weighted --nodes 5000 --running-pods 100000`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	o.addFlags(flags, "which workloads: diverse, preference, flexible, min-values (default: all)")
	flags.IntSliceVar(&o.pods, "pods", nil, "how many pods, a list (default: 10000 for diverse, 4000 for preference, 30 for the others)")
	flags.StringVar(&o.preferences, "preferences", "Respect", "what soft constraints are worth: Respect, Ignore or Weighted")
	flags.IntVar(&o.nodes, "nodes", 0, "how many nodes there are already")
	flags.IntVar(&o.running, "running-pods", 0, "how many pods run on them")
	return command
}

func (o *benchSolveOptions) run(command *cobra.Command) error {
	if err := o.verify(); err != nil {
		return err
	}
	workloads := o.workloads
	if len(workloads) == 0 {
		workloads = solveWorkloads()
	}
	var results []solveMeasurement
	shown := newProgress(command.ErrOrStderr())
	defer shown.end()
	for i, name := range workloads {
		for _, pods := range o.counts(name) {
			if err := command.Context().Err(); err != nil {
				return errInterrupted
			}
			shown.say(measuring, fmt.Sprintf("%s-%d", name, pods), i+1, len(workloads))
			results = append(results, o.measure(name, pods))
		}
	}
	shown.end()
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeBenchJSON(out, "SolveBenchmark", o.seed, results) })
	}
	headings := []string{"WORKLOAD", "TIME", "PODS/S", "NODES", "PLACED ON EXISTING", "UNPLACED", "ALLOCATED", "PEAK HEAP", "CLUSTER"}
	writeBenchTable(newTerminal(command.OutOrStdout()), headings, []string{"PLACED ON EXISTING", "UNPLACED"}, results)
	return nil
}

// verify checks the flags.
func (o *benchSolveOptions) verify() error {
	if err := o.check(); err != nil {
		return err
	}
	for _, name := range o.workloads {
		if err := oneOf("workload", name, solveWorkloads()...); err != nil {
			return err
		}
	}
	for _, pods := range o.pods {
		if err := sensible("pods", pods, 1); err != nil {
			return err
		}
	}
	if err := cmp.Or(sensible("nodes", o.nodes, 0), sensible("running-pods", o.running, 0)); err != nil {
		return err
	}
	if o.running > 0 && o.nodes == 0 {
		return fmt.Errorf("--running-pods %d: they need --nodes", o.running)
	}
	return oneOf("preferences", o.preferences, "Respect", string(engine.Ignore), string(engine.Weighted))
}

func (o *benchSolveOptions) counts(name string) []int {
	switch {
	case len(o.pods) > 0:
		return o.pods
	case name == workloadPreference:
		return []int{4000}
	case name == workloadFlexible, name == workloadMinValues:
		return []int{30}
	}
	return []int{10000}
}

func (o *benchSolveOptions) measure(name string, pods int) solveMeasurement {
	empty := heapInUse()
	s := drawSolve(name, pods, o.seed)
	if o.nodes > 0 {
		s = workload.Running(s, o.nodes, o.running, o.seed)
	}
	opt := o.engineOptions()
	if o.preferences != "Respect" {
		opt.Preferences = engine.PreferencePolicy(o.preferences)
	}
	m := solveMeasurement{Workload: fmt.Sprintf("%s-%d", name, pods), Preferences: o.preferences, Pods: pods, ExistingNodes: len(s.Nodes),
		RunningPods: len(s.Pods) - pods}
	m.solve(s, opt, empty)
	return m
}

func solveWorkloads() []string {
	return []string{workloadDiverse, workloadPreference, workloadFlexible, workloadMinValues}
}

func drawSolve(name string, pods int, seed uint64) *engine.Snapshot {
	switch name {
	case workloadPreference:
		return workload.Preference(pods, seed)
	case workloadFlexible:
		return workload.Flexible(pods, seed, 0)
	case workloadMinValues:
		return workload.Flexible(pods, seed, 4)
	}
	return workload.Diverse(pods, seed)
}

// solveMeasurement holds the time and memory of one plan.
type solveMeasurement struct {
	Workload       string `json:"workload"`
	Preferences    string `json:"preferences"`
	Pods           int    `json:"pods"`
	ExistingNodes  int    `json:"existingNodes,omitempty"`
	RunningPods    int    `json:"runningPods,omitempty"`
	Nodes          int    `json:"nodes"`
	Placed         int    `json:"placedOnExisting"`
	Unplaced       int    `json:"unplaced"`
	Nanoseconds    int64  `json:"nanoseconds"`
	PodsPerSecond  int64  `json:"podsPerSecond"`
	AllocatedBytes int64  `json:"allocatedBytes"`
	PeakHeapBytes  int64  `json:"peakHeapBytes"` // beyond the cluster
	ClusterBytes   int64  `json:"clusterBytes"`
}

// solve plans the cluster while a goroutine watches the heap. empty is the size of the heap before the cluster was made.
func (m *solveMeasurement) solve(s *engine.Snapshot, opt engine.Options, empty int64) {
	full := heapInUse()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := watchHeap()
	began := time.Now()
	plan := provisioning.Plan(s, opt, nil)
	took := time.Since(began)
	m.PeakHeapBytes = peak() - full
	runtime.ReadMemStats(&after)
	m.ClusterBytes = full - empty
	m.AllocatedBytes = int64(after.TotalAlloc - before.TotalAlloc)
	m.Nanoseconds = took.Nanoseconds()
	m.PodsPerSecond = int64(math.Round(float64(m.Pods) / took.Seconds()))
	m.Nodes, m.Placed, m.Unplaced = len(plan.Launches), len(plan.Placements), len(plan.Unplaced)
	runtime.KeepAlive(s)
}

func (m solveMeasurement) cells() []string {
	return []string{
		m.Workload, seconds(float64(m.Nanoseconds) / 1e9), strconv.FormatInt(m.PodsPerSecond, 10), strconv.Itoa(m.Nodes), unlessZero(m.Placed),
		unlessZero(m.Unplaced), mib(m.AllocatedBytes), mib(m.PeakHeapBytes), mib(m.ClusterBytes),
	}
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// heapInUse returns the size of the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	return heapBytes()
}

func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// watchHeap looks at the heap once a millisecond, until the returned function is called. That function returns the heap's largest size.
func watchHeap() func() int64 {
	stop, largest := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		peak := heapBytes()
		for {
			select {
			case <-tick.C:
				peak = max(peak, heapBytes())
			case <-stop:
				largest <- max(peak, heapBytes())
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-largest
	}
}
