package provision_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/provision"
)

// A pod that kube-scheduler refuses begins a batch for its controller, and one that the controller makes then is another one of
// the batch. That kube-scheduler refuses it too is no news.
func TestReplicasOfAPodThatWaitsJoinItsBatchWhenTheyAreMade(t *testing.T) {
	t.Parallel()
	informers := &informertest.FakeInformers{Scheme: cluster.Scheme()}
	var heard []string
	err := provision.Watch(t.Context(), informers,
		func(cause string) { heard = append(heard, cause) },
		func(cause, beside string) { heard = append(heard, cause+" beside "+beside) })
	if err != nil {
		t.Fatal(err)
	}
	pods, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	replica := func(name string) *corev1.Pod {
		pod, yes := clustertest.Pending(name, "1"), true
		pod.UID = types.UID(name)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: &yes}}
		return pod
	}
	untried := replica("web-2")
	untried.Status.Conditions = nil
	gated := untried.DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}

	pods.Add(replica("web-1"))
	pods.Add(untried)
	pods.Add(gated)
	pods.Update(untried, replica("web-2"))
	if want := []string{"web-1", "web", "web-2 beside web", "web-2", "web"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}
