package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// rankings are configurations of kube-scheduler, as documents and as values of the engine.
var rankings = map[string]struct {
	document string // the profile, without its name
	profile  engine.SchedulerProfile
}{
	"default": {"", engine.SchedulerProfile{}},
	"MostAllocated": {`
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
`, engine.SchedulerProfile{Strategy: engine.MostAllocated}},
	"LeastAllocated of some resources": {`
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 5}, {name: memory}, {name: ephemeral-storage, weight: 3}, {name: example.com/gpu, weight: 7}, {name: pods}]}}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: memory}, {name: cpu}, {name: ephemeral-storage}]}
`, engine.SchedulerProfile{
		Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 5}, {Name: "memory", Weight: 1}, {Name: "ephemeral-storage", Weight: 3}, {Name: "example.com/gpu", Weight: 7}, {Name: "pods", Weight: 1}},
		Balanced:  []corev1.ResourceName{"memory", "cpu", "ephemeral-storage"},
	}},
	"RequestedToCapacityRatio": {`
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 2}, {name: memory, weight: 1}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 60, score: 10}, {utilization: 90, score: 3}]}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu}]}
`, engine.SchedulerProfile{
		Strategy: engine.RequestedToCapacityRatio, Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 2}, {Name: "memory", Weight: 1}},
		Shape: []engine.ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 60, Score: 10}, {Utilization: 90, Score: 3}}, Balanced: []corev1.ResourceName{"cpu"},
	}},
	"RequestedToCapacityRatio that scores little use with 0": {`
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 2}, {name: memory, weight: 1}], requestedToCapacityRatio: {shape: [{utilization: 30, score: 0}, {utilization: 100, score: 10}]}}}
  plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 90}]}
`, engine.SchedulerProfile{
		Strategy: engine.RequestedToCapacityRatio, Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 2}, {Name: "memory", Weight: 1}},
		Shape: []engine.ShapePoint{{Utilization: 30, Score: 0}, {Utilization: 100, Score: 10}}, Weights: map[string]int64{"NodeResourcesFit": 90},
	}},
	"required affinity does not draw": {`
  plugins:
    score: {enabled: [{name: InterPodAffinity, weight: 90}]}
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 0}
`, engine.SchedulerProfile{Weights: map[string]int64{"InterPodAffinity": 90}, HardPodAffinityWeight: ptr.To[int64](0)}},
	"other weights": {`
  plugins:
    multiPoint: {enabled: [{name: InterPodAffinity, weight: 9}, {name: NodeAffinity, weight: 4}]}
    score: {enabled: [{name: NodeResourcesFit, weight: 3}, {name: NodeAffinity, weight: 6}], disabled: [{name: NodeResourcesBalancedAllocation}, {name: TaintToleration}]}
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 50, ignorePreferredTermsOfExistingPods: true}
`, engine.SchedulerProfile{
		Weights:               map[string]int64{"InterPodAffinity": 9, "NodeAffinity": 6, "NodeResourcesFit": 3, "NodeResourcesBalancedAllocation": 0, "TaintToleration": 0},
		HardPodAffinityWeight: ptr.To[int64](50), IgnoreTermsOfOthers: true,
	}},
	"nothing but packing": {`
  plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 1}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  - name: PodTopologySpread
    args: {defaultingType: List}
`, engine.SchedulerProfile{
		Strategy: engine.MostAllocated, Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 1}}, NoSystemDefaults: true,
		Weights: map[string]int64{"TaintToleration": 0, "NodeAffinity": 0, "InterPodAffinity": 0, "PodTopologySpread": 0, "NodeResourcesBalancedAllocation": 0},
	}},
}

// Pods name one of two schedulers. One has the default profile. Each pod is scored by the profile of its scheduler.
func TestAReplayChoosesANodeThatKubeSchedulerScoresBestByItsConfiguration(t *testing.T) {
	t.Parallel()
	for name, ranking := range rankings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := open(t)
			document := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: plain\n- schedulerName: ours\n" + ranking.document
			profile := ranking.profile
			profile.SchedulerName = "ours"
			opt := engine.Options{Profiles: []engine.SchedulerProfile{{SchedulerName: "plain"}, profile}}
			chosen, decided := 0, 0
			for seed := uint64(1); decided < 150 && seed < 400; seed++ {
				c, d := rankAll(t, live, document, opt, seed)
				chosen, decided = chosen+c, decided+d
			}
			if decided < 150 {
				t.Errorf("of %d pods only %d had a choice between nodes of different worth", chosen, decided)
			}
		})
	}
}

// rankAll lets all pods of a random cluster land one after another. It counts the pods, and the pods for which the nodes had different scores.
func rankAll(t *testing.T, live *Scheduler, document string, opt engine.Options, seed uint64) (chosen, decided int) {
	s := Draw(seed)
	if err := live.Configure(s, document); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	for i, pod := range slices.Clone(s.Pods) {
		if !kube.IsPending(pod) || len(pod.Spec.Volumes) > 0 || len(pod.Spec.ResourceClaims) > 0 {
			continue
		}
		pod = pod.DeepCopy()
		pod.Spec.SchedulerName = []string{"ours", "ours", "plain"}[i%3]
		scores, err := live.Score(pod.DeepCopy(), names...)
		if err != nil {
			t.Fatal(err)
		}
		if len(scores) == 0 {
			continue
		}
		// All nodes exist, so that both count the same domains.
		replay := scheduler.Replay{Snapshot: s, Options: opt, Pods: []*corev1.Pod{pod}, On: func(*corev1.Node) bool { return true }}
		landing := replay.Land()
		if len(landing.Placements) == 0 {
			t.Errorf("seed %d, pod %s: the replay lands it nowhere, kube-scheduler may choose among\n%s", seed, pod.Name, lines(scores))
			continue
		}
		node := landing.Placements[0].Node
		best := slices.MaxFunc(scores, func(a, b Score) int { return int(a.Total - b.Total) })
		worst := slices.MinFunc(scores, func(a, b Score) int { return int(a.Total - b.Total) })
		at := slices.IndexFunc(scores, func(x Score) bool { return x.Node == node })
		if at < 0 {
			if v, err := live.Ask(pod.DeepCopy(), node); err != nil || v[0].Plugin != "NodeDeclaredFeatures" { // a replay does not know this plugin
				t.Errorf("seed %d, pod %s: the replay chooses %s, which kube-scheduler refuses: %v %v", seed, pod.Name, node, v, err)
			}
			continue
		}
		if scores[at].Total != best.Total {
			t.Fatalf("seed %d, pod %s of %s: the replay chooses %s, kube-scheduler %s:\n%s", seed, pod.Name, pod.Spec.SchedulerName, node, best.Node, lines(scores))
		}
		chosen++
		if best.Total > worst.Total {
			decided++
		}
		if err := live.Bind(pod.DeepCopy(), node); err != nil {
			t.Fatal(err)
		}
		bound := pod.DeepCopy()
		bound.Spec.NodeName = node
		next := *s
		next.Pods = slices.Clone(s.Pods)
		next.Pods[slices.IndexFunc(next.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })] = bound
		s = &next
	}
	return chosen, decided
}

func lines(scores []Score) string {
	var b strings.Builder
	for _, s := range scores {
		fmt.Fprintf(&b, "%s %d %v\n", s.Node, s.Total, s.Plugins)
	}
	return b.String()
}
