package provisioning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// If a machine does not take the pod that it was started for, no other machine of the type is started at once. The pod's reason says why,
// and the pod gets another type if there is one.
func TestAMachineThatDoesNotTakeItsPodIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		differs func(*engine.Snapshot)
		pod     string
		why     string
	}{
		{"taint", scenariotest.Tainted("net.example.com/starting"), "pods web x1 cpu=1", "taint net.example.com/starting"},
		{"memory", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("3Gi")
		}, "pods web x1 mem=3500Mi", "3Gi memory"},
		{"disk", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("3Gi")
		}, "pods web x1 ephemeral-storage=5Gi", "3Gi ephemeral-storage"},
		{"label", func(s *engine.Snapshot) { s.Nodes[0].Labels["kubernetes.io/arch"] = "arm64" }, "pods web x1 cpu=1 arch in (amd64)", "label kubernetes.io/arch"},
		{"zone", func(s *engine.Snapshot) { s.Nodes[0].Labels[corev1.LabelTopologyZone] = "b" }, "pods web x1 cpu=1 zone in (a)", "zone=b instead of a"},
		{"zone that a spread counts by", func(s *engine.Snapshot) { delete(s.Nodes[0].Labels, corev1.LabelTopologyZone) }, "pods web x1 cpu=1 spread=zone", corev1.LabelTopologyZone},
		{"memory beside a DaemonSet's pod", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("2500Mi")
		}, "pods web x1 mem=2Gi\ndaemonset agent mem=1Gi\npods agent x1 mem=1Gi node=n owner=DaemonSet/agent", "2500Mi memory"},
		{"storage that its driver has there", storageLeft("5Gi"), "storageclass lvm wait driver=lvm.example.com\ndisk data class=lvm\npods web x1 cpu=1 disk=data", "storage class lvm has 5Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Unfit(t, c.differs, c.pod)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if len(plan.Launches) > 0 || len(plan.Unplaced) != 1 {
				t.Fatalf("launches %v, unplaced %v", plan.Launches, plan.Unplaced)
			}
			scenariotest.WriteBackoffs(s, plan)
			s.Nodes, s.NodeClaims = nil, nil
			gone := provisioning.Plan(s, engine.Options{}, nil)
			if len(gone.Launches) > 0 || len(gone.Unplaced) != 1 {
				t.Fatalf("once the machine is gone: launches %v, unplaced %v", gone.Launches, gone.Unplaced)
			}
			reason := gone.Unplaced[0].Reasons[0]
			if reason.Code != engine.LaunchesBackedOff || !strings.Contains(reason.Message(), c.why) || !strings.Contains(reason.Message(), "(two)") {
				t.Errorf("the pod says: %v", reason)
			}
			if len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 || !strings.Contains(plan.Backoffs[0].Found[0].Why, c.why) {
				t.Errorf("what is written down: %+v", plan.Backoffs)
			}

			other := scenariotest.Unfit(t, c.differs, c.pod, "type three cpu=3 mem=6Gi ephemeral-storage=20Gi zones=a price=0.09")
			if got := scenariotest.Bought(provisioning.Plan(other, engine.Options{}, nil)); !slices.Equal(got, []string{"three"}) {
				t.Errorf("with another type: launches %v, want one of type three", got)
			}
		})
	}
}

// A machine that goes because it has not joined the cluster took no pod either.
func TestAMachineThatNeverJoinedIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim string
		known bool
	}{
		{"launched=20m age=20m", false}, // it is late, and may come yet
		{"launched=5m age=10m deleting", false},
		{"launched=11m age=15m deleting", true}, // it took a while to be started
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t,
				"pool general",
				"type two   cpu=2 mem=4Gi zones=a price=0.05",
				"type three cpu=3 mem=6Gi zones=a price=0.09",
				"claim m pool=general type=two zone=a planned=web "+c.claim,
				"pod web cpu=1",
			)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if !c.known {
				if len(plan.Backoffs) > 0 {
					t.Errorf("what is written down: %+v", plan.Backoffs)
				}
				return
			}
			if got := scenariotest.Bought(plan); !slices.Equal(got, []string{"three"}) || len(plan.Backoffs) != 1 || !strings.Contains(plan.Backoffs[0].Found[0].Why, "has not joined the cluster within 15m") {
				t.Errorf("machines of types %v are started, written down: %+v", got, plan.Backoffs)
			}
			scenariotest.WriteBackoffs(s, plan)
			if more := provisioning.Plan(s, engine.Options{}, nil).Backoffs; len(more) > 0 {
				t.Errorf("written down once more: %+v", more)
			}
			next := s.NodeClaims[0] // of another type, half an hour later
			next.CreationTimestamp, next.Labels[corev1.LabelInstanceTypeStable] = metav1.NewTime(s.Now.Add(time.Minute)), "three"
			s.Now = s.Now.Add(30 * time.Minute)
			plan = provisioning.Plan(s, engine.Options{}, nil)
			if len(plan.Launches) > 0 || len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.LaunchesBackedOff {
				t.Errorf("the second time: launches %v, unplaced %v", plan.Launches, plan.Unplaced)
			}
		})
	}
}

// If an agent never takes its taint off one machine, it will not take it off the next machine of the type either.
func TestAMachineWhoseAgentNeverStartsIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		registered string
		want       []string
	}{{"14m", nil}, {"16m", []string{"three"}}} {
		t.Run(c.registered, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t,
				"pool general",
				"type two   cpu=2 mem=4Gi zones=a price=0.05",
				"type three cpu=3 mem=6Gi zones=a price=0.09",
				"node n pool=general type=two zone=a age=17m launched="+c.registered+" registered="+c.registered+" uninitialized planned=web taint=ebs.csi.aws.com/agent-not-ready:NoExecute",
				"pod web cpu=1",
			)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if got := scenariotest.Bought(plan); !slices.Equal(got, c.want) || len(plan.Backoffs) != len(c.want) {
				t.Fatalf("machines of types %v are started, written down: %+v", got, plan.Backoffs)
			}
			if c.want != nil && !strings.Contains(plan.Backoffs[0].Found[0].Why, "has not lost the taint ebs.csi.aws.com/agent-not-ready:NoExecute in time") {
				t.Errorf("why: %s", plan.Backoffs[0].Found[0].Why)
			}
		})
	}
}

// The node is initialized a moment before its claim shows it, and the backoff does not wait for the claim.
func TestAMachineShowsItselfBeforeItsClaimSaysThatItIsReady(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
	v1.GetCondition(s.NodeClaims[0], v1.ConditionInitialized).Status = metav1.ConditionUnknown
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 || len(plan.Backoffs) != 1 {
		t.Errorf("launches %v, backoffs %+v", plan.Launches, plan.Backoffs)
	}
}

// A machine of another type is started as soon as the first machine has shown its resources, even before that machine is ready.
func TestHowMuchANodeHasIsKnownBeforeItIsReady(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type two  cpu=2 mem=4Gi zones=a price=0.05",
		"type four cpu=4 mem=8Gi zones=a price=0.11",
		"node n pool=general type=two zone=a age=1m planned=web uninitialized not-ready allocatable=cpu:500m",
		"pod web cpu=1",
	)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if got := scenariotest.Bought(plan); !slices.Equal(got, []string{"four"}) || len(plan.Backoffs) != 1 {
		t.Errorf("machines of types %v are started, written down: %+v; want one of type four, and what two did not take", got, plan.Backoffs)
	}
}

// A device is missing while its driver is being installed; a device that is missing after that time does not come.
func TestAResourceThatANodeNeverShowsIsNotCountedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after time.Duration
		want  []string // types of the machines that are started
	}{
		{"it may still come", 14 * time.Minute, nil},
		{"it has not come", 15 * time.Minute, []string{"four"}},
		{"it has not come, and the machine is overdue", 20 * time.Minute, []string{"four"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t,
				"pool general",
				"type two  cpu=2 mem=4Gi example.com/npu=1 zones=a price=0.05",
				"type four cpu=4 mem=8Gi example.com/npu=1 zones=a price=0.11",
				fmt.Sprintf("node n pool=general type=two zone=a age=30m launched=%v registered=%[1]v planned=web uninitialized", c.after),
				"pod web cpu=1 example.com/npu=1",
				"pod small cpu=500m",
			)
			s.NodeClaims[0].Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/npu": resource.MustParse("1")}
			delete(s.Nodes[0].Status.Allocatable, "example.com/npu")
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if got := scenariotest.Bought(plan); !slices.Equal(got, c.want) {
				t.Errorf("machines of types %v are started, want %v", got, c.want)
			}
			if !slices.ContainsFunc(plan.Placements, func(p engine.Placement) bool { return p.Pod.Name == "small" && p.Node == "n" }) {
				t.Errorf("the pod that asks for no device does not run on the machine: placements %v", plan.Placements)
			}
			if (len(plan.Backoffs) > 0) != (c.want != nil) {
				t.Fatalf("what is written down: %+v", plan.Backoffs)
			}
			for _, b := range plan.Backoffs {
				if want := "its node has 0 example.com/npu for pods instead of 1"; !strings.Contains(b.Found[0].Why, want) {
					t.Errorf("%q does not say %q", b.Found[0].Why, want)
				}
			}
		})
	}
}

// A pool whose wait is over is tried again, even if another pool still waits.
func TestAPoolIsTriedAgainWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1", "pool other")
	for _, pool := range []string{"general", "other"} {
		s.NodeClaims[0].Labels[v1.NodePoolLabelKey], s.Nodes[0].Labels[v1.NodePoolLabelKey] = pool, pool
		s.NodeClaims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-25 * time.Second))
		scenariotest.ReadyFor(s, time.Second)
		scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
		s.Now = s.Now.Add(50 * time.Second)
	}
	s.Nodes, s.NodeClaims, s.Now = nil, nil, s.Now.Add(-35*time.Second)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || plan.Launches[0].NodePool != "general" {
		t.Errorf("launches %+v, unplaced %v", plan.Launches, plan.Unplaced)
	}
}

// If others took the room, or the node is in trouble for a moment, the type is not to blame.
func TestWhatPassesIsNotLearned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		differs func(*engine.Snapshot)
		more    []string
	}{
		{"others took the room", func(*engine.Snapshot) {}, []string{"pods other x1 cpu=1500m node=n"}},
		{"the node's disk is full", scenariotest.Tainted(corev1.TaintNodeDiskPressure), nil},
		{"somebody closed the node", func(s *engine.Snapshot) { s.Nodes[0].Spec.Unschedulable = true }, nil},
		{"the node is not ready", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse
			scenariotest.Tainted("example.com/a")(s)
		}, nil},
		{"the node is not initialized yet", func(s *engine.Snapshot) {
			delete(s.Nodes[0].Labels, v1.InitializedLabelKey)
			scenariotest.Tainted("example.com/a")(s)
		}, nil},
		{"the node is there for long", func(s *engine.Snapshot) {
			scenariotest.ReadyFor(s, time.Hour)
			scenariotest.Tainted("example.com/a")(s)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Unfit(t, c.differs, append(c.more, "pods web x1 cpu=1")...)
			if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Backoffs) > 0 {
				t.Errorf("what is written down: %+v", plan.Backoffs)
			}
		})
	}
}

// storageLeft makes every claim request 10Gi, and publishes so much storage on node n for them.
func storageLeft(left string) func(*engine.Snapshot) {
	return func(s *engine.Snapshot) {
		tracked, q := true, resource.MustParse(left)
		s.CSIDrivers = append(s.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "lvm.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &tracked}})
		s.CSIStorageCapacities = append(s.CSIStorageCapacities, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "kube-system"}, StorageClassName: "lvm", Capacity: &q,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: "n"}},
		})
		for _, claim := range s.PersistentVolumeClaims {
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		}
	}
}
