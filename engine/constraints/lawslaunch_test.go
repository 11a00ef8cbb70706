package constraints_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// A difference is one respect in which machines differ from the catalog, and a pod that cannot run on them because of it.
type difference struct {
	name, pod string
	make      func(s *engine.Snapshot, node *corev1.Node)
}

func differences() []difference {
	less := func(name corev1.ResourceName, amount string) func(*engine.Snapshot, *corev1.Node) {
		return func(_ *engine.Snapshot, n *corev1.Node) { n.Status.Allocatable[name] = resource.MustParse(amount) }
	}
	return []difference{
		{"a taint", "cpu=500m", func(_ *engine.Snapshot, n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "net.example.com/starting", Effect: corev1.TaintEffectNoSchedule})
		}},
		{"less cpu", "cpu=500m", less(corev1.ResourceCPU, "400m")},
		{"less memory", "mem=1Gi", less(corev1.ResourceMemory, "1000Mi")},
		{"less disk", "ephemeral-storage=5Gi", less(corev1.ResourceEphemeralStorage, "4Gi")},
		{"no room for pods", "cpu=500m", less(corev1.ResourcePods, "0")},
		{"another architecture", "arch in (amd64)", func(_ *engine.Snapshot, n *corev1.Node) { n.Labels[corev1.LabelArchStable] = "arm64" }},
		{"no label", "arch in (amd64)", func(_ *engine.Snapshot, n *corev1.Node) { delete(n.Labels, corev1.LabelArchStable) }},
		{"fewer volumes", "disk=%[1]s-a,%[1]s-b", func(s *engine.Snapshot, n *corev1.Node) {
			for _, csi := range s.CSINodes {
				if csi.Name == n.Name {
					csi.Spec.Drivers[0].Allocatable.Count = new(int32(1))
				}
			}
		}},
		{"a port that is held", "port=8080", func(s *engine.Snapshot, n *corev1.Node) {
			s.Pods = append(s.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "static-" + n.Name, Namespace: "kube-system", UID: types.UID("static-" + n.Name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name}}},
				Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}},
	}
}

// If all machines differ from the catalog in one respect, the number of useless machines grows only with the logarithm of the time, until
// the wait is an hour; then it is one an hour. If another type suits the pods, one machine of the unsuitable type is started.
func TestLawMachinesThatAreNotWhatTheCatalogSaysAreNotStartedForEver(t *testing.T) {
	t.Parallel()
	const hours = 6
	// Useless machines: one each for the first failure and the second, then one after 1, 2, 4, ... 32 minutes, and one an hour.
	most := 2 + int(math.Ceil(math.Log2(60))) + hours
	for i, d := range differences() {
		for k := range enginetest.Few(6) {
			seed := (uint64(i) + k) % 6
			t.Run(fmt.Sprintf("%s/%d", d.name, seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 33))
				kinds, shapes, all := 1+random.IntN(5), 1+random.IntN(2), random.IntN(2) == 0
				if !all {
					kinds++
				}
				s := scenariotest.Cluster(t, lawCluster(d, kinds, shapes)...)
				vain, started := 0, 0
				for end := s.Now.Add(hours * time.Hour); s.Now.Before(end); {
					plan := provisioning.Plan(s, engine.Options{}, nil)
					for _, x := range plan.Placements {
						if !runsHere(s, x.Node, all) && !(d.name == "a taint" && isWaitedFor(s, x.Node)) {
							t.Fatalf("%v: pod %s is to run on node %s, which cannot run it", s.Now, x.Pod, x.Node)
						}
					}
					scenariotest.WriteBackoffs(s, plan)
					started += len(plan.Launches)
					var bad int
					s, bad = aWhileLater(s, plan, d, all)
					vain += bad

				}
				running := 0
				for _, p := range s.Pods {
					if strings.HasPrefix(p.Name, "web") && p.Spec.NodeName != "" {
						running++
					}
				}
				t.Logf("%d types, %d shapes: %d of %d machines were started in vain", kinds, shapes, vain, started)
				switch {
				case all && (vain > most*shapes || running > 0):
					t.Errorf("%d types, %d shapes: %d machines were started in vain, at most %d are right; %d pods run", kinds, shapes, vain, most*shapes, running)
				case all && vain < 5*shapes/2:
					t.Errorf("only %d machines were started in %d h: what has mended itself is never found", vain, hours)
				case !all && (vain > shapes || running < shapes):
					t.Errorf("%d types, %d shapes: %d machines of the type that does not take the pods, %d in all; %d pods run", kinds, shapes, vain, started, running)
				}
			})
		}
	}
}

// runsHere reports whether the node is as the catalog describes it.
func runsHere(s *engine.Snapshot, node string, all bool) bool {
	return !all && slices.ContainsFunc(s.NodeClaims, func(c *v1.NodeClaim) bool {
		return c.Name == node && c.Labels[corev1.LabelInstanceTypeStable] != "t0"
	})
}

// isWaitedFor reports whether a plan still waits for the node to lose undeclared taints: the node became ready less than a minute ago.
func isWaitedFor(s *engine.Snapshot, node string) bool {
	at := func(n *corev1.Node) bool { return n.Name == node }
	i, j := slices.IndexFunc(s.Nodes, at), slices.IndexFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == node })
	return s.Now.Sub(inventory.ReadySince(s.NodeClaims[j], s.Nodes[i:i+1])) < kube.UndeclaredTaintPatience
}

func lawCluster(d difference, kinds, shapes int) []string {
	lines := []string{"pool general", "storageclass fast wait driver=disk.example.com"}
	for i := range kinds {
		lines = append(lines, fmt.Sprintf("type t%d cpu=%d mem=%dGi ephemeral-storage=20Gi arch=amd64 zones=a price=0.0%d attach=disk.example.com:25", i, 2+i, 4+i, 5+i))
	}
	for i := range shapes {
		name := fmt.Sprintf("web%d", i)
		words := d.pod
		if strings.Contains(words, "%") {
			words = fmt.Sprintf(words, name)
			lines = append(lines, fmt.Sprintf("volume v%da claim=%s-a zone=a driver=disk.example.com", i, name), fmt.Sprintf("volume v%db claim=%s-b zone=a driver=disk.example.com", i, name))
		}
		lines = append(lines, fmt.Sprintf("pod %s %s tolerate=example.com/%d", name, words, i))
	}
	return lines
}

// aWhileLater returns the cluster half a minute after the plan. The new machines are ready, and machines that differ from the plan have not
// taken their pods. The next time these machines are gone, because they are empty, unless the plan still expects pods there.
func aWhileLater(s *engine.Snapshot, plan *engine.Plan, d difference, all bool) (next *engine.Snapshot, vain int) {
	begin := s.Now
	for _, n := range s.Nodes {
		if slices.ContainsFunc(plan.Placements, func(p engine.Placement) bool { return p.Node == n.Name }) {
			continue
		}
		if !slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == n.Name && !kube.IsMirror(p) }) {
			s.NodeClaims = slices.DeleteFunc(slices.Clone(s.NodeClaims), func(c *v1.NodeClaim) bool { return c.Name == n.Name })
			s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == n.Name })
			s.CSINodes = slices.DeleteFunc(slices.Clone(s.CSINodes), func(c *storagev1.CSINode) bool { return c.Name == n.Name })
		}
	}
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *corev1.Node) bool {
		return !slices.ContainsFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == n.Name })
	})
	next = scenario.CarryOut(s, plan)
	next.Now = begin.Add(30 * time.Second)
	for i, c := range next.NodeClaims {
		isNew := !c.CreationTimestamp.Time.Before(begin)
		if cond := v1.GetCondition(next.NodeClaims[i], v1.ConditionInitialized); isNew && cond != nil {
			cond.LastTransitionTime = metav1.NewTime(next.Now.Add(-5 * time.Second))
		}
		if runsHere(next, c.Name, all) {
			continue
		}
		if isNew {
			vain++
			for _, n := range next.Nodes {
				if n.Name == c.Name {
					d.make(next, n)
				}
			}
		}
		for _, p := range next.Pods {
			if p.Spec.NodeName == c.Name && !kube.IsMirror(p) {
				p.Spec.NodeName = ""
				p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				}}}
			}
		}
	}
	return next, vain
}
