package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

// landOn replays how the pods would land on the existing nodes, without removed ones.
func landOn(s *engine.Snapshot, pods []*corev1.Pod, removed map[string]bool) scheduler.Landing {
	r := scheduler.Replay{Snapshot: s, Pods: pods, Removed: removed}
	return r.Land()
}

// The order of the queue is that of the statements' ages: a larger age comes first.
func TestPodsLandWhereTheScoresSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lines []string
		edit  func(*engine.Snapshot)
		want  string
	}{
		{
			// LeastAllocated: after p1 on the large node (cpu 1 of 8 leaves 87), the small one still gives 75 at most.
			name:  "the node with the larger share left over wins",
			lines: []string{"node large cpu=8 mem=16Gi", "node small cpu=4 mem=8Gi", "pods p x2 cpu=1 mem=2Gi"},
			want:  "large: p-1 p-2",
		},
		{
			name:  "equal nodes share equal pods",
			lines: []string{"node n1 cpu=4 mem=8Gi", "node n2 cpu=4 mem=8Gi", "pods p x4 cpu=1 mem=2Gi"},
			want:  "2 2",
		},
		{
			// n1 would be left with 50 cpu, 87 memory: 68, n2 with 25 and 25: 25. Evenness: n1 from 100 to 81, which gives
			// 65; n2 from 81 (cpu 50 %, memory 12 %: 81) to 75 cpu, 75 memory: 100, which gives 84. n1 133, n2 109.
			name: "least allocated outweighs balance",
			lines: []string{"node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi", "pod run cpu=4 mem=1Gi node=n2",
				"pod p cpu=2 mem=5Gi"},
			want: "n1: p",
		},
		{
			// Full by 3 of 4, n2 gives 25+50 at least; a taint that is not tolerated costs n1 300 of the 200 it can have.
			name: "a PreferNoSchedule taint outweighs resources",
			lines: []string{"node n1 cpu=64 mem=128Gi taint=old=yes:PreferNoSchedule", "node n2 cpu=4 mem=8Gi", "pod run cpu=2 mem=1Gi node=n2",
				"pods p x3 cpu=1 mem=2Gi"},
			want: "n1: p-3; n2: p-1 p-2",
		},
		{
			// Preferred affinity: 200 for n2, more than the 200 of resources can make good only if n2 had none left.
			name:  "preferred node affinity draws",
			lines: []string{"node n1 cpu=8 mem=16Gi zone=a", "node n2 cpu=4 mem=8Gi zone=b", "pod p cpu=1 mem=2Gi prefer=(zone in (b) weight=1)"},
			want:  "n2: p",
		},
		{
			// With one pod in zone b, zone a has the score 100 and b 100·(1+0−1)/1 = 0, which is 200 points.
			name: "soft spread outweighs resources",
			lines: []string{"node n1 cpu=4 mem=8Gi zone=a", "node n2 cpu=16 mem=32Gi zone=b", "pod run cpu=3 mem=6Gi node=n1",
				"pods p x2 cpu=500m mem=1Gi spread=(zone soft)"},
			want: "n1: p-2; n2: p-1",
		},
		{
			// p-1 and p-3 find equal counts and take the larger share left over. For p-2 the raw figures of hosts and the one
			// zone are 8 (1·ln 4+2 + 1·ln 3+4) and 7, that is 87 and 100, twice; resources speak 98 to 87 for n1. For p-4
			// it is 91 to 100, twice, against 97 to 75.
			name:  "pods behind a service spread over hosts",
			lines: []string{"node n1 cpu=64 mem=128Gi zone=a", "node n2 cpu=4 mem=8Gi zone=a", "pods p x4 cpu=500m mem=1Gi"},
			edit: func(s *engine.Snapshot) {
				s.Services = append(s.Services, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Pods[0].Namespace, Name: "p"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "p"}}})
			},
			want: "n1: p-1 p-3 p-4; n2: p-2",
		},
		{
			name:  "pods that nothing selects do not",
			lines: []string{"node n1 cpu=64 mem=128Gi zone=a", "node n2 cpu=4 mem=8Gi zone=a", "pods p x4 cpu=500m mem=1Gi"},
			want:  "n1: p-1 p-2 p-3 p-4",
		},
		{
			name: "the required affinity of a running pod draws the pods that it is about",
			lines: []string{"node n1 cpu=8 mem=16Gi", "node n2 cpu=8 mem=16Gi", "pod p-0 cpu=1 mem=1Gi labels=app:p together=hostname node=n2",
				"pod p cpu=500m mem=1Gi"},
			edit: func(s *engine.Snapshot) {
				for _, p := range s.Pods {
					p.Labels = map[string]string{"app": "p"}
					if p.Spec.Affinity != nil {
						p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels = map[string]string{"app": "p"}
					}
				}
			},
			want: "n2: p",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, c.lines...)
			if c.edit != nil {
				c.edit(s)
			}
			l := landOn(s, scenariotest.Waiting(s), nil)
			got := scenariotest.Landed(l)
			if c.want == "2 2" { // which pod goes where is a matter of dice
				got = fmt.Sprint(strings.Count(strings.Split(got, ";")[0], "p-"), strings.Count(strings.Split(got, ";")[1], "p-"))
			}
			if got != c.want {
				t.Errorf("landed as %q, want %q", got, c.want)
			}
		})
	}
}

func TestPodsLandOnlyWhereTheFiltersLetThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"resources", []string{"node n1 cpu=1 mem=8Gi", "node n2 cpu=4 mem=8Gi", "pods p x3 cpu=2 mem=1Gi"}, "n2: p-1 p-2; stranded: p-3"},
		{"pod count", []string{"node n1 cpu=8 mem=8Gi pods=2", "pods p x3 cpu=10m mem=1Mi"}, "n1: p-1 p-2; stranded: p-3"},
		{"taints", []string{"node n1 cpu=8 mem=8Gi taint=a=b:NoSchedule", "pod p cpu=1", "pod q cpu=1 tolerate=a"}, "n1: q; stranded: p"},
		{"cordon", []string{"node n1 cpu=8 mem=8Gi cordoned", "pod p cpu=1"}, "stranded: p"},
		{"node selector", []string{"node n1 cpu=8 mem=8Gi zone=a", "pod p cpu=1 select=zone:b", "pod q cpu=1 zone notin (b)"}, "n1: q; stranded: p"},
		{"host ports", []string{"node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi", "pod run cpu=1 port=80 node=n1", "pods p x2 cpu=1 port=80"}, "n2: p-1; stranded: p-2"},
		{"hostname anti-affinity", []string{"node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi", "pods p x3 cpu=1 apart=hostname"}, "one each, one stranded"},
		{"zone anti-affinity", []string{"node n1 cpu=8 mem=8Gi zone=a", "node n2 cpu=8 mem=8Gi zone=a", "pods p x2 cpu=1 apart=zone"}, "one, one stranded"},
		{"anti-affinity of a pod that runs", []string{"node n1 cpu=8 mem=8Gi", "pod run cpu=1 node=n1 apart=(hostname of=app:p)", "pod p cpu=1", "pod q cpu=1"}, "n1: q; stranded: p"},
		{"anti-affinity to a pod that runs", []string{"node n1 cpu=8 mem=8Gi", "pod run cpu=1 node=n1", "pod p cpu=1 apart=(hostname of=app:run)", "pod q cpu=1"}, "n1: q; stranded: p"},
		{"zone anti-affinity of a pod that runs", []string{"node n1 cpu=8 mem=8Gi zone=a", "node n2 cpu=8 mem=8Gi zone=a", "pod run cpu=1 node=n1 apart=(zone of=app:p)", "pod p cpu=1"}, "stranded: p"},
		{"affinity to itself starts anywhere and stays", []string{"node n1 cpu=8 mem=8Gi zone=a", "node n2 cpu=8 mem=8Gi zone=b", "pods p x4 cpu=1 together=zone"}, "all on one"},
		{"hard spread", []string{"node n1 cpu=8 mem=8Gi zone=a", "node n2 cpu=1 mem=8Gi zone=b", "pods p x4 cpu=1 spread=zone"}, "2 and 1, one stranded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, c.lines...)
			l := landOn(s, scenariotest.Waiting(s), nil)
			got := scenariotest.Landed(l)
			at := map[string]int{}
			for _, p := range l.Placements {
				at[p.Node]++
			}
			switch c.want {
			case "one each, one stranded":
				if at["n1"] != 1 || at["n2"] != 1 || len(l.Stranded) != 1 {
					t.Errorf("landed as %q", got)
				}
			case "one, one stranded":
				if len(l.Placements) != 1 || len(l.Stranded) != 1 {
					t.Errorf("landed as %q", got)
				}
			case "all on one":
				if len(at) != 1 || len(l.Placements) != 4 {
					t.Errorf("landed as %q", got)
				}
			case "2 and 1, one stranded":
				if at["n1"] != 2 || at["n2"] != 1 || len(l.Stranded) != 1 {
					t.Errorf("landed as %q", got)
				}
			default:
				if got != c.want {
					t.Errorf("landed as %q, want %q", got, c.want)
				}
			}
		})
	}
}

// The API server merges matchLabelKeys into a term's selector when it creates the pod; kube-scheduler relies on that.
func TestAReplayGoesByMergedLabelKeysAndNotByLaterLabels(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi", "pod run cpu=1 node=n1", "pod p cpu=1 apart=(hostname of=app:run)", "pod q cpu=1 together=(hostname of=app:run)")
	for _, p := range s.Pods {
		p.Labels["hash"] = "1"
		merge := func(term *corev1.PodAffinityTerm) {
			term.MatchLabelKeys = []string{"hash"}
			term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}})
			p.Labels["hash"] = "2"
		}
		if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
			merge(&a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0])
		} else if a != nil {
			merge(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0])
		}
	}
	if got := scenariotest.Landed(landOn(s, scenariotest.Waiting(s), nil)); got != "n1: q; n2: p" {
		t.Errorf("landed as %q", got)
	}
}

// A file may hold terms that an API server refuses; kube-scheduler passes over them.
func TestAReplayPassesOverNodeTermsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi zone=a", "pod p cpu=1 zone in (a)", "pod q cpu=1 zone in (a)")
	for i, term := range []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn}}},
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.namespace", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}},
	} {
		terms := &s.Pods[i].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		*terms = append(*terms, term)
		s.Nodes[0].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("64") // so that n1 would be the better one
	}
	if got := scenariotest.Landed(landOn(s, scenariotest.Waiting(s), nil)); got != "n2: p q" {
		t.Errorf("landed as %q", got)
	}
}

func TestAPodThatNeedsALaterOneIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=8 mem=8Gi", "node n2 cpu=8 mem=8Gi", "pod first cpu=1 age=9m together=hostname", "pod second cpu=1 age=1m")
	for _, p := range s.Pods {
		if a := p.Spec.Affinity; a != nil {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels = map[string]string{"app": "second"}
		}
	}
	l := landOn(s, scenariotest.Waiting(s), nil)
	if len(l.Placements) != 2 || l.Placements[0].Pod.Name != "second" || l.Placements[0].Node != l.Placements[1].Node {
		t.Errorf("landed as %v", l.Placements)
	}
}

func TestPriorityComesBeforeAge(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=1 mem=8Gi", "pod old cpu=1 age=9m", "pod high cpu=1 age=1m priority=10")
	if got := scenariotest.Landed(landOn(s, scenariotest.Waiting(s), nil)); got != "n1: high; stranded: old" {
		t.Errorf("landed as %q", got)
	}
}

func TestPodsOfRemovedNodesLandElsewhere(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=2 mem=8Gi", "node n2 cpu=2 mem=8Gi", "node n3 cpu=2 mem=8Gi",
		"pods p x2 cpu=1 node=n1", "pod q cpu=1 node=n2", "pod r cpu=1500m node=n3")
	var moved []*corev1.Pod
	for _, p := range s.Pods {
		if p.Spec.NodeName == "n1" {
			moved = append(moved, p)
		}
	}
	l := landOn(s, moved, map[string]bool{"n1": true})
	if got := scenariotest.Landed(l); got != "n2: p-1; stranded: p-2" {
		t.Errorf("landed as %q", got)
	}
}

func TestDaemonSetsTakeTheirRoomBeforePodsLand(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool m", "type four cpu=4 mem=64Gi zones=a price=0.1", "node n1 pool=m type=four zone=a",
		"daemonset d cpu=1 mem=1Gi", "pods p x4 cpu=1 mem=1Gi")
	l := landOn(s, scenariotest.Waiting(s), nil)
	if len(l.Placements) != 3 || len(l.Stranded) != 1 {
		t.Errorf("landed as %q", scenariotest.Landed(l))
	}
}

func TestTerminatingPodsHoldRoomButDoNotCountForSpread(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node n1 cpu=2 mem=8Gi zone=a", "node n2 cpu=2 mem=8Gi zone=b",
		"pod p-0 cpu=1 labels=app:p node=n1 deleting", "pod p-9 cpu=2 labels=app:p node=n2 deleting", "pods p x1 cpu=1 spread=zone")
	for _, p := range s.Pods {
		p.Labels = map[string]string{"app": "p"}
	}
	if got := scenariotest.Landed(landOn(s, scenariotest.Waiting(s), nil)); got != "n1: p-1" {
		t.Errorf("landed as %q", got)
	}
}

// A DaemonSet's next pod will request the same as its newest pod, whose requests may differ from the template's.
func TestRoomIsKeptForWhatTheNewestPodOfADaemonSetRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cpu  string
		room bool
	}{{"100m", true}, {"1", false}} {
		s := scenariotest.Cluster(t,
			"pool general",
			"type two cpu=2 mem=4Gi price=0.05",
			"daemonset agent cpu=100m",
			"node n1 pool=general type=two zone=a cordoned",
			"node n2 pool=general type=two zone=a",
			"pod agent-1 cpu="+c.cpu+" node=n1",
			"pods web x1 cpu=1500m")
		for _, pod := range s.Pods {
			if pod.Name == "agent-1" {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: s.DaemonSets[0].UID}}
			}
		}
		if landed := landOn(s, scenariotest.Waiting(s), nil); (len(landed.Placements) == 1) != c.room {
			t.Errorf("the agent takes %s of 2 cpu: web lands %v, stranded %v", c.cpu, landed.Placements, landed.Stranded)
		}
	}
}

// A replay of the present ignores future machines and the later state of starting nodes, and DaemonSets make no pods in it.
func TestAReplayOfNowTakesNodesAsTheyAre(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool m", "type four cpu=4 mem=16Gi zones=a price=0.1", "claim c1 pool=m type=four zone=a",
		"node joins pool=m type=four zone=a taint=node.kubernetes.io/not-ready:NoSchedule", "node ready cpu=2 mem=8Gi", "daemonset agent cpu=1 mem=64Mi",
		"pods p x3 cpu=1 mem=1Gi")
	joins := s.Nodes[slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == "joins" })]
	delete(joins.Labels, v1.InitializedLabelKey)
	if got := scenariotest.Landed((&scheduler.Replay{Snapshot: s, Pods: scenariotest.Waiting(s)}).Land()); strings.Contains(got, "stranded") {
		t.Errorf("once all is ready: %s", got)
	}
	for _, c := range []struct {
		name string
		on   func(n *corev1.Node) bool
		want string
	}{
		{"all nodes", func(*corev1.Node) bool { return true }, "ready: p-1 p-2; stranded: p-3"},
		{"all but one", func(n *corev1.Node) bool { return n.Name != "ready" }, "stranded: p-1 p-2 p-3"},
	} {
		r := scheduler.Replay{Snapshot: s, Pods: scenariotest.Waiting(s), On: c.on}
		if got := scenariotest.Landed(r.Land()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
