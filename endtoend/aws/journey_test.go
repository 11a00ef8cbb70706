package aws_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

const (
	replicas = 5
	// patience is how long a step may take. It takes seconds where nothing is wrong; a busy machine may need many times that.
	patience = 2 * time.Minute
)

// journey is the life of some machines, told on a screen.
type journey struct {
	*world
	*screen
}

// TestMachinesOfEC2ComeAreReplacedAndLeaveNothingBehind is the whole life of machines on AWS. It is also make demo-aws.
func TestMachinesOfEC2ComeAreReplacedAndLeaveNothingBehind(t *testing.T) {
	if os.Getenv(demo) != "" {
		if err := awstest.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "there is no AWS to show this on:", err)
			os.Exit(1)
		}
	}
	s := newScreen(t)
	s.chapter("A local cluster, and an account of AWS in a server that is not ours")
	local := playgroundtest.Get(t)
	s.step("cluster", "etcd, kube-apiserver, kube-scheduler, kube-controller-manager; KWOK plays the kubelets", "KUBECONFIG="+local.Kubeconfig())
	j := &journey{newWorld(t), s}
	s.step("account", "moto answers for EC2, IAM, EKS, SSM and SQS; in account "+j.account.ID+" there are 3 subnets, a security group,",
		"the role "+awstest.NodeRole+", the EKS cluster "+awstest.Cluster+" and the queue "+awstest.Queue)
	controller := j.start()
	s.step("controller", strings.Join(controller.Args[:2], " ")+" --cloud-provider aws, with AWS_ENDPOINT_URL="+j.account.URL)
	j.classBecomesReady()
	j.podsGetMachines()
	j.interruptedMachineIsReplaced()
	j.idleMachinesGo()
	j.nothingIsLeft()
	j.summary()
}

func (j *journey) classBecomesReady() {
	j.chapter("kubectl apply -f examples/aws -f examples/inflate/deployment.yaml")
	j.applyFile("examples/aws/nodepool.yaml")
	j.applyFile("examples/inflate/deployment.yaml")
	class := &awsv1.EC2NodeClass{}
	j.until(patience, func() (string, bool) {
		j.must(j.Get(j, client.ObjectKey{Name: "default"}, class))
		return fmt.Sprintf("the class says %+v", class.Status.Conditions), v1.IsTrue(class, v1.ConditionReady)
	})
	var subnets []string
	for _, s := range class.Status.Subnets {
		subnets = append(subnets, s.ID+" in "+s.Zone)
	}
	j.step("EC2NodeClass", fmt.Sprintf("al2023@latest is %d images, %s and others", len(class.Status.AMIs), class.Status.AMIs[0].ID), strings.Join(subnets, ", "),
		class.Status.SecurityGroups[0].ID+"; instance profile "+class.Status.InstanceProfile)
}

func (j *journey) podsGetMachines() {
	j.chapter("Deployment inflate: 0 → %d pods of 1 cpu", replicas)
	j.scale("inflate", replicas)
	j.until(patience, func() (string, bool) {
		n := len(j.pods())
		return fmt.Sprintf("%d pods", n), n == replicas
	})
	j.step("pods pending", fmt.Sprintf("%d pods wait: kube-scheduler finds no node for them", replicas))
	j.machinesAreStarted(nil)
	j.podsRun()
}

// machinesAreStarted waits until there are claims beside those that were there before, and each has its machine.
func (j *journey) machinesAreStarted(before []v1.NodeClaim) {
	j.TB.Helper()
	var claims []v1.NodeClaim
	j.until(patience, func() (string, bool) {
		claims = slices.DeleteFunc(j.claims(), func(c v1.NodeClaim) bool {
			return slices.ContainsFunc(before, func(old v1.NodeClaim) bool { return old.UID == c.UID })
		})
		waits := slices.ContainsFunc(claims, func(c v1.NodeClaim) bool { return c.Status.ProviderID == "" })
		return "claims: " + describe(claims), len(claims) > 0 && !waits
	})
	var details []string
	machines := j.observer.Machines()
	for i := range claims {
		details = append(details, j.checkMachine(&claims[i], machines))
	}
	j.step("CreateFleet", details...)
}

// checkMachine compares a claim with what runs in the account, and says what that is.
func (j *journey) checkMachine(c *v1.NodeClaim, machines map[string]ec2types.Instance) string {
	j.TB.Helper()
	id := idOf(c.Status.ProviderID)
	i, runs := machines[id]
	if !runs {
		j.Fatalf("claim %s has machine %s, which does not run", c.Name, c.Status.ProviderID)
	}
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[*t.Key] = *t.Value
	}
	token := c.Annotations[v1.LaunchTokenAnnotationKey]
	for key, want := range map[string]string{
		awsv1.ClusterTagPrefix + awstest.Cluster: awsv1.ClusterTagOwned, v1.NodePoolLabelKey: "default", awsv1.NodeClassLabelKey: "default", v1.LaunchTokenAnnotationKey: token,
	} {
		if tags[key] != want || want == "" {
			j.Errorf("machine %s of claim %s has tag %s=%q, want %q", id, c.Name, key, tags[key], want)
		}
	}
	l := c.Labels
	if string(i.InstanceType) != l[corev1.LabelInstanceTypeStable] || *i.Placement.AvailabilityZone != l[corev1.LabelTopologyZone] {
		j.Errorf("machine %s is %s in %s, its claim says %v", id, i.InstanceType, *i.Placement.AvailabilityZone, l)
	}
	return fmt.Sprintf("%s is %s: %s in %s, %s", c.Name, id, j.paint("1", string(i.InstanceType)), *i.Placement.AvailabilityZone, l[v1.CapacityTypeLabelKey])
}

// podsRun waits for the Nodes that the machines register, and for all pods to run there.
func (j *journey) podsRun() {
	j.TB.Helper()
	j.until(patience, func() (string, bool) {
		for _, c := range j.claims() {
			if !v1.IsTrue(&c, v1.ConditionInitialized) {
				return fmt.Sprintf("claim %s: %+v", c.Name, c.Status.Conditions), false
			}
		}
		return "", true
	})
	var details []string
	claims := j.claims()
	for _, node := range j.nodes() {
		i := slices.IndexFunc(claims, func(c v1.NodeClaim) bool { return c.Status.ProviderID == node.Spec.ProviderID })
		if i < 0 || claims[i].DeletionTimestamp != nil {
			continue // it is going
		}
		details = append(details, fmt.Sprintf("%s, %s, %s cpu for pods", node.Name, node.Spec.ProviderID, node.Status.Allocatable.Cpu()))
		planned := claims[i].Status.Allocatable
		for name, have := range node.Status.Allocatable {
			if want, known := planned[name]; known && have.Cmp(want) < 0 {
				j.Errorf("node %s has %s %s, claim %s was promised %s", node.Name, have.String(), name, claims[i].Name, want.String())
			}
		}
	}
	j.step("node joins", append(details, "as its user data says: API server, authorities, labels, taints, number of pods")...)
	j.until(patience, func() (string, bool) {
		n := len(j.running())
		return fmt.Sprintf("%d of %d pods run; claims: %s", n, replicas, describe(j.claims())), n == replicas
	})
	j.step("pods running", fmt.Sprintf("%d of %d", replicas, replicas))
}

func (j *journey) interruptedMachineIsReplaced() {
	node := j.running()[0].Spec.NodeName
	claims := j.claims()
	i := slices.IndexFunc(claims, func(c v1.NodeClaim) bool { return c.Status.NodeName == node })
	id := idOf(claims[i].Status.ProviderID)
	j.chapter("A message on the queue: EC2 takes %s back in two minutes", id)
	j.observer.Send(j.queue, awstest.Interruption(id))
	j.until(patience, func() (string, bool) {
		now := &v1.NodeClaim{}
		err := j.Get(j, client.ObjectKeyFromObject(&claims[i]), now)
		return "its claim stays", client.IgnoreNotFound(err) == nil && (err != nil || now.DeletionTimestamp != nil)
	})
	j.step("heard", claims[i].Name+" ends, its node takes no more pods")
	j.machinesAreStarted(claims)
	j.until(patience, func() (string, bool) {
		_, runs := j.observer.Machines()[id]
		there := slices.ContainsFunc(j.claims(), func(c v1.NodeClaim) bool { return c.UID == claims[i].UID })
		return id + " or its claim is still there", !runs && !there
	})
	j.step("terminated", id+" is stopped, its Node and NodeClaim are removed")
	j.podsRun()
	j.until(patience, func() (string, bool) {
		n, err := j.observer.Waiting(j, j.queue)
		return fmt.Sprintf("%d messages are on the queue, %v", n, err), err == nil && n == 0
	})
	j.step("queue", "empty: the message was deleted once all was done")
}

func (j *journey) idleMachinesGo() {
	j.chapter("Deployment inflate: %d → 0 pods", replicas)
	j.scale("inflate", 0)
	j.until(patience, func() (string, bool) {
		n := len(j.pods())
		return fmt.Sprintf("%d pods", n), n == 0
	})
	j.step("no pods", "the machines stay for consolidateAfter, 10 s, should pods return")
	j.until(patience, func() (string, bool) {
		claims, nodes, machines := j.claims(), j.nodes(), j.observer.Machines()
		return fmt.Sprintf("%d nodes, %d machines, claims: %s", len(nodes), len(machines), describe(claims)), len(claims)+len(nodes)+len(machines) == 0
	})
	j.step("terminated", "no NodeClaim, no Node, no machine")
}

func (j *journey) nothingIsLeft() {
	j.chapter("kubectl delete nodepool,ec2nodeclass default")
	left, err := j.observer.Contents(j)
	j.must(err)
	j.step("before", left...)
	for _, o := range []client.Object{&v1.NodePool{}, &awsv1.EC2NodeClass{}} {
		o.SetName("default")
		j.must(j.Delete(j, o))
	}
	j.until(patience, func() (string, bool) {
		var classes awsv1.EC2NodeClassList
		j.must(j.List(j, &classes))
		left, err = j.observer.Contents(j)
		return fmt.Sprintf("%d classes; in the account: %q, %v", len(classes.Items), left, err), err == nil && len(left)+len(classes.Items) == 0
	})
	j.step("after", "nothing: no machine, no launch template, no instance profile")
}

func (j *journey) summary() {
	counts := map[string]int{}
	for _, call := range j.account.Calls("") {
		counts[call.Action]++
	}
	j.line("")
	j.line("%s", j.paint("1", fmt.Sprintf("What AWS was asked, in %d calls", len(j.account.Calls("")))))
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		j.line("  %4d  %s", counts[action], action)
	}
	j.line("")
	if !j.TB.Failed() {
		j.line("%s", j.paint("32", fmt.Sprintf("All %d steps were reached, and nothing is left in the account.", j.steps)))
	}
}

// idOf is what EC2 calls a machine: the end of aws:///us-west-2a/i-….
func idOf(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }

func describe(claims []v1.NodeClaim) string {
	var lines []string
	for i := range claims {
		words := []string{claims[i].Name, claims[i].Status.ProviderID}
		for _, c := range claims[i].Status.Conditions {
			if c.Status != "True" {
				words = append(words, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Message))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return "[" + strings.Join(lines, "; ") + "]"
}
