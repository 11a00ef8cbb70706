package budget

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func FuzzAnnotations(f *testing.F) {
	for _, text := range []string{"true", "2026-01-01T00:00:00Z", "10%", `[{"nodes":"1"}]`, "0 14 * * sun for 3h in Europe/Zurich", "TZ=0 for 1h", "@every 1s for 1h", " in  for "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pool := enginetest.LifePool(0)
		pool.Annotations = map[string]string{}
		for _, a := range v1.Annotations() {
			pool.Annotations[a.Key] = text
		}
		s := &engine.Snapshot{Now: enginetest.LifeStart, NodePools: []*v1.NodePool{pool}}
		rules := RulesOf(s, pool)
		rules.VerbAllowance(s.Now, v1.Empty, PoolNodes{Total: 3}, true)
		pod := enginetest.LifePod("a")
		pod.Annotations = pool.Annotations
		s.Pods = []*corev1.Pod{pod}
		if r := WindowOf(s, pod, time.UTC); text != "" && r.OK() {
			if _, err := readMoveWindow(text); err != nil {
				t.Errorf("%q cannot be read and does not protect the pod", text)
			}
		}
		TimeZones(s)
	})
}
