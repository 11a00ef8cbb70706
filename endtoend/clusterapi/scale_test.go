package clusterapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMachineDeploymentsScale(t *testing.T) {
	c := newWorld(t).cluster()
	four := sized("4", "16Gi")
	four.Labels = map[string]string{corev1.LabelTopologyZone: "a"}
	four.Taints = []corev1.Taint{{Key: "dedicated", Value: "tests", Effect: corev1.TaintEffectNoSchedule}}
	md := c.machineDeployment("scaled", four, func(md *clusterv1.MachineDeployment) {
		md.Annotations = map[string]string{
			"capacity.cluster-autoscaler.kubernetes.io/cpu": "4", "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
		}
		md.Spec.Template.Labels = map[string]string{"node.cluster.x-k8s.io/team": "blue"}
	})
	c.running(md, 0)

	c.scale(md, 3)
	three := c.running(md, 3)
	c.until(machinePatience, func() (bool, string) {
		for _, node := range c.nodes(md) {
			if node.Labels["node.cluster.x-k8s.io/team"] != "blue" {
				return false, fmt.Sprintf("Cluster API's labels are not on node %s: %v", node.Name, node.Labels)
			}
		}
		return true, ""
	})
	for _, node := range c.nodes(md) {
		if cpu := node.Status.Allocatable.Cpu(); cpu.Value() != 4 {
			t.Errorf("node %s has %v cpu", node.Name, cpu)
		}
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "a" {
			t.Errorf("node %s is in zone %q", node.Name, zone)
		}
		if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "dedicated" }) {
			t.Errorf("node %s has the taints %v", node.Name, node.Spec.Taints)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "blue", Namespace: metav1.NamespaceDefault}}
	pod.Spec.NodeSelector = map[string]string{"node.cluster.x-k8s.io/team": "blue"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	pod.Spec.Containers = []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}}
	c.must(c.Create(c, pod))
	c.until(machinePatience, func() (bool, string) {
		c.must(c.Get(c, client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning, fmt.Sprintf("the pod is %s: %+v", pod.Status.Phase, pod.Status.Conditions)
	})
	c.must(c.Delete(c, pod, client.GracePeriodSeconds(0)))

	c.mark(&three[1])
	c.scale(md, 2)
	if left, want := machineNames(c.running(md, 2)), machineNames(slices.Delete(slices.Clone(three), 1, 2)); !slices.Equal(left, want) {
		t.Errorf("%v are left of the machines, want %v", left, want)
	}
}

func TestWebhooksFillInAndConvert(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.machineDeployment("sized", sized("2", "8Gi"), func(md *clusterv1.MachineDeployment) {
		md.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "0", clusterv1.AutoscalerMaxSizeAnnotation: "5"}
		md.Spec.Replicas = nil
	})
	if md.Spec.Replicas == nil || *md.Spec.Replicas != 0 {
		t.Errorf("the replicas are %v, want the smallest number", md.Spec.Replicas)
	}
	older := &unstructured.Unstructured{}
	older.SetAPIVersion("cluster.x-k8s.io/v1beta1")
	older.SetKind("MachineDeployment")
	c.must(c.Get(c, client.ObjectKeyFromObject(md), older))
	reference, _, err := unstructured.NestedStringMap(older.Object, "spec", "template", "spec", "infrastructureRef")
	c.must(err)
	if want := "infrastructure.cluster.x-k8s.io/v1beta2"; reference["apiVersion"] != want || reference["name"] != md.Name {
		t.Errorf("in v1beta1, the machines' template is %v, want one of %s", reference, want)
	}
}

// What was asked for while a controller was away happens when it is back, and what ran goes on running.
func TestControllersGoOnAfterTheyWereKilled(t *testing.T) {
	w := newWorld(t)
	c := w.cluster()
	md := c.machineDeployment("restarted", sized("2", "8Gi"), nil)
	c.scale(md, 1)
	c.running(md, 1)
	first := c.nodes(md)[0]
	for i, controller := range w.controllers() {
		controller.Kill()
		c.scale(md, int32(2+i))
		w.must(c.restart(w, controller))
		c.running(md, 2+i)
		var node corev1.Node
		w.must(w.Get(w, client.ObjectKeyFromObject(&first), &node))
		if node.UID != first.UID {
			t.Errorf("after %s was killed, node %s was made anew", controller.Name, node.Name)
		}
	}
}

// mark asks Cluster API to take this machine first when there are to be fewer.
func (w *world) mark(m *clusterv1.Machine) {
	w.Helper()
	marked := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, clusterv1.DeleteMachineAnnotation, "yes")
	w.must(w.Patch(w, marked, client.MergeFrom(m)))
}

func machineNames(machines []clusterv1.Machine) []string {
	var names []string
	for _, m := range machines {
		names = append(names, m.Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
