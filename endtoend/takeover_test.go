package endtoend_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
	"tenon.sh/provider/aws/awstest"
)

// TestAClusterOfKarpenterIsTakenOverAndGivenBack starts from what Karpenter writes. Our controller waits for its lease, then
// changes nothing but annotations; it starts machines for new pods and replaces one that is interrupted. Given back, and
// taken once more, nothing drifts either.
func TestAClusterOfKarpenterIsTakenOverAndGivenBack(t *testing.T) {
	u := newUpstream(t)
	u.build()
	u.deployUpstream()
	u.running(2, 2*time.Minute)
	before := u.account.Machines()

	controller := u.start()
	u.taken()
	if held := u.lease(); held.Spec.LeaseTransitions == nil || *held.Spec.LeaseTransitions == 0 {
		t.Error("the lease was not taken over from its holder")
	}
	u.undisturbed(before)

	u.scale("web", 3)
	u.runningJoined(3)
	if n := len(u.launches()); n != 1 {
		t.Errorf("%d calls started machines for one pod, want one", n)
	}

	noticed := u.names["instance-a"]
	u.account.Send(u.queue, fmt.Sprintf(`{"version":"0","id":"1","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","account":"1",`+
		`"region":"us-west-2","time":%q,"resources":[],"detail":{"instance-id":%q,"instance-action":"terminate"}}`, time.Now().UTC().Format(time.RFC3339), noticed))
	u.until(2*time.Minute, func() (bool, string) {
		u.join()
		_, runs := u.account.Machines()[noticed]
		leaves := slices.ContainsFunc(u.claims(), func(c v1.NodeClaim) bool { return strings.HasSuffix(c.Status.ProviderID, noticed) })
		return !runs && !leaves && len(u.claims()) == 3, fmt.Sprintf("the interrupted machine runs: %t, %d claims\n%s", runs, len(u.claims()), controller.tail())
	})
	u.runningJoined(3)

	controller.end(syscall.SIGTERM)
	u.asKarpenterComparesThem()
	u.stampAsKarpenter()
	before = u.account.Machines()
	controller = u.start()
	u.taken()
	u.undisturbed(before)
	u.vanish()
}

// deployUpstream makes a Deployment whose pods fill a machine each.
func (u *upstream) deployUpstream() {
	d := mixed("web", 2, "1500m", func(p *corev1.PodSpec) {
		p.NodeSelector = map[string]string{v1.NodePoolLabelKey: upstreamPool, "team": "a"}
	})
	u.must(u.Create(u, d))
}

func (u *upstream) class() *awsv1.EC2NodeClass {
	u.Helper()
	c := &awsv1.EC2NodeClass{}
	u.must(u.Get(u, keyOf("default"), c))
	return c
}

func (u *upstream) lease() *coordinationv1.Lease {
	u.Helper()
	l := &coordinationv1.Lease{}
	u.must(u.Get(u, client.ObjectKey{Namespace: deploy.Namespace, Name: "karpenter-leader-election"}, l))
	return l
}

// launches are the calls that started machines.
func (u *upstream) launches() []awstest.Call {
	return slices.DeleteFunc(u.account.Calls("ec2:CreateFleet"), func(c awstest.Call) bool { return c.Form.Get("DryRun") == "true" })
}

// taken waits until class and claims carry our fingerprint, and the pool is ready.
func (u *upstream) taken() {
	u.Helper()
	u.until(time.Minute, func() (bool, string) {
		if version := u.class().Annotations[awsv1.HashVersionAnnotationKey]; version != awsv1.HashVersion {
			return false, "the class is stamped by version " + version
		}
		for _, c := range u.claims() {
			if version := c.Annotations[awsv1.HashVersionAnnotationKey]; version != awsv1.HashVersion {
				return false, "claim " + c.Name + " is stamped by version " + version
			}
		}
		return true, ""
	})
	u.poolReady(upstreamPool)
}

// undisturbed watches for a while, in which every loop makes several passes, that nothing happens to machines and claims.
func (u *upstream) undisturbed(machines map[string]ec2types.Instance) {
	u.Helper()
	names, launched := u.claimNames(), len(u.launches())
	terminated := len(u.account.Calls("ec2:TerminateInstances"))
	u.watchFor(25*time.Second, func() {
		for _, c := range u.claims() {
			for _, condition := range []string{v1.ConditionDrifted, v1.ConditionDisruptionReason, v1.ConditionInstanceTerminating} {
				if has := v1.GetCondition(&c, condition); has != nil && has.Status != metav1.ConditionFalse {
					u.Fatalf("claim %s: %+v", c.Name, has)
				}
			}
			if c.DeletionTimestamp != nil || !v1.IsTrue(&c, v1.ConditionReady) {
				u.Fatalf("claim %s is deleted, or not ready: %+v", c.Name, c.Status.Conditions)
			}
		}
		for _, n := range u.nodes() {
			if n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }) {
				u.Fatalf("node %s is disrupted", n.Name)
			}
		}
	})
	if now := u.claimNames(); !slices.Equal(now, names) {
		u.Errorf("claims were %q, and are %q", names, now)
	}
	if now := u.account.Machines(); !slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(machines))) {
		u.Errorf("machines were %q, and are %q", slices.Sorted(maps.Keys(machines)), slices.Sorted(maps.Keys(now)))
	}
	if n := len(u.launches()) - launched; n > 0 {
		u.Errorf("%d calls to start machines", n)
	}
	if n := len(u.account.Calls("ec2:TerminateInstances")) - terminated; n > 0 {
		u.Errorf("%d calls to stop machines", n)
	}
	if has := u.class().Status.InstanceProfile; has != upstreamProfile {
		u.Errorf("the class has another instance profile: %s", has)
	}
}

// watchFor looks again and again for so long.
func (w *world) watchFor(length time.Duration, look func()) {
	w.Helper()
	end := time.Now().Add(length)
	w.until(length+time.Minute, func() (bool, string) {
		look()
		return time.Now().After(end), "the watch did not end"
	})
}

func (u *upstream) claimNames() (out []string) {
	for _, c := range u.claims() {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// runningJoined waits until n pods run, on machines that boot at once.
func (u *upstream) runningJoined(n int) {
	u.Helper()
	u.until(2*time.Minute, func() (bool, string) {
		u.join()
		running := 0
		for _, p := range u.pods() {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		ready := !slices.ContainsFunc(u.claims(), func(c v1.NodeClaim) bool { return !v1.IsTrue(&c, v1.ConditionReady) })
		return running == n && ready && len(u.pods()) == n, fmt.Sprintf("%d of %d pods run\n%s", running, n, u.waiting(3))
	})
}

// asKarpenterComparesThem looks at everything that Karpenter finds drift by.
func (u *upstream) asKarpenterComparesThem() {
	u.Helper()
	const hash, version = "7513843564091069043", "v3"
	var pool v1.NodePool
	u.must(u.Get(u, keyOf(upstreamPool), &pool))
	class, machines := u.class(), u.account.Machines()
	for _, o := range append([]client.Object{&pool}, objectsOf(u.claims())...) {
		if a := o.GetAnnotations(); a[v1.NodePoolHashAnnotationKey] != hash || a[v1.NodePoolHashVersionAnnotationKey] != version {
			u.Errorf("%s carries the pool's hash %s of version %s, want %s of %s", o.GetName(), a[v1.NodePoolHashAnnotationKey], a[v1.NodePoolHashVersionAnnotationKey], hash, version)
		}
	}
	for _, c := range u.claims() {
		m, runs := machines[c.Status.ProviderID[len("aws:///us-west-2a/"):]]
		if !runs {
			u.Errorf("claim %s has no machine: %s", c.Name, c.Status.ProviderID)
			continue
		}
		if c.Status.ImageID != class.Status.AMIs[0].ID {
			u.Errorf("claim %s has image %s, the first that the class selects is %s", c.Name, c.Status.ImageID, class.Status.AMIs[0].ID)
		}
		if !slices.ContainsFunc(class.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == *m.SubnetId }) {
			u.Errorf("claim %s is in subnet %s", c.Name, *m.SubnetId)
		}
		if len(m.SecurityGroups) != 1 || *m.SecurityGroups[0].GroupId != class.Status.SecurityGroups[0].ID {
			u.Errorf("claim %s has security groups %v", c.Name, m.SecurityGroups)
		}
		if c.Annotations[awsv1.HashVersionAnnotationKey] == "v5" || class.Annotations[awsv1.HashVersionAnnotationKey] == "v5" {
			u.Error("a fingerprint of ours passes for Karpenter's, which would compare it")
		}
		if c.Labels[awsv1.PlacementGroupIDLabelKey] != "" || v1.GetCondition(&c, v1.ConditionDrifted) != nil {
			u.Errorf("claim %s: labels %v, conditions %+v", c.Name, c.Labels, c.Status.Conditions)
		}
	}
}

func objectsOf(claims []v1.NodeClaim) (out []client.Object) {
	for i := range claims {
		out = append(out, &claims[i])
	}
	return out
}

// stampAsKarpenter does what Karpenter does with fingerprints of another version: claims that have not drifted get its own,
// then the class does.
func (u *upstream) stampAsKarpenter() {
	u.Helper()
	stamp := map[string]string{awsv1.HashAnnotationKey: "2711806443910022137", awsv1.HashVersionAnnotationKey: "v5"}
	for _, o := range append(objectsOf(u.claims()), u.class()) {
		before := client.MergeFrom(o.DeepCopyObject().(client.Object))
		annotations := maps.Clone(o.GetAnnotations())
		maps.Copy(annotations, stamp)
		o.SetAnnotations(annotations)
		u.must(u.Patch(u, o, before))
	}
}

// vanish removes everything, and looks whether the account is as empty as it was.
func (u *upstream) vanish() {
	u.Helper()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	u.must(u.DeleteAllOf(u, &appsv1.Deployment{}, client.InNamespace(metav1.NamespaceDefault), background))
	u.must(u.DeleteAllOf(u, &v1.NodePool{}, background))
	u.must(u.DeleteAllOf(u, &v1.NodeClaim{}))
	u.must(u.DeleteAllOf(u, &awsv1.EC2NodeClass{}))
	u.until(3*time.Minute, func() (bool, string) {
		var classes awsv1.EC2NodeClassList
		u.must(u.List(u, &classes))
		left := len(u.claims()) + len(u.nodes()) + len(classes.Items) + len(u.account.Machines())
		return left == 0, fmt.Sprintf("%d claims, %d nodes, %d classes, %d machines", len(u.claims()), len(u.nodes()), len(classes.Items), len(u.account.Machines()))
	})
	for _, check := range []struct {
		what string
		left int
	}{{"launch templates", u.templatesLeft()}, {"instance profiles", u.profilesLeft()}} {
		if check.left > 0 {
			u.Errorf("%d %s are left in the account", check.left, check.what)
		}
	}
}
