package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
)

// engineFlags are the flags for the engine's options. The controller and the planning commands share them.
type engineFlags struct {
	PreferencePolicy string
	PreferenceShare  float64
	MinValuesPolicy  string
	SpotSpreadShare  float64 // -1 for none
	LargestCPU       int     // -1 for any
	MaxPodsPerNode   int     // 0 for no limit but the instance type's
	MinMemoryForPods string
	BufferLimits     string
	SchedulerConfig  string
	NominatePods     bool
	// NodeOverheadPrice is the cost of each node besides its machine. It is a field of the snapshot, not one of the engine's options.
	NodeOverheadPrice float64
	// CommitmentsFile is the path of the file of commitments for machines on demand. Its content belongs to the snapshot, not to the engine's
	// options.
	CommitmentsFile string
}

func defaultEngineFlags() engineFlags {
	return engineFlags{PreferencePolicy: "Respect", PreferenceShare: 0.1, MinValuesPolicy: "Strict", SpotSpreadShare: 0.02, LargestCPU: 96, MinMemoryForPods: "256Mi", NominatePods: true}
}

func (o *engineFlags) addFlags(flags *pflag.FlagSet) {
	defer heading(flags, "Flags of planning")()
	flags.StringVar(&o.PreferencePolicy, "preference-policy", o.PreferencePolicy,
		"what soft constraints of pods are worth: Respect (met where possible), Ignore, or Weighted (met where they cost little)")
	flags.Float64Var(&o.PreferenceShare, "preference-share", o.PreferenceShare,
		"with Weighted, what a soft constraint of weight 100 may cost: a share of what the pod itself costs")
	flags.StringVar(&o.MinValuesPolicy, "min-values-policy", o.MinValuesPolicy, "what happens when minValues cannot be met: Strict or BestEffort")
	flags.Float64Var(&o.SpotSpreadShare, "spot-spread-share", o.SpotSpreadShare,
		"how much dearer a spot machine may be, as a share of its price, so that no more than half of an owner's pods are of one type in one zone; -1 to leave that to the cloud")
	flags.IntVar(&o.LargestCPU, "largest-cpu", o.LargestCPU,
		"machines with more cores are bought only for pods, or in pools, that smaller ones cannot serve; -1 for any size")
	flags.IntVar(&o.MaxPodsPerNode, "max-pods-per-node", o.MaxPodsPerNode, "the most pods on one new node; 0 for what its type takes")
	flags.StringVar(&o.MinMemoryForPods, "min-memory-for-pods", o.MinMemoryForPods,
		"the least memory that a new machine leaves to pods, beside those of DaemonSets, if it is started for a pod that requests no memory; 0 for none")
	flags.StringVar(&o.BufferLimits, "buffer-limits", o.BufferLimits,
		"what the room of all CapacityBuffers may take together, as a NodePool's limits: cpu=100,memory=400Gi,pods=500; no limit unless said")
	flags.Float64Var(&o.NodeOverheadPrice, "node-overhead-price", o.NodeOverheadPrice,
		"what every node costs beside its machine, in USD per hour: its root volume, a public address, licences that are paid by the node")
	flags.StringVar(&o.CommitmentsFile, "commitments-file", o.CommitmentsFile,
		"YAML file of commitments: reserved instances and Savings Plans, which are paid for whether machines run or not")
	flags.StringVar(&o.SchedulerConfig, "scheduler-config", o.SchedulerConfig, "kube-scheduler's configuration as a YAML document: a KubeSchedulerConfiguration, or arguments of its plugins alone")
	flags.BoolVar(&o.NominatePods, "nominate-pods", o.NominatePods, "point pods at the nodes that they were planned on (status.nominatedNodeName)")
}

// check returns an error that names the first wrong flag.
func (o engineFlags) check() error {
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"preference-policy", o.PreferencePolicy, []string{"Respect", "Ignore", "Weighted"}},
		{"min-values-policy", o.MinValuesPolicy, []string{"Strict", "BestEffort"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return wrongChoice(c.flag, c.value, c.allowed)
		}
	}
	switch {
	case !(o.PreferenceShare > 0) || math.IsInf(o.PreferenceShare, 0):
		return fmt.Errorf("%s is %v: it must be more than 0", flagAndVariable("preference-share"), o.PreferenceShare)
	case o.SpotSpreadShare != -1 && !(o.SpotSpreadShare > 0 && o.SpotSpreadShare <= 1):
		return fmt.Errorf("%s is %v: it must be more than 0 and no more than 1, or -1 to leave to the cloud where spot machines are", flagAndVariable("spot-spread-share"), o.SpotSpreadShare)
	case o.LargestCPU == 0 || o.LargestCPU < -1:
		return fmt.Errorf("%s is %d: it must be a number of cores, or -1 for any", flagAndVariable("largest-cpu"), o.LargestCPU)
	case o.MaxPodsPerNode < 0:
		return fmt.Errorf("%s is %d: it must not be negative", flagAndVariable("max-pods-per-node"), o.MaxPodsPerNode)
	}
	if err := engine.CheckNodeOverheadPrice(o.NodeOverheadPrice); err != nil {
		return fmt.Errorf("%s is %v: %w", flagAndVariable("node-overhead-price"), o.NodeOverheadPrice, err)
	}
	if _, err := readMinMemory(o.MinMemoryForPods); err != nil {
		return fmt.Errorf("%s is %q: %w", flagAndVariable("min-memory-for-pods"), o.MinMemoryForPods, err)
	}
	if _, err := readBufferLimits(o.BufferLimits); err != nil {
		return fmt.Errorf("%s: %w", flagAndVariable("buffer-limits"), err)
	}
	if _, err := readSchedulerConfig(o.SchedulerConfig); err != nil {
		return err
	}
	_, err := readCommitmentsFile(o.CommitmentsFile)
	return err
}

// readMinMemory reads an amount of memory and returns it in bytes: below 0 for none, 0 for the engine's own default.
func readMinMemory(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil || q.Sign() < 0:
		return 0, errors.New("it must be an amount of memory such as 256Mi, or 0 for none")
	case q.IsZero():
		return -1, nil
	}
	return unless(q.Value(), engine.UsualMinMemoryForPods), nil
}

// plainResources are the resources without a domain in their names, except huge pages.
var plainResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}

// readBufferLimits reads a list name=amount,name=amount. It returns nil for an empty text.
func readBufferLimits(text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	out := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(part), "=")
		q, err := resource.ParseQuantity(amount)
		if _, twice := out[corev1.ResourceName(name)]; err != nil || name == "" || twice || q.Sign() < 0 {
			return nil, fmt.Errorf("%q is no limit: write each resource once, with an amount: cpu=100,memory=400Gi", part)
		}
		if !strings.Contains(name, "/") && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) && !slices.Contains(plainResources, corev1.ResourceName(name)) {
			return nil, fmt.Errorf("%q is no resource that pods request: cpu, memory, ephemeral-storage, pods, hugepages-2Mi, or one with a domain, like nvidia.com/gpu", name)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

// options returns the engine's options. The flags must have passed check.
func (o engineFlags) options() engine.Options {
	opt := engine.Options{}
	for _, flag := range []string{"preference-policy", "preference-share", "min-values-policy", "spot-spread-share", "largest-cpu", "max-pods-per-node", "min-memory-for-pods", "buffer-limits", "scheduler-config", "nominate-pods"} {
		o.apply(flag, &opt)
	}
	return opt
}

// apply sets the engine's option for a flag. If the flag has the engine's default, the option stays zero.
func (o engineFlags) apply(flag string, to *engine.Options) {
	standard := defaultEngineFlags()
	switch flag {
	case "preference-policy":
		to.Preferences = map[string]engine.PreferencePolicy{"Ignore": engine.Ignore, "Weighted": engine.Weighted}[o.PreferencePolicy]
	case "preference-share":
		to.PreferenceShare = unless(o.PreferenceShare, standard.PreferenceShare)
	case "min-values-policy":
		to.MinValues = map[string]engine.MinValuesPolicy{"BestEffort": engine.BestEffort}[o.MinValuesPolicy]
	case "spot-spread-share":
		to.SpotSpreadShare = unless(o.SpotSpreadShare, standard.SpotSpreadShare)
	case "largest-cpu":
		to.LargestCPU = unless(o.LargestCPU, standard.LargestCPU)
	case "max-pods-per-node":
		to.MaxPodsPerNode = o.MaxPodsPerNode
	case "min-memory-for-pods":
		to.MinMemoryForPods, _ = readMinMemory(o.MinMemoryForPods) // check has already reported errors
	case "buffer-limits":
		to.BufferLimits, _ = readBufferLimits(o.BufferLimits) // check has already reported errors
	case "scheduler-config":
		config, _ := readSchedulerConfig(o.SchedulerConfig) // check has already reported errors
		to.DefaultConstraints, to.Profiles = config.constraints, config.profiles
	case "nominate-pods":
		to.NoNominations = !o.NominatePods
	}
}

// override sets the options of the given flags. If a given flag changes a field of the snapshot, override replaces the snapshot by a changed
// copy.
func (o engineFlags) override(flags *pflag.FlagSet, to *engine.Options, snapshot **engine.Snapshot) {
	flags.Visit(func(f *pflag.Flag) { o.apply(f.Name, to) })
	overhead, commitments := (*snapshot).NodeOverheadPrice, (*snapshot).Commitments
	if flags.Changed("node-overhead-price") {
		overhead = o.NodeOverheadPrice
	}
	if flags.Changed("commitments-file") {
		if list, err := readCommitmentsFile(o.CommitmentsFile); err == nil { // check has already reported errors
			commitments = list
		}
	}
	if overhead != (*snapshot).NodeOverheadPrice || flags.Changed("commitments-file") {
		s := **snapshot
		s.NodeOverheadPrice, s.Commitments = overhead, commitments
		if s.EarlierPasses != nil { // results of passes with other prices do not apply
			s.EarlierPasses = &engine.EarlierPasses{ScaledDown: s.EarlierPasses.ScaledDown}
		}
		*snapshot = &s
	}
}

// unless returns the value, or zero if it is the standard value.
func unless[T comparable](value, standard T) T {
	var zero T
	if value == standard {
		return zero
	}
	return value
}
