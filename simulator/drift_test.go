package simulator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/scenario"
)

// mixed draws six Deployments of 2 to 20 replicas whose pods want to be spread, together or apart, on nodes that may all drift at once.
func mixed(seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 0xd21f7))
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	var text strings.Builder
	fmt.Fprintln(&text, "now 2026-03-02T00:00:00Z\ncloud aws-typical\npool general consolidate-after=Never budget=100%")
	for _, f := range []struct {
		name           string
		memory, perCPU float64
	}{{"c", 2, 0.0425}, {"m", 4, 0.048}, {"r", 8, 0.063}} {
		for _, cpu := range []float64{2, 4, 8, 16} {
			fmt.Fprintf(&text, "type %s%g cpu=%g mem=%gGi zones=a,b,c price=%g\n", f.name, cpu, cpu, f.memory*cpu, f.perCPU*cpu)
		}
	}
	for i := range 6 {
		other := fmt.Sprintf("app:d%d", dice.IntN(6))
		rule := pick("", "spread=zone", "spread=(zone of="+other+")", "spread=hostname", "spread=(hostname soft)", "together=(hostname weight=50)", "together=(zone weight=50)",
			"apart=hostname", "apart=(hostname weight=50)", "together=(zone of="+other+" weight=20)")
		fmt.Fprintf(&text, "deployment d%d x%d cpu=%s mem=%s %s start=%ds\n", i, 2+dice.IntN(19), pick("100m", "250m", "500m", "1", "1500m"), pick("128Mi", "512Mi", "1Gi", "2Gi", "4Gi"), rule, 2+dice.IntN(20))
	}
	return text.String()
}

// All nodes of a mixed workload drift at once, and budgets let all go. Nearly all are replaced in the first round, none is left, and next to nothing
// that was bought is thrown away, though some machines never come.
func TestLawADriftOfEverythingIsBoughtOnce(t *testing.T) {
	t.Parallel()
	draws := int(enginetest.Draws(300))
	type outcome struct{ nodes, bought, thrown, kept, takenBack, left int }
	list := make([]outcome, draws)
	t.Run("draws", func(t *testing.T) {
		for i := range list {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				file, err := scenario.Parse(mixed(uint64(i + 1)))
				if err != nil {
					t.Fatal(err)
				}
				w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Options: file.Options, Seed: uint64(i + 1), For: 3 * time.Hour, Audit: true})
				if err != nil {
					t.Fatal(err)
				}
				goOn(t, w, 30*time.Minute)
				hash := changeTemplate(w)
				o, launched, kept := &list[i], w.meter.Launched, map[string]bool{}
				o.nodes = len(w.cluster.claims.list)
				for range 90 {
					goOn(t, w, time.Minute)
					o.left = 0
					for _, c := range w.cluster.claims.list {
						if c.Annotations[v1.NodePoolHashAnnotationKey] == hash {
							continue
						}
						o.left++
						if c.Annotations[v1.DisruptionBackoffAnnotationKey] != "" {
							kept[c.Name] = true
						}
					}
				}
				o.bought, o.thrown, o.kept, o.takenBack = w.meter.Launched-launched, w.meter.Removed["replacement failed"], len(kept), w.meter.TakenBack
			})
		}
	})
	var sum outcome
	for i, o := range list {
		sum = outcome{sum.nodes + o.nodes, sum.bought + o.bought, sum.thrown + o.thrown, sum.kept + o.kept, sum.takenBack + o.takenBack, sum.left + o.left}
		if o.left > 0 || o.thrown > max(2, o.bought/5) {
			t.Errorf("seed %d: %+v", i+1, o)
		}
	}
	t.Logf("%d worlds: %+v", draws, sum)
	if sum.kept > max(sum.nodes/20, 1) || sum.takenBack > max(draws/20, 1) || sum.thrown > sum.bought/50 {
		t.Errorf("%d worlds: %+v; want at most one in 20 nodes to be kept at first, one disruption in 20 worlds to be taken back, and one in 50 machines to be thrown away", draws, sum)
	}
}

// changeTemplate gives the pool's machines another label, and returns the new fingerprint of its template.
func changeTemplate(w *World) string {
	pool := w.cluster.base.NodePools[0].DeepCopy()
	pool.Spec.Template.Labels = map[string]string{"image": "new"}
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1.NodePoolHashAnnotationKey, pool.Hash())
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1.NodePoolHashVersionAnnotationKey, v1.HashVersion)
	w.cluster.base.NodePools = []*v1.NodePool{pool}
	for _, c := range w.cluster.claims.list {
		w.pending.claims.add(c.Name)
	}
	return pool.Hash()
}
