// Package scenariotest gives tests clusters: those that a few lines of the scenario notation describe, those that are drawn by chance, and
// those of the engine's scenario files. It is for tests of packages below and above package scenario; package enginetest, which does
// without the notation, is for tests inside the packages that scenario imports.
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

// Pod is the snapshot's pod of that name, nil if there is none.
func Pod(s *engine.Snapshot, name string) *corev1.Pod {
	for _, p := range s.Pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Cluster is the snapshot that lines of the scenario notation describe.
func Cluster(t *testing.T, lines ...string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

// Waiting are the snapshot's pods that run nowhere.
func Waiting(s *engine.Snapshot) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

func ID(p *corev1.Pod) engine.PodID {
	return engine.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// Landed writes a landing as "node: pods; …; stranded: pods", by name.
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

// ReadyFor makes all machines of the snapshot ready since so long ago.
func ReadyFor(s *engine.Snapshot, ago time.Duration) {
	for _, c := range s.NodeClaims {
		v1.GetCondition(c, v1.ConditionInitialized).LastTransitionTime = metav1.NewTime(s.Now.Add(-ago))
	}
}

// WriteBackoffs writes on the pools what the plan wants written there.
func WriteBackoffs(s *engine.Snapshot, plan *engine.Plan) {
	for _, b := range plan.Backoffs {
		for _, pool := range s.NodePools {
			if pool.Name == b.NodePool {
				pool.Annotations = map[string]string{v1.LaunchBackoffAnnotationKey: b.Text}
			}
		}
	}
}
