package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/cluster"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
)

// evictions remembers for a moment which pods were evicted, from all nodes, until the cache shows their deletion, because nodes that
// drain at the same time share the pods of a workload that may be away.
type evictions struct {
	sync.Mutex
	at map[types.UID]time.Time
}

// next returns the step of lifecycle.Next, and remembers the pods that this step evicts before another drain takes a step.
func (r *Reconciler) next(life *lifecycle.Life) lifecycle.Step {
	if len(life.Workloads) == 0 {
		return lifecycle.Next(*life)
	}
	e := &r.evictions
	e.Lock()
	defer e.Unlock()
	maps.DeleteFunc(e.at, func(_ types.UID, at time.Time) bool { return life.Now.Sub(at) >= evicted })
	life.Sent = make(map[types.UID]bool, len(e.at))
	for uid := range e.at {
		life.Sent[uid] = true
	}
	step := lifecycle.Next(*life)
	for _, x := range step.Evict {
		if _, known := e.at[x.Pod.UID]; !known {
			e.at[x.Pod.UID] = life.Now
		}
	}
	return step
}

// refused notes that the pod was not evicted.
func (e *evictions) refused(pod types.UID) {
	e.Lock()
	defer e.Unlock()
	delete(e.at, pod)
}

// readWorkloads reads the workloads of the pods on a node that leaves, if its drain depends on them.
func (r *Reconciler) readWorkloads(ctx context.Context, life *lifecycle.Life) error {
	if !lifecycle.ByChoice(life.Claim, life.Nodes) {
		return nil
	}
	life.Workloads = map[types.UID]*lifecycle.Workload{}
	for _, pod := range life.Pods {
		uid := kube.WorkloadOf(pod)
		if uid == "" || life.Workloads[uid] != nil {
			continue
		}
		pods, err := r.podsWith(ctx, cluster.PodsByWorkload, string(uid))
		if err != nil {
			return err
		}
		owner := *metav1.GetControllerOf(pod)
		controller, err := r.readController(ctx, pod.Namespace, owner)
		if err != nil {
			return err
		}
		life.Workloads[uid] = lifecycle.NewWorkload(owner, controller, pods)
	}
	return nil
}

// readController returns the controller of pods. It returns nil if the controller is gone or its kind is not read.
func (r *Reconciler) readController(ctx context.Context, namespace string, owner metav1.OwnerReference) (metav1.Object, error) {
	var object client.Object
	switch {
	case owner.APIVersion == "apps/v1" && owner.Kind == "ReplicaSet":
		object = &appsv1.ReplicaSet{}
	case owner.APIVersion == "apps/v1" && owner.Kind == "StatefulSet":
		object = &appsv1.StatefulSet{}
	case owner.APIVersion == "v1" && owner.Kind == "ReplicationController":
		object = &corev1.ReplicationController{}
	default:
		return nil, nil
	}
	err := r.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read %s %s/%s, whose pods leave a node: %w", owner.Kind, namespace, owner.Name, err)
	case err != nil:
		return nil, nil
	}
	return object, nil
}
