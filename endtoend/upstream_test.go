package endtoend_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
	"tenon.sh/provider/aws/awstest"
)

const (
	upstreamPool     = "default"
	upstreamProfile  = "demo_4067990795380201"
	upstreamTemplate = "karpenter.k8s.aws/10113087450214213021"
	upstreamQueue    = "demo"
)

// upstream is a cluster and an account as Karpenter leaves them behind.
type upstream struct {
	*world
	account *awstest.Account
	queue   string
	// names are what the account and the API server have decided: the IDs of subnets, UIDs.
	names map[string]string
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	account := awstest.New(t) // first: where there is no AWS, no control plane is needed
	u := &upstream{world: newWorld(t), account: account, names: map[string]string{"profile": upstreamProfile}}
	u.environment = []string{
		"AWS_REGION=" + awstest.Region, "AWS_ENDPOINT_URL=" + account.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
	}
	account.NewCluster("")
	account.NewRole("nodes")
	network, tags := account.NewNetwork(), map[string]string{"karpenter.sh/discovery": awstest.Cluster}
	u.names["subnet-a"] = account.NewSubnet(network, "us-west-2a", "10.0.0.0/24", tags)
	u.names["subnet-b"] = account.NewSubnet(network, "us-west-2b", "10.0.1.0/24", tags)
	u.names["group"] = account.NewSecurityGroup(network, "nodes", tags)
	u.queue = account.NewQueue(upstreamQueue)
	u.allowAWS()
	t.Cleanup(func() { // what a test that failed has left
		if len(u.claims()) > 0 {
			u.uninstall("--yes", "--drain-timeout=1s", "--cluster-name="+awstest.Cluster, "--eks-control-plane")
		}
	})
	return u
}

// start runs our controller for the account, with the lease of Karpenter.
func (u *upstream) start() *tenon {
	u.Helper()
	return u.world.start("--cloud-provider=aws", "--cluster-name="+awstest.Cluster, "--interruption-queue="+upstreamQueue, "--eks-control-plane")
}

// allowAWS adds what the chart allows on AWS.
func (u *upstream) allowAWS() {
	u.Helper()
	name := metav1.ObjectMeta{Name: "tenon-aws"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"karpenter.k8s.aws"}, Resources: []string{"ec2nodeclasses"}, Verbs: []string{"list", "watch", "patch"}},
		{APIGroups: []string{"karpenter.k8s.aws"}, Resources: []string{"ec2nodeclasses/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{"kube-dns"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.ServiceAccount}},
	}
	u.must(client.IgnoreAlreadyExists(u.Create(u, role)))
	u.must(client.IgnoreAlreadyExists(u.Create(u, binding)))
}

// build makes everything: the class with its instance profile, the pool, two nodes in two zones, the lease.
func (u *upstream) build() {
	u.Helper()
	for _, o := range u.objects("testdata/upstream.yaml") {
		made := u.store(o)
		if o.GetKind() == "EC2NodeClass" {
			u.makeProfile(string(made.GetUID()))
		} else {
			u.names["pool-uid"] = string(made.GetUID())
		}
	}
	u.makeTemplate()
	u.node("a", "usw2-az2")
	u.node("b", "usw2-az1")
	holder, seconds := "karpenter-7d4c5bfb9c-x2x7q_5a1c9f50-6d3c-4b1e-9d55-1b5a4a2d4c11", int32(15)
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "karpenter-leader-election"}}
	u.must(client.IgnoreNotFound(u.Delete(u, lease.DeepCopy())))
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
	u.must(u.Create(u, lease))
}

// objects reads a file of objects, with the names that are known by now.
func (u *upstream) objects(path string) (out []*unstructured.Unstructured) {
	u.Helper()
	text, err := os.ReadFile(path)
	u.must(err)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		filled := os.Expand(string(document), func(name string) string {
			if u.names[name] == "" {
				return "${" + name + "}"
			}
			return u.names[name]
		})
		o := &unstructured.Unstructured{}
		u.must(yaml.Unmarshal([]byte(filled), &o.Object))
		out = append(out, o)
	}
	return out
}

// store makes an object, with its status.
func (u *upstream) store(o *unstructured.Unstructured) *unstructured.Unstructured {
	u.Helper()
	made := o.DeepCopy()
	u.must(u.Create(u, made))
	if o.GetKind() != "Node" { // a kubelet writes both at once
		made.Object["status"] = o.Object["status"]
		u.must(u.Status().Update(u, made))
	}
	return made
}

// node makes a machine in a zone, its claim and its node.
func (u *upstream) node(letter, zoneID string) {
	u.Helper()
	zone := "us-west-2" + letter
	u.names["claim"], u.names["zone"], u.names["zone-id"] = "default-x7k2"+letter, zone, zoneID
	u.names["node"] = "ip-10-0-0-4" + letter + ".us-west-2.compute.internal"
	u.names["instance"] = u.run(letter)
	u.names["instance-"+letter] = u.names["instance"]
	claim := u.store(u.objects("testdata/upstreamnode.yaml")[0])
	u.names["claim-uid"] = string(claim.GetUID())
	u.store(u.objects("testdata/upstreamnode.yaml")[1])
}

func (u *upstream) ec2() *ec2.Client { return ec2.NewFromConfig(u.account.Config()) }

// upstreamTags are those of everything that Karpenter makes for the class.
func upstreamTags(more map[string]string) (out []ec2types.Tag) {
	tags := map[string]string{
		"kubernetes.io/cluster/" + awstest.Cluster: "owned", "eks:eks-cluster-name": awstest.Cluster, "karpenter.k8s.aws/ec2nodeclass": "default",
		"karpenter.sh/nodepool": upstreamPool, "team": "platform",
	}
	for key, value := range more {
		tags[key] = value
	}
	for key, value := range tags {
		out = append(out, ec2types.Tag{Key: awssdk.String(key), Value: awssdk.String(value)})
	}
	return out
}

// run starts the machine of a claim, tagged as Karpenter tags it once its node has joined.
func (u *upstream) run(letter string) string {
	u.Helper()
	out, err := u.ec2().RunInstances(u, &ec2.RunInstancesInput{
		ImageId: awssdk.String("ami-a1202300000000000"), InstanceType: "m5.large", MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1),
		SubnetId: awssdk.String(u.names["subnet-"+letter]), SecurityGroupIds: []string{u.names["group"]},
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: awssdk.String(upstreamProfile)},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: upstreamTags(map[string]string{
			"Name": u.names["node"], "karpenter.sh/nodeclaim": u.names["claim"],
		})}},
	})
	u.must(err)
	return *out.Instances[0].InstanceId
}

func (u *upstream) makeTemplate() {
	u.Helper()
	_, err := u.ec2().CreateLaunchTemplate(u, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: awssdk.String(upstreamTemplate),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: awssdk.String("ami-a1202300000000000")},
		TagSpecifications:  []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: upstreamTags(nil)}},
	})
	u.must(err)
}

// makeProfile makes the instance profile where Karpenter makes those of a class.
func (u *upstream) makeProfile(class string) {
	u.Helper()
	c, name := iam.NewFromConfig(u.account.Config()), awssdk.String(upstreamProfile)
	_, err := c.CreateInstanceProfile(u, &iam.CreateInstanceProfileInput{
		InstanceProfileName: name, Path: awssdk.String("/karpenter/" + awstest.Region + "/" + awstest.Cluster + "/" + class + "/"),
	})
	u.must(err)
	_, err = c.AddRoleToInstanceProfile(u, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: awssdk.String("nodes")})
	u.must(err)
}

// join lets machines that were started boot: their kubelets make their nodes.
func (u *upstream) join() {
	u.Helper()
	known := map[string]bool{}
	for _, n := range u.nodes() {
		known[n.Spec.ProviderID] = true
	}
	for _, c := range u.claims() {
		id := c.Status.ProviderID
		if id == "" || known[id] || c.DeletionTimestamp != nil || v1.IsTrue(&c, v1.ConditionRegistered) {
			continue
		}
		name := "ip-" + id[strings.LastIndex(id, "/")+1:]
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"},
		}}
		node.Spec.ProviderID, node.Spec.Taints = id, []corev1.Taint{v1.UnregisteredTaint()}
		node.Status = corev1.NodeStatus{Capacity: c.Status.Capacity, Allocatable: c.Status.Allocatable, Phase: corev1.NodePending}
		u.must(client.IgnoreAlreadyExists(u.Create(u, node)))
	}
}

func (u *upstream) templatesLeft() int {
	u.Helper()
	out, err := u.ec2().DescribeLaunchTemplates(u, &ec2.DescribeLaunchTemplatesInput{})
	u.must(err)
	return len(out.LaunchTemplates)
}

func (u *upstream) profilesLeft() int {
	u.Helper()
	out, err := iam.NewFromConfig(u.account.Config()).ListInstanceProfiles(u, &iam.ListInstanceProfilesInput{})
	u.must(err)
	return len(out.InstanceProfiles)
}
