package disrupt_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/disrupt"
	"tenon.sh/engine"
)

func TestANodeAtTheLimitOfItsPoolGoesFirstIfTheGateSaysSo(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		pool := clustertest.Pool("general")
		pool.Spec.Replicas, pool.Spec.Limits = new(int64(1)), v1.Limits{v1.ResourceNodes: resource.MustParse("1")}
		claim, node := clustertest.Machine(pool, "general-a", old)
		v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "NodePoolDrifted", "", old)
		w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node)
		r := disrupt.New(disrupt.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics, Options: engine.Options{TerminateFirstDrift: on}})
		w.Must(r.Reconcile(w))
		claim, _ = get(w, "general-a")
		if gone := claim.DeletionTimestamp != nil; gone != on {
			t.Errorf("gate %v: deleted %v", on, gone)
		}
		if !on {
			continue
		}
		decided(w, `consolidation_type="",decision="terminate-first"`, "drifted")
		if n := metric(w, `karpenter_voluntary_disruption_terminate_first_decisions_total{nodepool="general",reason="drifted",terminate_first_reason="static-at-limit"}`); n != 1 {
			t.Errorf("counted %v times", n)
		}
	}
}
