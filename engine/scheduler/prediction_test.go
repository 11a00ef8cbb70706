package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

// labelsOf picks labels as "key=value key=value".
func labelsOf(n *corev1.Node, keys ...string) string {
	var parts []string
	for _, key := range keys {
		if value, ok := n.Labels[key]; ok {
			parts = append(parts, key+"="+value)
		}
	}
	return strings.Join(parts, " ")
}

func predictedLaunch(requirements ...v1.Requirement) *engine.Launch {
	id := engine.OfferingID{InstanceType: "small", Zone: "b", CapacityType: "on-demand"}
	return &engine.Launch{Name: "general-1", NodePool: "general", Labels: map[string]string{"team": "x"}, Requirements: requirements,
		Offerings: []engine.LaunchOffering{{OfferingID: id, Price: 0.1}}}
}

func TestAPredictedNodeCarriesWhatItsMachineWill(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general labels=tier:gold taint=dedicated=web:NoSchedule startup-taint=example.com/starting:NoSchedule",
		"type small cpu=4 mem=16Gi zones=a,b price=0.1 overhead=cpu:100m,mem:1Gi labels=family:m")
	s.Classes[0].InstanceTypes[0].Labels["tenancy"] = []string{"default", "dedicated"}
	s.Classes[0].InstanceTypes[0].Labels["gpu"] = nil
	l := predictedLaunch(v1.Requirement{Key: "tenancy", Operator: v1.In, Values: []string{"dedicated"}},
		v1.Requirement{Key: "example.com/rack", Operator: v1.In, Values: []string{"r1"}},
		v1.Requirement{Key: "example.com/row", Operator: v1.In, Values: []string{"1", "2"}})
	node, csi := scheduler.Predict(s, l, l.Offerings[0].OfferingID)
	want := "karpenter.sh/nodepool=general karpenter.sh/registered=true karpenter.sh/initialized=true karpenter.sh/capacity-type=on-demand " +
		"node.kubernetes.io/instance-type=small beta.kubernetes.io/instance-type=small topology.kubernetes.io/zone=b " +
		"failure-domain.beta.kubernetes.io/zone=b kubernetes.io/arch=amd64 kubernetes.io/os=linux kubernetes.io/hostname=general-1-b " +
		"tier=gold team=x family=m tenancy=dedicated example.com/rack=r1 karpenter.kwok.sh/kwoknodeclass=default"
	got := labelsOf(node, "karpenter.sh/nodepool", "karpenter.sh/registered", "karpenter.sh/initialized", "karpenter.sh/capacity-type",
		"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
		"kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "tier", "team", "family", "tenancy", "gpu",
		"example.com/rack", "example.com/row", "karpenter.kwok.sh/kwoknodeclass")
	if got != want {
		t.Errorf("labels\n%s\nwant\n%s\nof %v", got, want, node.Labels)
	}
	if node.Name != "general-1-b" || csi.Name != node.Name {
		t.Errorf("names %s, %s", node.Name, csi.Name)
	}
	if fmt.Sprint(node.Spec.Taints) != "[{dedicated web NoSchedule <nil>}]" {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.String() != "3900m" {
		t.Errorf("allocatable cpu %s", cpu.String())
	}
	if cpu := node.Status.Capacity[corev1.ResourceCPU]; cpu.String() != "4" {
		t.Errorf("cpu %s", cpu.String())
	}
	if node.Status.Conditions[0].Type != corev1.NodeReady || node.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %v", node.Status.Conditions)
	}
}

func TestAnOfferingThatTheLaunchDoesNotListIsNotPredicted(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type small cpu=4 mem=16Gi zones=a,b price=0.1")
	if node, csi := scheduler.Predict(s, predictedLaunch(), engine.OfferingID{InstanceType: "small", Zone: "a", CapacityType: "on-demand"}); node != nil || csi != nil {
		t.Errorf("predicted %v, %v", node, csi)
	}
}

// A driver's topology label has the value of the node label that it equals on all nodes with the driver's label.
func TestAPredictedNodeHasTheStorageDriversOfTheOthers(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type small cpu=4 mem=16Gi zones=a,b price=0.1", "node n1 cpu=1 mem=1Gi zone=a", "node n2 cpu=1 mem=1Gi zone=b")
	s.Classes[0].InstanceTypes[0].AttachLimits = map[string]int{"disk": 25, "other": 3}
	for i, n := range s.Nodes {
		n.Labels["disk/place"], n.Labels["disk/rack"] = n.Labels[corev1.LabelTopologyZone], fmt.Sprint(i)
		n.Status.DeclaredFeatures = []string{[]string{"B", "A"}[i]}
		s.CSINodes = append(s.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: "disk", NodeID: n.Name, TopologyKeys: []string{"disk/place", "disk/rack"}}}}})
	}
	l := predictedLaunch()
	node, csi := scheduler.Predict(s, l, l.Offerings[0].OfferingID)
	if got := labelsOf(node, "disk/place", "disk/rack"); got != "disk/place=b" {
		t.Errorf("labels %s", got)
	}
	var drivers []string
	for _, d := range csi.Spec.Drivers {
		drivers = append(drivers, fmt.Sprint(d.Name, d.TopologyKeys, *d.Allocatable.Count))
	}
	if got := strings.Join(drivers, " "); got != "disk[disk/place disk/rack] 25 other[] 3" {
		t.Errorf("drivers %s", got)
	}
	if !slices.Equal(node.Status.DeclaredFeatures, []string{"A", "B", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"}) {
		t.Errorf("features %v", node.Status.DeclaredFeatures)
	}
}
