package azure_test

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/provider/azure/azuretest"
)

// newNode is the Node as a kubelet registers it, with what Azure's cloud controller adds: its provider ID, and where it is.
func newNode(m *azuretest.Machine, t told) *corev1.Node {
	zone := "0" // as the cloud controller writes it of a machine that is in no zone
	if m.Zone != "" {
		zone = azuretest.Location + "-" + m.Zone
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.name, Annotations: map[string]string{kwokKey: "fake"}, Labels: maps.Clone(t.labels)}}
	maps.Copy(node.Labels, map[string]string{
		corev1.LabelHostname: m.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelInstanceTypeStable: m.Size.Name,
		corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: azuretest.Location,
	})
	parts := strings.Split(m.ID, "/")
	parts[4] = strings.ToLower(parts[4]) // the resource group
	node.Spec.ProviderID = "azure://" + strings.Join(parts, "/")
	node.Spec.Taints = t.taints
	node.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: t.version}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: m.Name}}
	node.Status.Capacity, node.Status.Allocatable = resourcesOf(&m.Size, t.pods)
	return node
}

// resourcesOf are those of a machine: a little less memory than Azure says, of which the kubelet keeps back what eviction begins at.
func resourcesOf(size *azuretest.Size, pods int64) (capacity, allocatable corev1.ResourceList) {
	cpus := size.CPUs
	if size.Usable > 0 {
		cpus = size.Usable
	}
	memory := int64(size.MemoryGiB*0.95*1024) << 20
	list := func(memory, disk int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
		}
	}
	return list(memory, 64_000_000_000), list(memory-100<<20, 57_600_000_000)
}
