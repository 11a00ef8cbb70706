package cli

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
	"tenon.sh/oracle"
)

const kubeSchedulerHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func TestKubeSchedulersConfigurationBecomesProfiles(t *testing.T) {
	t.Parallel()
	zone := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}
	for name, c := range map[string]struct {
		text string
		want schedulerConfig
	}{
		"nothing": {"", schedulerConfig{}},
		"default spreads alone": {"podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}",
			schedulerConfig{constraints: []corev1.TopologySpreadConstraint{zone}}},
		"a short document is for every scheduler": {"nodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 2}, {name: memory}]}}\nnodeResourcesBalancedAllocation: {resources: [{name: cpu, weight: 1}]}",
			schedulerConfig{profiles: []engine.SchedulerProfile{{Strategy: engine.MostAllocated, Balanced: []corev1.ResourceName{"cpu"},
				Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 2}, {Name: "memory", Weight: 1}}}}}},
		"no profile": {kubeSchedulerHead, schedulerConfig{profiles: []engine.SchedulerProfile{{SchedulerName: "default-scheduler"}}}},
		"several profiles, fields that change nothing, and a percentage": {kubeSchedulerHead + `
leaderElection: {leaderElect: true}
percentageOfNodesToScore: 30
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 70
- schedulerName: pack
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}
`, schedulerConfig{profiles: []engine.SchedulerProfile{
			{SchedulerName: "default-scheduler", PercentageOfNodesToScore: 70},
			{SchedulerName: "pack", PercentageOfNodesToScore: 30, Strategy: engine.RequestedToCapacityRatio, Shape: []engine.ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
				HardPodAffinityWeight: ptr.To[int64](0), IgnoreTermsOfOthers: true, NoSystemDefaults: true, DefaultConstraints: []corev1.TopologySpreadConstraint{zone}},
		}}},
		"weights: what is said of score goes before what is said of all": {kubeSchedulerHead + `
profiles:
- plugins:
    multiPoint: {enabled: [{name: NodeAffinity, weight: 5}, {name: InterPodAffinity, weight: 7}], disabled: [{name: TaintToleration}]}
    score: {enabled: [{name: NodeAffinity, weight: 3}, {name: TaintToleration}], disabled: [{name: PodTopologySpread}]}
`, schedulerConfig{profiles: []engine.SchedulerProfile{{SchedulerName: "default-scheduler", Unread: []string{"filter TaintToleration is off"},
			Weights: map[string]int64{"NodeAffinity": 3, "InterPodAffinity": 7, "TaintToleration": 1, "PodTopologySpread": 0}}}}},
		"what no replay knows is told": {kubeSchedulerHead + `
extenders: [{urlPrefix: "http://e", filterVerb: f, weight: 1}]
profiles:
- plugins: {score: {enabled: [{name: Ours, weight: 3}]}, filter: {disabled: [{name: NodePorts}]}}
  pluginConfig:
  - {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}
  - {name: Ours, args: {anything: 1}}
`, schedulerConfig{profiles: []engine.SchedulerProfile{{SchedulerName: "default-scheduler", Weights: map[string]int64{},
			Unread: []string{"extender http://e", "addedAffinity of NodeAffinity", "plugin Ours", "filter NodePorts is off"}}}}},
	} {
		got, err := readSchedulerConfig(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, c.want)
		}
	}
}

// Configurations that kube-scheduler refuses are refused, and the error names the place.
func TestConfigurationsThatKubeSchedulerRefusesAreRefused(t *testing.T) {
	t.Parallel()
	scheduler, err := oracle.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fit := func(strategy string) string {
		return "profiles: [{schedulerName: s, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: " + strategy + "}}]}]"
	}
	for text, says := range map[string]string{
		"profile: []": "unknown field",
		"profiles: [{schedulerName: s, colour: red}]":                                                  "colour",
		"profiles: [{schedulerName: s}, {schedulerName: s}]":                                           "two profiles schedulerName s",
		"profiles: [{}, {schedulerName: s}]":                                                           "profile 1 schedulerName",
		"percentageOfNodesToScore: 101":                                                                "percentageOfNodesToScore 101",
		fit("{type: Best}"):                                                                            `profile s NodeResourcesFit "Best" MostAllocated`,
		fit("{resources: [{name: cpu}]}"):                                                              `type ""`,
		fit("{type: MostAllocated, resources: [{name: cpu, weight: 101}]}"):                            "weight cpu 101",
		fit("{type: MostAllocated, resources: [{name: cpu, weight: -1}]}"):                             "weight cpu -1",
		fit("{type: RequestedToCapacityRatio}"):                                                        "shape",
		fit("{type: LeastAllocated, requestedToCapacityRatio: {shape: [{utilization: 0, score: 1}]}}"): "requestedToCapacityRatio",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: 1}, {utilization: 50, score: 2}]}}"): "point 2",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 101, score: 1}]}}"):                             "utilization 101",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 11}]}}"):                              "score 11",
		fit("{type: MostAllocated, shapes: 1}"): "shapes",
		"profiles: [{schedulerName: s, pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]":                                                                                   "hardPodAffinityWeight 101",
		"profiles: [{schedulerName: s, pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]}]":                                                           "cpu 2",
		"profiles: [{schedulerName: s, pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu}]}}]}]":                                                         "cpu twice",
		"profiles: [{schedulerName: s, pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]}]":                       "defaultingType List",
		"profiles: [{schedulerName: s, pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]}]": "number 1 maxSkew",
		"profiles: [{schedulerName: s, pluginConfig: [{name: InterPodAffinity, args: {}}, {name: InterPodAffinity, args: {}}]}]":                                                                         "InterPodAffinity twice",
	} {
		text = kubeSchedulerHead + text
		_, err := readSchedulerConfig(text)
		if err == nil {
			t.Errorf("accepted\n%s", text)
			continue
		}
		for _, part := range append(strings.Fields(says), "--scheduler-config", "SCHEDULER_CONFIG") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %s", err, part)
			}
		}
		if err := scheduler.Configure(&engine.Snapshot{}, text); err == nil {
			t.Errorf("kube-scheduler itself accepts\n%s", text)
		}
	}
	for _, head := range []string{"kind: Pod", "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration", "apiVersion: v1"} {
		if _, err := readSchedulerConfig(head); err == nil || !strings.Contains(err.Error(), "KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1") {
			t.Errorf("%s: %v", head, err)
		}
	}
}
