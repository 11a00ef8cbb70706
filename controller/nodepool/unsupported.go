package nodepool

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

// Unsupported lists the parts of the specs of the pool and its class that are accepted and have no effect; static says that pools of
// fixed size are kept at their size. The class may be nil.
func Unsupported(pool *v1.NodePool, class *engine.Class, static bool) []string {
	var out []string
	if pool.Spec.Replicas != nil && !static {
		out = append(out, "spec.replicas: pools of fixed size are kept at their size only with the feature gate StaticCapacity")
	}
	return append(out, explain.DeviceProblems(pool, class)...)
}

// noteUnsupported shows on the pool which accepted parts have no effect, and logs changes.
func (r *Reconciler) noteUnsupported(ctx context.Context, pool *v1.NodePool, class *engine.Class) {
	message := strings.Join(Unsupported(pool, class, r.StaticCapacity), "; ")
	if message != r.unsupported[pool.Name] {
		r.unsupported[pool.Name] = message
		if message != "" {
			log.FromContext(ctx).Info("nodepool asks for what is not supported yet", "NodePool", pool.Name, "accepted-without-effect", message)
		}
	}
	now := r.Cluster.Clock.Now()
	if message == "" {
		v1.RemoveCondition(pool, v1.ConditionNotSupported, now)
		return
	}
	v1.SetCondition(pool, v1.ConditionNotSupported, metav1.ConditionTrue, v1.ConditionNotSupported, message, now)
}
