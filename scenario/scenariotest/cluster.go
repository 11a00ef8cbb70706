package scenariotest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario"
)

// Pod returns the snapshot's pod with this name. It returns nil if there is none.
func Pod(s *engine.Snapshot, name string) *corev1.Pod {
	for _, p := range s.Pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Cluster returns the snapshot of lines in the scenario notation.
func Cluster(t *testing.T, lines ...string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

// Waiting returns the snapshot's pods without a node.
func Waiting(s *engine.Snapshot) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

func ID(p *corev1.Pod) engine.PodID {
	return engine.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// Landed writes a landing as "node: pods; …; stranded: pods", sorted by name.
func Landed(l scheduler.Landing) string {
	at := map[string][]string{}
	for _, p := range l.Placements {
		at[p.Node] = append(at[p.Node], p.Pod.Name)
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(at)) {
		slices.Sort(at[node])
		parts = append(parts, node+": "+strings.Join(at[node], " "))
	}
	if len(l.Stranded) > 0 {
		var names []string
		for _, id := range l.Stranded {
			names = append(names, id.Name)
		}
		slices.Sort(names)
		parts = append(parts, "stranded: "+strings.Join(names, " "))
	}
	return strings.Join(parts, "; ")
}

// ReadyFor sets the time for which all machines of the snapshot have been ready.
func ReadyFor(s *engine.Snapshot, ago time.Duration) {
	for _, c := range s.NodeClaims {
		v1.GetCondition(c, v1.ConditionInitialized).LastTransitionTime = metav1.NewTime(s.Now.Add(-ago))
	}
}

// WriteBackoffs writes the plan's launch backoffs to the pools.
func WriteBackoffs(s *engine.Snapshot, plan *engine.Plan) {
	for _, b := range plan.Backoffs {
		for _, pool := range s.NodePools {
			if pool.Name == b.NodePool {
				pool.Annotations = map[string]string{v1.LaunchBackoffAnnotationKey: b.Text}
			}
		}
	}
}

// Unfit returns a cluster with a machine that was started for a pod and differs from the plan. It has been initialized for a few seconds:
// longer than the wait for temporary taints.
func Unfit(t *testing.T, differs func(*engine.Snapshot), more ...string) *engine.Snapshot {
	t.Helper()
	s := Cluster(t, append([]string{
		"pool general",
		"type two cpu=2 mem=4Gi ephemeral-storage=20Gi zones=a price=0.05",
		"node n pool=general type=two zone=a age=2m registered=90s planned=web-1",
	}, more...)...)
	ReadyFor(s, 5*time.Second)
	differs(s)
	return s
}

// Tainted returns a function that adds a taint to the first node.
func Tainted(key string) func(*engine.Snapshot) {
	return func(s *engine.Snapshot) {
		s.Nodes[0].Spec.Taints = append(s.Nodes[0].Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

// Bought lists the instance types of the plan's launches.
func Bought(plan *engine.Plan) []string {
	var out []string
	for _, l := range plan.Launches {
		out = append(out, l.InstanceTypes...)
	}
	return out
}
