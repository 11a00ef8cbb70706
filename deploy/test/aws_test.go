package charttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

const awsPool = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: aws-rights}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: aws-rights}
spec:
  template:
    metadata: {labels: {test: aws-rights}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: aws-rights}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: aws-rights, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: aws-rights}}
  template:
    metadata: {labels: {app: aws-rights}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {test: aws-rights}
      containers: [{name: c, image: pause, resources: {requests: {cpu: "1"}}}]
`

// The same with the AWS provider: a machine comes, is taken back and replaced, and goes; in the end the class goes too. The
// environment leads the SDK of this process to an account of the test, so that the test runs by itself.
func TestTheControllerWorksWithTheRightsOfTheChartOnAWS(t *testing.T) {
	account := awstest.New(t)
	queue := account.Furnish()
	for _, variable := range account.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	local := playgroundtest.Get(t)
	c, err := client.New(local.RESTConfig(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.ApplyCRDs(t.Context(), local.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	r := gettingStarted().with("replicas=0")
	r.name, r.namespace = "karpenter-aws-rights", "aws-rights"
	makeNamespace(t, c, r.namespace)
	install(t, helm(t, r.namespace), r)
	account.Join(local.RESTConfig())
	refused, options := &refusals{}, cli.DefaultControllerOptions()
	options.CloudProvider, options.ClusterName, options.InterruptionQueue = "aws", awstest.Cluster, awstest.Queue
	options.ClusterEndpoint, options.EKSControlPlane = local.RESTConfig().Host, true
	startController(t, r, refused, options)

	applyAll(t, c, awsPool)
	podsRun := func(ctx context.Context) (string, bool) {
		d := &appsv1.Deployment{}
		err := c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "aws-rights"}, d)
		return fmt.Sprintf("%d ready, %v", d.Status.ReadyReplicas, err), err == nil && d.Status.ReadyReplicas == 2
	}
	eventually(t, "two pods run", podsRun)
	machine := claimsOf(t, c)[0].Status.ProviderID
	account.Observer().Send(queue, awstest.Interruption(machine[strings.LastIndex(machine, "/")+1:]))
	eventually(t, "the machine is replaced", func(ctx context.Context) (string, bool) {
		for _, claim := range claimsOf(t, c) {
			if claim.Status.ProviderID == machine {
				return machine + " is still there", false
			}
		}
		return podsRun(ctx)
	})
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: objectMeta("default", "aws-rights")}, &v1.NodePool{ObjectMeta: objectMeta("", "aws-rights")},
		&awsv1.EC2NodeClass{ObjectMeta: objectMeta("", "aws-rights")},
	} {
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nodes and class are gone, and nothing is left in the account", func(ctx context.Context) (string, bool) {
		nodes := &corev1.NodeList{}
		err := c.List(ctx, nodes, client.MatchingLabels{"test": "aws-rights"})
		gone := client.IgnoreNotFound(c.Get(ctx, types.NamespacedName{Name: "aws-rights"}, &awsv1.EC2NodeClass{}))
		left, contentsErr := account.Observer().Contents(ctx)
		return fmt.Sprintf("%d nodes, %v; class: %v; %q, %v", len(nodes.Items), err, gone, left, contentsErr), err == nil && contentsErr == nil && len(nodes.Items)+len(left) == 0
	})
	if lines := refused.all(); len(lines) > 0 {
		t.Errorf("forbidden:\n%s", strings.Join(lines, "\n"))
	}
}

func claimsOf(t *testing.T, c client.Client) []v1.NodeClaim {
	t.Helper()
	var list v1.NodeClaimList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
