package oracle

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// The pods have no demands except their volumes. A replay accepts the same nodes as kube-scheduler.
func TestAReplayAdmitsVolumesWhereKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	live := open(t)
	refused := map[string]int{}
	admitted := 0
	for seed := uint64(1); seed <= 60; seed++ {
		s := Draw(seed)
		beginToMake(s)
		if err := live.Reset(s, nil); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
		}
		for _, pod := range s.Pods {
			if !kube.IsPending(pod) || len(pod.Spec.Volumes) == 0 || waitsForClaims(s, pod) {
				continue
			}
			bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
			bare.Spec = corev1.PodSpec{
				Containers: []corev1.Container{{Name: "app"}}, Volumes: pod.Spec.Volumes, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			}
			verdicts, err := live.Ask(bare.DeepCopy(), names...)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range verdicts {
				r := scheduler.Replay{Snapshot: s, Pods: []*corev1.Pod{bare}, On: func(n *corev1.Node) bool { return n.Name == v.Node }}
				if lands := len(r.Land().Placements) > 0; lands != v.OK {
					t.Errorf("seed %d, pod %s on %s: kube-scheduler says %+v, the replay lands it: %t", seed, pod.Name, v.Node, v, lands)
				}
				if v.OK {
					admitted++
				}
				refused[v.Plugin]++
			}
		}
	}
	for _, plugin := range []string{"VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"} {
		if refused[plugin] < 10 {
			t.Errorf("%s has refused %d times only", plugin, refused[plugin])
		}
	}
	if admitted < 100 {
		t.Errorf("only %d nodes have taken a pod", admitted)
	}
}

// beginToMake starts the creation of a volume for each second claim without one, on one of the nodes.
func beginToMake(s *engine.Snapshot) {
	for i, c := range s.PersistentVolumeClaims {
		if c.Spec.VolumeName == "" && i%2 == 0 && len(s.Nodes) > 0 {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", s.Nodes[i%len(s.Nodes)].Name)
		}
	}
}

// waitsForClaims reports whether a claim of an ephemeral volume does not exist yet. A replay treats the claim as created.
func waitsForClaims(s *engine.Snapshot, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Ephemeral != nil && !slices.ContainsFunc(s.PersistentVolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == pod.Namespace && c.Name == pod.Name+"-"+v.Name
		})
	})
}
