package awstest

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// joinEvery is the time between two looks of the joiner at the account's machines.
const joinEvery = 300 * time.Millisecond

// kwokKey is the annotation of Nodes whose kubelet KWOK plays.
const kwokKey = "kwok.x-k8s.io/node"

// joiner lets the machines of an account join a cluster.
type joiner struct {
	account *Account
	// quiet is another front to the account, on which the joiner's calls are not counted and do not fail.
	quiet   *Account
	nodes   *rest.Config
	joined  map[string]string // Nodes by the names of their machines
	refused map[string]bool   // machines that cannot boot
}

// Join simulates the boot of the account's machines until the test ends. A machine of a fleet reads its user data like a machine of AL2023,
// finds the API server in it, and registers a Node. The Node has the labels, taints and number of pods from the user data, and the resources
// that EC2 reports. From then on KWOK is its kubelet. When the machine has stopped, its Node becomes not ready. Nodes use the credentials of
// config; they know the API server's address and certificate authority from their user data alone.
func (a *Account) Join(config *rest.Config) {
	a.t.Helper()
	j := &joiner{account: a, quiet: a.Observer(), nodes: config, joined: map[string]string{}, refused: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := j.look(ctx); err != nil && ctx.Err() == nil {
				a.t.Logf("the joiner will try again: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(joinEvery):
			}
		}
	}()
	a.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// look boots machines that were started since the last look, and ends the kubelets of machines that have stopped.
func (j *joiner) look(ctx context.Context) error {
	machines, err := j.quiet.machines(ctx)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(machines)) {
		i := machines[id]
		if i.State.Name != ec2types.InstanceStateNameRunning || j.joined[id] != "" || j.refused[id] {
			continue
		}
		if err := j.boot(ctx, &i); err != nil {
			return fmt.Errorf("machine %s boots: %w", id, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.joined)) {
		if _, runs := machines[id]; runs {
			continue
		}
		if err := j.silence(ctx, j.joined[id]); err != nil {
			return fmt.Errorf("machine %s has stopped: %w", id, err)
		}
		delete(j.joined, id)
	}
	return nil
}

// userDataOf returns the user data of a fleet's machine, "" for other machines.
func (a *Account) userDataOf(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fleets.machines[id].userData
}

// boot registers a machine's Node. If the user data does not allow a machine to join, the test fails and the machine is left alone.
func (j *joiner) boot(ctx context.Context, i *ec2types.Instance) error {
	id := aws.ToString(i.InstanceId)
	data := j.account.userDataOf(id)
	if data == "" {
		return nil // another machine, or one whose fleet has not been recorded yet
	}
	text, err := base64.StdEncoding.DecodeString(data)
	var told nodeConfig
	if err == nil {
		told, err = readNodeConfig(text)
	}
	if err != nil {
		j.refused[id] = true
		j.account.t.Errorf("machine %s of type %s cannot join: %v", id, i.InstanceType, err)
		return nil
	}
	out, err := ec2.NewFromConfig(j.quiet.Config()).DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{i.InstanceType}})
	if err != nil {
		return err
	}
	config := rest.CopyConfig(j.nodes)
	config.Host, config.CAData, config.CAFile = told.endpoint, told.authorities, ""
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node := newNode(i, &out.InstanceTypes[0], told)
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	j.joined[id] = node.Name
	return nil
}

// newNode returns the Node as a kubelet and the cloud controller manager register it.
func newNode(i *ec2types.Instance, kind *ec2types.InstanceTypeInfo, told nodeConfig) *corev1.Node {
	name, zone := aws.ToString(i.PrivateDnsName), aws.ToString(i.Placement.AvailabilityZone)
	arch := map[bool]string{true: "arm64", false: "amd64"}[i.Architecture == ec2types.ArchitectureValuesArm64]
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{kwokKey: "fake"},
		Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: arch, corev1.LabelInstanceTypeStable: string(i.InstanceType),
			corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: Region,
		},
	}}
	maps.Copy(node.Labels, told.labels)
	node.Spec.ProviderID = "aws:///" + zone + "/" + aws.ToString(i.InstanceId)
	node.Spec.Taints = told.taints
	node.Status.NodeInfo.Architecture = arch
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: aws.ToString(i.PrivateIpAddress)}, {Type: corev1.NodeHostName, Address: name}}
	node.Status.Capacity, node.Status.Allocatable = resourcesOf(kind, told.maxPods)
	return node
}

// resourcesOf returns the resources of a machine with AL2023: a little less memory than EC2 reports, minus nodeadm's reservations in
// allocatable.
func resourcesOf(kind *ec2types.InstanceTypeInfo, pods int64) (capacity, allocatable corev1.ResourceList) {
	const mi, gi = int64(1) << 20, int64(1) << 30
	cpus := int64(aws.ToInt32(kind.VCpuInfo.DefaultVCpus))
	memory := aws.ToInt64(kind.MemoryInfo.SizeInMiB) * mi * 93 / 100
	list := func(milli, memory, disk int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
		}
	}
	kept := 0.0 // thousandths of a cpu
	for n := range cpus {
		switch {
		case n == 0:
			kept += 60
		case n == 1:
			kept += 10
		case n < 4:
			kept += 5
		default:
			kept += 2.5
		}
	}
	return list(cpus*1000, memory, 20*gi), list(cpus*1000-int64(kept), memory-(255+11*pods+100)*mi, 17*gi)
}

// silence ends the kubelet of a Node, and sets the status that the control plane would set later.
func (j *joiner) silence(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(j.nodes)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	delete(node.Annotations, kwokKey)
	if node, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return gone(err)
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", metav1.Now()
		}
	}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return gone(err)
}

// gone ignores the error that a Node does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
