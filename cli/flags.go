package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// ControllerOptions are the controller's options. The zero value is not the default: use DefaultControllerOptions.
type ControllerOptions struct {
	CloudProvider     string
	Catalog           string // name of a built-in catalog of the simulated cloud
	InstanceTypesFile string // replaces Catalog
	BootDelay         time.Duration
	RepairAfter       time.Duration
	RecordDisruptions string // path of a folder; empty for none
	Journal           string // path of a folder; empty for none
	// ClusterAutoscalerGrace is the time for which the controller expects that Cluster Autoscaler starts a node for a pod after it announced the
	// node. If it is 0, the controller does not watch Cluster Autoscaler.
	ClusterAutoscalerGrace time.Duration
	FaultsFile             string // path of a file with the faults of the simulated cloud and their times

	MetricsPort                         int    // 0 for any free port, below 0 for none
	HealthProbePort                     int    // like MetricsPort
	DashboardPort                       int    // like MetricsPort
	DashboardCertFile, DashboardKeyFile string // in PEM format; empty for a certificate that is made at the start
	KubeClientQPS                       int
	KubeClientBurst                     int
	EnableProfiling                     bool
	ListenAddress                       string // address of the ports; empty for all addresses in a pod, loopback elsewhere

	DisableLeaderElection               bool
	LeaderElectionName                  string
	LeaderElectionNamespace             string
	DisableClusterStateObservability    bool
	MemoryLimit                         int64
	LogLevel, LogFormat                 string
	LogOutputPaths, LogErrorOutputPaths string

	BatchMaxDuration  time.Duration
	BatchIdleDuration time.Duration
	FeatureGates      map[string]bool
	IgnoreDRARequests bool // refuse pods that claim devices
	engineFlags
	awsFlags
	clusterAPIFlags
	azureFlags

	// These flags have no effect. They are accepted so that installations made for Karpenter start.
	KarpenterService        string
	DisableControllerWarmup bool
	CPURequests             int
	LegacyNodeRepair        bool
}

// DefaultControllerOptions returns the options of a controller without flags and environment variables.
func DefaultControllerOptions() ControllerOptions {
	return ControllerOptions{
		CloudProvider:           cloudKWOK,
		Catalog:                 "kwok",
		RepairAfter:             10 * time.Minute,
		MetricsPort:             8080,
		HealthProbePort:         8081,
		DashboardPort:           -1,
		KubeClientQPS:           1000,
		KubeClientBurst:         2000,
		LeaderElectionName:      "karpenter-leader-election",
		MemoryLimit:             -1,
		LogLevel:                "info",
		LogFormat:               "json",
		LogOutputPaths:          "stdout",
		LogErrorOutputPaths:     "stderr",
		BatchMaxDuration:        10 * time.Second,
		BatchIdleDuration:       time.Second,
		FeatureGates:            map[string]bool{},
		engineFlags:             defaultEngineFlags(),
		awsFlags:                defaultAWSFlags(),
		azureFlags:              defaultAzureFlags(),
		DisableControllerWarmup: true,
		CPURequests:             1000,
		IgnoreDRARequests:       true,
	}
}

// engineOptions returns the engine's options.
func (o ControllerOptions) engineOptions() engine.Options {
	opt := o.engineFlags.options()
	opt.SpotToSpot = o.FeatureGates["SpotToSpotConsolidation"]
	opt.TerminateFirstDrift = o.FeatureGates["TerminateFirstDrift"]
	return opt
}

// environment returns the environment variable of each flag, by flag.
func environment() map[string]string {
	out := map[string]string{}
	for _, flag := range strings.Fields(`
		cloud-provider catalog instance-types-file-path boot-delay repair-after faults metrics-port health-probe-port kube-client-qps
		kube-client-burst enable-profiling disable-controller-warmup disable-leader-election
		disable-cluster-state-observability leader-election-name leader-election-namespace memory-limit cpu-requests
		log-level log-format log-output-paths log-error-output-paths batch-max-duration batch-idle-duration
		preference-policy min-values-policy ignore-dra-requests feature-gates scheduler-config legacy-node-repair
		karpenter-service`) {
		out[flag] = strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	}
	for _, flag := range slices.Concat(awsFlagNames(), azureFlagNames(), clusterAPIFlagNames()) {
		out[flag] = strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	}
	out["node-resource-group"] = "AZURE_NODE_RESOURCE_GROUP"
	out["cloud-provider"] = "TENON_CLOUD_PROVIDER"
	out["catalog"] = "TENON_CATALOG"
	out["boot-delay"] = "TENON_BOOT_DELAY"
	out["repair-after"] = "TENON_REPAIR_AFTER"
	out["faults"] = "TENON_FAULTS"
	out["log-format"] = "TENON_LOG_FORMAT"
	for _, ours := range []string{"nominate-pods", "preference-share", "spot-spread-share", "node-overhead-price", "commitments-file", "largest-cpu", "max-pods-per-node", "min-memory-for-pods", "buffer-limits", "instance-status-dry-run", "record-disruptions", "journal", "listen-address", "dashboard-port", "dashboard-tls-cert-file", "dashboard-tls-private-key-file", "cluster-autoscaler-grace"} {
		out[ours] = "TENON_" + strings.ToUpper(strings.ReplaceAll(ours, "-", "_"))
	}
	return out
}

func (o *ControllerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.CloudProvider, "cloud-provider", o.CloudProvider, "the cloud that machines are started in: kwok, aws, azure or clusterapi")
	flags.StringVar(&o.Catalog, "catalog", o.Catalog, "what the simulated cloud sells: "+strings.Join(catalog.Names(), " or "))
	flags.StringVar(&o.InstanceTypesFile, "instance-types-file-path", o.InstanceTypesFile, "a file with what the simulated cloud sells, instead of --catalog")
	flags.DurationVar(&o.BootDelay, "boot-delay", o.BootDelay, "how long a machine of the simulated cloud takes until its node registers")
	flags.DurationVar(&o.RepairAfter, "repair-after", o.RepairAfter, "with the feature gate NodeRepair: how long a node of the simulated cloud must have been not ready to be replaced")
	flags.StringVar(&o.FaultsFile, "faults", o.FaultsFile, "a file with what goes wrong in the simulated cloud, and when after the start")
	flags.StringVar(&o.RecordDisruptions, "record-disruptions", o.RecordDisruptions, "a folder for what each of the last 100 passes that disrupted nodes saw, as snapshot files, and what it decided: tenon plan --disrupt -f makes the same plan again; takes time and room in a large cluster; empty for none")
	flags.StringVar(&o.Journal, "journal", o.Journal, "a folder, on a volume, for the journal of what is decided and what becomes of it, at most 50 MB, which the next process goes on with; empty to keep the newest 10,000 decisions in memory only; tenon journal shows it")
	flags.StringVar(&o.ListenAddress, "listen-address", o.ListenAddress, "the IP address that all ports are taken on; 0.0.0.0 or :: for all addresses of the machine; empty for all of them in a pod, and 127.0.0.1 elsewhere")
	flags.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "where metrics are served; 0 for any free port, -1 for none")
	flags.IntVar(&o.HealthProbePort, "health-probe-port", o.HealthProbePort, "where /healthz and /readyz are served; 0 for any free port, -1 for none")
	flags.IntVar(&o.DashboardPort, "dashboard-port", o.DashboardPort, "where the dashboard of the leader is served, over TLS, to those who show a token of the API server's and may get "+dashboardPath+"; 0 for any free port, -1 for none")
	flags.StringVar(&o.DashboardCertFile, "dashboard-tls-cert-file", o.DashboardCertFile, "a file with the certificate that browsers are shown by the dashboard, and those that signed it; read again when it changes; empty for one that is made at the start")
	flags.StringVar(&o.DashboardKeyFile, "dashboard-tls-private-key-file", o.DashboardKeyFile, "a file with the key of that certificate")
	flags.IntVar(&o.KubeClientQPS, "kube-client-qps", o.KubeClientQPS, "requests to the API server per second")
	flags.IntVar(&o.KubeClientBurst, "kube-client-burst", o.KubeClientBurst, "requests to the API server at once")
	flags.BoolVar(&o.EnableProfiling, "enable-profiling", o.EnableProfiling, "serve /debug/pprof/ on the metrics port")
	flags.BoolVar(&o.DisableLeaderElection, "disable-leader-election", o.DisableLeaderElection, "act without being elected; only one controller may run then")
	flags.StringVar(&o.LeaderElectionName, "leader-election-name", o.LeaderElectionName, "name of the Lease by which a leader is elected")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", o.LeaderElectionNamespace, "namespace of that Lease; empty for the controller's own")
	flags.BoolVar(&o.DisableClusterStateObservability, "disable-cluster-state-observability", o.DisableClusterStateObservability, "leave out metrics and events about the state of pods, nodes, pools and claims")
	flags.Int64Var(&o.MemoryLimit, "memory-limit", o.MemoryLimit, "bytes of memory that the controller has; 90 % of it becomes Go's soft limit; -1 for none")
	flags.StringVar(&o.LogLevel, "log-level", o.LogLevel, "debug, info or error")
	flags.StringVar(&o.LogFormat, "log-format", o.LogFormat, "json, or console for people")
	flags.StringVar(&o.LogOutputPaths, "log-output-paths", o.LogOutputPaths, "where the log goes, separated by commas")
	flags.StringVar(&o.LogErrorOutputPaths, "log-error-output-paths", o.LogErrorOutputPaths, "where failures of logging go, separated by commas")
	flags.DurationVar(&o.BatchMaxDuration, "batch-max-duration", o.BatchMaxDuration, "the longest that pending pods wait for others to be planned with")
	flags.DurationVar(&o.BatchIdleDuration, "batch-idle-duration", o.BatchIdleDuration, "pending pods are planned for once no other has come for so long")
	o.engineFlags.addFlags(flags)
	o.awsFlags.addFlags(flags)
	o.azureFlags.addFlags(flags)
	o.clusterAPIFlags.addFlags(flags)
	o.addRightsFlags(flags)
	flags.StringVar(&o.KarpenterService, "karpenter-service", o.KarpenterService, notNeeded+"the controller has no webhooks that would have to be found by its Service")
	flags.BoolVar(&o.DisableControllerWarmup, "disable-controller-warmup", o.DisableControllerWarmup, notNeeded+"followers always keep their caches warm, so that a new leader acts at once")
	flags.IntVar(&o.CPURequests, "cpu-requests", o.CPURequests, notNeeded+"how much is done at a time is bounded by what the API server and the cloud take, not by the controller's CPU")
	flags.BoolVar(&o.LegacyNodeRepair, "legacy-node-repair", o.LegacyNodeRepair, notNeeded+"with the feature gate NodeRepair a node goes at once in either case where its repair policy gives no grace period")
}

// addRightsFlags adds the flags of the settings that need additional rights in every cloud.
func (o *ControllerOptions) addRightsFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.ClusterAutoscalerGrace, "cluster-autoscaler-grace", o.ClusterAutoscalerGrace, "for how long no machine is started for a pod after Cluster Autoscaler has said that it scales a node group up for it; 0 does not ask what it says, anything else needs the rights to list and watch events")
	flags.Var(gatesValue{&o.FeatureGates}, "feature-gates", "features to switch on or off: Name=true,Other=false")
	flags.BoolVar(&o.IgnoreDRARequests, "ignore-dra-requests", o.IgnoreDRARequests, "refuse pods with resource claims; if false, machines are planned for the devices that they claim")
}

// needs reports whether the options need the rights for a setting. The manifests name the setting in the label deploy.RightsFor.
func (o *ControllerOptions) needs(setting string) bool {
	switch setting {
	case "Devices":
		return !o.IgnoreDRARequests
	case "ClusterAutoscaler":
		return o.ClusterAutoscalerGrace > 0
	}
	return o.FeatureGates[setting]
}

// readEnvironment sets flags that were not given from environment variables. An empty variable counts as not set, because an installation's
// template may leave it empty.
func readEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	variables := environment()
	names := make([]string, 0, len(variables))
	for flag := range variables {
		names = append(names, flag)
	}
	slices.Sort(names)
	for _, name := range names {
		flag := flags.Lookup(name)
		value, ok := lookup(variables[name])
		if flag == nil || flag.Changed || !ok || value == "" {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("environment variable %s: %q is not what --%s takes: %w", variables[name], value, name, plain(flag.Value.Type(), err))
		}
	}
	return nil
}

// plain replaces Go's error about a failed conversion by the values that a flag of this type accepts.
func plain(flagType string, err error) error {
	if number, ok := err.(*strconv.NumError); !ok || errors.Is(number.Err, strconv.ErrRange) {
		return err
	}
	if flagType == "bool" {
		return errors.New("it must be true or false")
	}
	return errors.New("it must be a whole number")
}

// check returns an error that names the first wrong flag.
func (o ControllerOptions) check() error {
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"cloud-provider", o.CloudProvider, clouds()},
		{"catalog", o.Catalog, catalog.Names()},
		{"log-level", cmp.Or(o.LogLevel, "info"), []string{"debug", "info", "error"}},
		{"log-format", o.LogFormat, []string{"json", "console"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return wrongChoice(c.flag, c.value, c.allowed)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"batch-max-duration", o.BatchMaxDuration}, {"batch-idle-duration", o.BatchIdleDuration},
		{"boot-delay", o.BootDelay}, {"repair-after", o.RepairAfter},
		{"cluster-autoscaler-grace", o.ClusterAutoscalerGrace},
	} {
		if d.value < 0 {
			return fmt.Errorf("--%s (%s) is %s: it must not be negative", d.flag, environment()[d.flag], d.value)
		}
	}
	for _, p := range []struct {
		flag string
		port int
	}{{"metrics-port", o.MetricsPort}, {"health-probe-port", o.HealthProbePort}, {"dashboard-port", o.DashboardPort}} {
		if p.port > 65535 {
			return fmt.Errorf("--%s (%s) is %d: a port is at most 65535", p.flag, environment()[p.flag], p.port)
		}
	}
	if _, err := netip.ParseAddr(o.ListenAddress); o.ListenAddress != "" && err != nil {
		return fmt.Errorf("%s is %q: it must be an IP address, such as 127.0.0.1, or 0.0.0.0 for all addresses of the machine", flagAndVariable("listen-address"), o.ListenAddress)
	}
	if (o.DashboardCertFile == "") != (o.DashboardKeyFile == "") {
		return fmt.Errorf("%s and %s belong together: give both files or none", flagAndVariable("dashboard-tls-cert-file"), flagAndVariable("dashboard-tls-private-key-file"))
	}
	if err := checkRecord(o.RecordDisruptions); err != nil {
		return fmt.Errorf("%s is %q: %w", flagAndVariable("record-disruptions"), o.RecordDisruptions, err)
	}
	if err := checkRecord(o.Journal); err != nil {
		return fmt.Errorf("%s is %q: %w", flagAndVariable("journal"), o.Journal, err)
	}
	prefers := o.engineFlags
	prefers.CommitmentsFile = "" // an invalid file must not prevent launches: it is reported and ignored
	if err := prefers.check(); err != nil {
		return err
	}
	switch o.CloudProvider {
	case cloudAWS:
		return o.awsFlags.check()
	case cloudAzure:
		config := o.azureConfig()
		return config.Check()
	case cloudClusterAPI:
		return o.clusterAPIFlags.check()
	}
	return nil
}

func wrongChoice(flag, value string, allowed []string) error {
	return fmt.Errorf("%s is %q: it must be %s", flagAndVariable(flag), value, strings.Join(allowed, " or "))
}

// flagAndVariable names a flag together with its environment variable.
func flagAndVariable(flag string) string { return fmt.Sprintf("--%s (%s)", flag, environment()[flag]) }

// readOptions adds the options from the environment and checks all options.
func (o *ControllerOptions) readOptions(flags *pflag.FlagSet) error {
	if err := readEnvironment(flags, os.LookupEnv); err != nil {
		return err
	}
	return o.check()
}
