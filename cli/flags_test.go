package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"tenon.sh/engine"
)

// read parses arguments and variables like the controller command.
func read(args []string, variables map[string]string) (ControllerOptions, error) {
	opt := DefaultControllerOptions()
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	opt.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		return opt, err
	}
	err := readEnvironment(flags, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	})
	if err != nil {
		return opt, err
	}
	return opt, opt.check()
}

func TestAFlagWinsOverItsVariable(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want time.Duration
	}{
		"default":           {nil, nil, time.Second},
		"variable":          {nil, map[string]string{"BATCH_IDLE_DURATION": "3s"}, 3 * time.Second},
		"flag":              {[]string{"--batch-idle-duration=2s"}, map[string]string{"BATCH_IDLE_DURATION": "3s"}, 2 * time.Second},
		"set to nothing":    {nil, map[string]string{"BATCH_IDLE_DURATION": ""}, time.Second},
		"flag over garbage": {[]string{"--batch-idle-duration=2s"}, map[string]string{"BATCH_IDLE_DURATION": "x"}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			opt, err := read(c.args, c.env)
			if err != nil || opt.BatchIdleDuration != c.want {
				t.Errorf("got %v, %v; want %v", opt.BatchIdleDuration, err, c.want)
			}
		})
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	opt := DefaultControllerOptions()
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	opt.addFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if environment()[f.Name] == "" {
			t.Errorf("--%s has no environment variable", f.Name)
		}
	})
	for flag := range environment() {
		if flags.Lookup(flag) == nil {
			t.Errorf("there is a variable for --%s, and no such flag", flag)
		}
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want string // parts of the message
	}{
		"number":            {nil, map[string]string{"METRICS_PORT": "http"}, `METRICS_PORT "http" --metrics-port`},
		"duration":          {nil, map[string]string{"BATCH_MAX_DURATION": "10"}, `BATCH_MAX_DURATION "10"`},
		"bool":              {nil, map[string]string{"ENABLE_PROFILING": "maybe"}, `ENABLE_PROFILING "maybe"`},
		"gate":              {nil, map[string]string{"FEATURE_GATES": "NodeRepair=maybe"}, `FEATURE_GATES NodeRepair "maybe"`},
		"level":             {nil, map[string]string{"LOG_LEVEL": "loud"}, `LOG_LEVEL "loud" debug`},
		"policy":            {[]string{"--preference-policy=Sometimes"}, nil, `PREFERENCE_POLICY "Sometimes" Respect`},
		"min values":        {[]string{"--min-values-policy=x"}, nil, `MIN_VALUES_POLICY BestEffort`},
		"cloud":             {[]string{"--cloud-provider=moon"}, nil, `--cloud-provider "moon" kwok`},
		"token without URL": {[]string{"--cloud-provider=clusterapi", "--cluster-api-token=abc"}, nil, `--cluster-api-token CLUSTER_API_TOKEN --cluster-api-url empty`},
		"URL without TLS":   {[]string{"--cloud-provider=clusterapi"}, map[string]string{"CLUSTER_API_URL": "http://management:6443"}, `--cluster-api-url https://`},
		"two tokens":        {[]string{"--cloud-provider=clusterapi", "--cluster-api-url=https://m", "--cluster-api-token=a", "--cluster-api-token-file=b"}, nil, `--cluster-api-token-file one`},
		"bad authorities":   {[]string{"--cloud-provider=clusterapi", "--cluster-api-url=https://m", "--cluster-api-certificate-authority-data=x"}, nil, `--cluster-api-certificate-authority-data PEM`},
		"negative window":   {[]string{"--batch-max-duration=-1s"}, nil, `--batch-max-duration negative`},
		"port":              {[]string{"--metrics-port=70000"}, nil, `--metrics-port 65535`},
		"share":             {[]string{"--preference-share=0"}, nil, `--preference-share TENON_PREFERENCE_SHARE more`},
		"overhead":          {[]string{"--node-overhead-price=-0.01"}, nil, `--node-overhead-price TENON_NODE_OVERHEAD_PRICE -0.01 from 0`},
		"no overhead":       {[]string{"--node-overhead-price=NaN"}, nil, `--node-overhead-price NaN from 0`},
		"absurd overhead":   {nil, map[string]string{"TENON_NODE_OVERHEAD_PRICE": "+Inf"}, `TENON_NODE_OVERHEAD_PRICE Inf 1000`},
		"no share":          {[]string{"--preference-share=NaN"}, nil, `--preference-share more`},
		"cores":             {nil, map[string]string{"TENON_LARGEST_CPU": "0"}, `--largest-cpu TENON_LARGEST_CPU -1`},
		"spot share":        {[]string{"--spot-spread-share=0"}, nil, `--spot-spread-share TENON_SPOT_SPREAD_SHARE more`},
		"spot share of two": {[]string{"--spot-spread-share=2"}, nil, `--spot-spread-share more`},
		"no spot share":     {[]string{"--spot-spread-share=NaN"}, nil, `--spot-spread-share more`},
		"pods per node":     {[]string{"--max-pods-per-node=-2"}, nil, `--max-pods-per-node negative`},
		"memory for pods":   {nil, map[string]string{"TENON_MIN_MEMORY_FOR_PODS": "much"}, `--min-memory-for-pods TENON_MIN_MEMORY_FOR_PODS "much" 256Mi`},
		"memory below 0":    {[]string{"--min-memory-for-pods=-1Mi"}, nil, `--min-memory-for-pods "-1Mi" amount`},
		"buffer limits":     {[]string{"--buffer-limits=cpu=4,memory"}, nil, `--buffer-limits TENON_BUFFER_LIMITS "memory" limit`},
		"limit twice":       {[]string{"--buffer-limits=cpu=4,cpu=5"}, nil, `--buffer-limits "cpu=5" once`},
		"limit of nothing":  {[]string{"--buffer-limits=mem=400Gi"}, nil, `--buffer-limits "mem" memory`},
		"limit below 0":     {nil, map[string]string{"TENON_BUFFER_LIMITS": "cpu=-1"}, `--buffer-limits "cpu=-1"`},
		"scheduler":         {nil, map[string]string{"SCHEDULER_CONFIG": "podTopologySpread: {unknown: 1}"}, `SCHEDULER_CONFIG unknown`},
		"spread": {nil, map[string]string{"SCHEDULER_CONFIG": "podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}"},
			`SCHEDULER_CONFIG number 1 maxSkew`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.args, c.env)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range strings.Fields(c.want) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %s", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
		})
	}
}

// Options with the engine's defaults stay zero, so that a snapshot contains only the user's choices.
func TestFlagsBecomeOptionsOfTheEngine(t *testing.T) {
	spread := corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway}
	for name, c := range map[string]struct {
		args []string
		want engine.Options
	}{
		"nothing":   {nil, engine.Options{}},
		"defaults":  {[]string{"--preference-policy=Respect", "--preference-share=0.1", "--largest-cpu=96", "--min-values-policy=Strict"}, engine.Options{}},
		"weighted":  {[]string{"--preference-policy=Weighted", "--preference-share=0.5"}, engine.Options{Preferences: engine.Weighted, PreferenceShare: 0.5}},
		"ignore":    {[]string{"--preference-policy=Ignore"}, engine.Options{Preferences: engine.Ignore}},
		"any size":  {[]string{"--largest-cpu=-1"}, engine.Options{LargestCPU: -1}},
		"spot":      {[]string{"--spot-spread-share=0.02"}, engine.Options{}},
		"spot dear": {[]string{"--spot-spread-share=0.1"}, engine.Options{SpotSpreadShare: 0.1}},
		"spot free": {[]string{"--spot-spread-share=-1"}, engine.Options{SpotSpreadShare: -1}},
		"few pods":  {[]string{"--max-pods-per-node=30", "--largest-cpu=32"}, engine.Options{MaxPodsPerNode: 30, LargestCPU: 32}},
		"buffers": {[]string{"--buffer-limits=cpu=100,memory=400Gi"}, engine.Options{BufferLimits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("400Gi")}}},
		"gate":      {[]string{"--feature-gates=TerminateFirstDrift=true,TerminateFirstRepair=true,PodDeletionCostManagement=true"}, engine.Options{TerminateFirstDrift: true}},
		"minValues": {[]string{"--min-values-policy=BestEffort"}, engine.Options{MinValues: engine.BestEffort}},
		"spread": {[]string{"--scheduler-config={podTopologySpread: {defaultConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}"},
			engine.Options{DefaultConstraints: []corev1.TopologySpreadConstraint{spread}}},
	} {
		opt, err := read(c.args, nil)
		if err != nil || !reflect.DeepEqual(opt.engineOptions(), c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, opt.engineOptions(), err, c.want)
		}
	}
}

func TestGatesAreReadAsInstallationsWriteThem(t *testing.T) {
	opt, err := read(nil, map[string]string{
		"FEATURE_GATES": "StaticCapacity=,SpotToSpotConsolidation=false, NodeRepair=true,Unheard=true,ReservedCapacity=true",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(gatesWithoutEffect(opt.FeatureGates)); got != "[Unheard]" {
		t.Errorf("without effect: %s", got)
	}
}

func TestATakenPortEndsTheController(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	opt := DefaultControllerOptions()
	opt.MetricsPort = taken.Addr().(*net.TCPAddr).Port
	err = RunController(context.Background(), &rest.Config{Host: "http://127.0.0.1:1"}, opt, io.Discard)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(opt.MetricsPort)) || !strings.Contains(err.Error(), "METRICS_PORT") {
		t.Errorf("got %v", err)
	}
}

func TestACatalogFileThatCannotBeReadEndsTheController(t *testing.T) {
	opt := DefaultControllerOptions()
	opt.MetricsPort, opt.HealthProbePort, opt.InstanceTypesFile = -1, -1, "missing.json"
	err := RunController(context.Background(), &rest.Config{Host: "http://127.0.0.1:1"}, opt, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "missing.json") || !strings.Contains(err.Error(), "INSTANCE_TYPES_FILE_PATH") {
		t.Errorf("got %v", err)
	}
}

// The flag's default is the engine's own, and 0 means no minimum.
func TestTheLeastMemoryForPodsReachesTheEngine(t *testing.T) {
	for text, want := range map[string]int64{"256Mi": 0, "0": -1, "1Gi": 1 << 30} {
		opt, err := read([]string{"--min-memory-for-pods=" + text}, nil)
		if got := opt.engineOptions().MinMemoryForPods; err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	opt, err := read(nil, nil)
	if got := opt.engineOptions(); err != nil || got.MinMemoryForPods != 0 || got.EffectiveMinMemoryForPods() != 256<<20 {
		t.Errorf("default: %d, %v", got.MinMemoryForPods, err)
	}
}
