package endtoend_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/awstest"
)

// abandoned is a cluster whose Karpenter was scaled down a moment ago. Its Deployment says how to reach the account.
func abandoned(t *testing.T) *upstream {
	t.Helper()
	u := newUpstream(t)
	u.build()
	u.deployUpstream()
	u.running(2, 2*time.Minute)
	d := u.deploymentOf(nil)
	before := client.MergeFrom(d.DeepCopy())
	*d.Spec.Replicas = 0
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: awstest.Cluster}, {Name: "EKS_CONTROL_PLANE", Value: "true"}}
	u.must(u.Patch(u, d, before))
	return u
}

func (u *upstream) classesLeft() int {
	u.Helper()
	var classes awsv1.EC2NodeClassList
	u.must(u.List(u, &classes))
	return len(classes.Items)
}

// What Karpenter made is removed without it: nobody else runs.
func TestUninstallLeavesNothingOfKarpenterInTheAccount(t *testing.T) {
	u := abandoned(t)
	text, status := u.uninstall("--yes")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	u.said(text, "drain and terminate the machines of 2 NodeClaims: about $0.19 per hour", "this command takes over if it ends", "and no machine", "helm uninstall karpenter -n kube-system")
	u.bare(0)
	for what, n := range map[string]int{
		"machines": len(u.account.Machines()), "launch templates": u.templatesLeft(), "instance profiles": u.profilesLeft(), "classes": u.classesLeft(),
	} {
		if n > 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
}

func TestMachinesOfEC2ThatAreKeptAreNobodys(t *testing.T) {
	u := abandoned(t)
	text, status := u.uninstall("--keep-machines", "--yes")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	u.said(text, "these machines any more (about $0.19 per hour)", "m5.large  us-west-2a  $0.0960/h", "Stays in the account, because machines use it: instance profile "+upstreamProfile)
	u.bare(2)
	machines := u.account.Machines()
	if len(machines) != 2 || u.profilesLeft() != 1 || u.templatesLeft() != 0 || u.classesLeft() != 0 {
		t.Errorf("%d machines, %d profiles, %d templates, %d classes", len(machines), u.profilesLeft(), u.templatesLeft(), u.classesLeft())
	}
	for id, m := range machines {
		for _, tag := range m.Tags {
			if *tag.Key == v1.NodePoolLabelKey || *tag.Key == awsv1.NodeClassLabelKey {
				t.Errorf("machine %s carries the tag %s", id, *tag.Key)
			}
		}
	}
	controller := u.start()
	u.watchFor(10*time.Second, func() { // looks for machines without claims as soon as it leads
		if n := len(u.account.Machines()); n != 2 {
			t.Fatalf("%d machines are left of 2\n%s", n, controller.tail())
		}
	})
	u.must(u.DeleteAllOf(u, &appsv1.Deployment{}, client.InNamespace(metav1.NamespaceDefault), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	u.must(u.DeleteAllOf(u, &corev1.Node{}))
}
