package clusterapi_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster API replaces the machines by itself. Claims follow it, and one that goes meanwhile takes its own machine along.
func TestARolloutIsFollowed(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("rolled", "2", "8Gi", "0.10", nil)
	c.pool("rolled")
	c.tenon(c.account(true, true))
	web := c.pods("rolled", 4, "1500m")
	c.run(web, 4)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 4})

	old := c.set(md)
	c.upgrade(md)
	c.until(machinePatience, func() (bool, string) {
		n := len(c.setsOf(md))
		return n == 2, fmt.Sprintf("Machines of %d MachineSets, want 2", n)
	})
	claims := c.claims()
	c.must(c.Delete(c, &claims[0]))
	c.until(2*machinePatience, func() (bool, string) {
		sets := c.setsOf(md)
		return len(sets) == 1 && sets[0] != old, fmt.Sprintf("Machines of %v, want none of %s", sets, old)
	})
	c.run(web, 4)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 4})
	c.emptied(web, md)
}

// With OnDelete, Cluster API makes new machines of the new template and leaves the others to whoever deletes them.
func TestMachinesOfAnOldTemplateAreReplaced(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("ondelete", "2", "8Gi", "0.10", func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	})
	c.pool("ondelete")
	c.tenon(c.account(true, true))
	web := c.pods("ondelete", 3, "1500m")
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})

	old := c.set(md)
	c.upgrade(md)
	c.until(2*machinePatience, func() (bool, string) {
		sets := c.setsOf(md)
		return len(sets) == 1 && sets[0] != old, fmt.Sprintf("Machines of %v, want none of %s", sets, old)
	})
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})
	c.emptied(web, md)
}

func TestAMachineHealthCheckIsFollowed(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("healthy", "2", "8Gi", "0.10", nil)
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "healthy"}}
	check.Spec.ClusterName = c.name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: md.Name}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Broken", Status: corev1.ConditionTrue, TimeoutSeconds: ptr.To[int32](1)}}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromString("100%"))
	c.must(c.Create(c, check))
	c.Cleanup(func() { c.must(c.Delete(c, check)) })
	c.pool("healthy")
	c.tenon(c.account(true, true))
	web := c.pods("healthy", 3, "1500m")
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})

	broken := c.machines(md)[1]
	c.breakNode(broken.Status.NodeRef.Name)
	c.until(machinePatience, func() (bool, string) {
		left := machineNames(c.machines(md))
		return !slices.Contains(left, broken.Name), fmt.Sprintf("Machines %v, want %s gone", left, broken.Name)
	})
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})
	c.emptied(web, md)
}

// set is the MachineSet of all Machines of the MachineDeployment.
func (c *capiCluster) set(md *clusterv1.MachineDeployment) string {
	c.Helper()
	sets := c.setsOf(md)
	if len(sets) != 1 {
		c.Fatalf("Machines of the MachineSets %v, want one", sets)
	}
	return sets[0]
}

// setsOf are the MachineSets that the MachineDeployment's Machines are of, by name.
func (c *capiCluster) setsOf(md *clusterv1.MachineDeployment) []string {
	c.Helper()
	var names []string
	for _, m := range c.machines(md) {
		names = append(names, m.Labels[clusterv1.MachineSetNameLabel])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// upgrade gives the MachineDeployment another template, of machines of the same size.
func (c *capiCluster) upgrade(md *clusterv1.MachineDeployment) {
	c.Helper()
	name := md.Name + "-2"
	c.machineTemplate(name, sized("2", "8Gi"))
	c.Cleanup(func() { c.removeTemplate("infrastructure", "DevMachineTemplate", md.Namespace, name) })
	before := client.MergeFrom(md.DeepCopy())
	md.Spec.Template.Spec.InfrastructureRef.Name = name
	c.must(c.Patch(c, md, before))
}

// breakNode has the node say that it is broken, in the workload cluster that Cluster API knows.
func (c *capiCluster) breakNode(name string) {
	c.Helper()
	var secret corev1.Secret
	c.must(c.Get(c, client.ObjectKey{Namespace: c.namespace, Name: c.name + "-kubeconfig"}, &secret))
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	c.must(err)
	workload, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	c.must(err)
	node := &corev1.Node{}
	c.must(workload.Get(c, client.ObjectKey{Name: name}, node))
	before := client.MergeFrom(node.DeepCopy())
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Broken", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	c.must(workload.Patch(c, node, before)) // that server has no subresources
}
