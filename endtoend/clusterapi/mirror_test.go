package clusterapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeKey is what KWOK goes by: it plays the kubelets of the nodes that carry it.
const fakeKey = "kwok.x-k8s.io/node"

// mirror makes a Node on the control plane for each Node of the API servers in memory that the infrastructure provider has. Those
// know no other kinds and no capacity; here, pods can run. It looks at them again and again instead of watching, because they come
// and go with the provider's process.
type mirror struct {
	client.Client
	stop  context.CancelFunc
	ended chan struct{}

	workloads map[types.UID]client.Client // by Cluster
	mirrored  map[string]*mirroredNode    // by name

	mu      sync.Mutex // guards the fields below
	err     error
	targets map[string]client.Client // by Cluster
}

// mirroredNode is a Node that was made. One that somebody removes is not made again: kubelets register once.
type mirroredNode struct {
	cluster             types.UID
	born                metav1.Time       // of the one in memory, which has no UID
	labels, annotations map[string]string // as they were written last
}

func startMirror(c client.Client) *mirror {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mirror{Client: c, stop: cancel, ended: make(chan struct{}), workloads: map[types.UID]client.Client{}, mirrored: map[string]*mirroredNode{}, targets: map[string]client.Client{}}
	go func() {
		defer close(m.ended)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			err := m.sync(ctx)
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}()
	return m
}

func (m *mirror) end() {
	m.stop()
	<-m.ended
}

// elsewhere makes the Nodes of a Cluster on another control plane.
func (m *mirror) elsewhere(cluster string, c client.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets[cluster] = c
}

// target is where the Nodes of a Cluster are made.
func (m *mirror) target(cluster string) client.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.targets[cluster]; c != nil {
		return c
	}
	return m.Client
}

// lastError is why nodes of some clusters could not be mirrored.
func (m *mirror) lastError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *mirror) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var clusters clusterv1.ClusterList
	if err := m.List(ctx, &clusters); err != nil {
		return err
	}
	var errs []error
	for i := range clusters.Items {
		if err := m.syncCluster(ctx, &clusters.Items[i]); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", clusters.Items[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

func (m *mirror) syncCluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	machines := &unstructured.UnstructuredList{}
	machines.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	machines.SetKind("DevMachineList")
	if err := m.List(ctx, machines, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
		return err
	}
	workload, err := m.workload(ctx, cluster)
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return err
	}
	there := map[string]bool{}
	hardwareOf := map[string]string{}
	for _, machine := range machines.Items {
		hardwareOf[machine.GetName()] = machine.GetAnnotations()[hardwareAnnotation]
		// A provider that was started again has forgotten its nodes, but not for long.
		there[machine.GetName()] = machine.GetDeletionTimestamp() == nil
	}
	var errs []error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		there[node.Name] = true
		if m.mirrored[node.Name] == nil {
			errs = append(errs, m.register(ctx, cluster, node, hardwareOf[node.Name]))
		}
		errs = append(errs, m.follow(ctx, cluster, node))
	}
	for name, mirrored := range m.mirrored {
		if mirrored.cluster != cluster.UID || there[name] {
			continue
		}
		err := m.target(cluster.Name).Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err = client.IgnoreNotFound(err); err == nil {
			delete(m.mirrored, name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// workload is a client for the cluster's API server in memory.
func (m *mirror) workload(ctx context.Context, cluster *clusterv1.Cluster) (client.Client, error) {
	if c := m.workloads[cluster.UID]; c != nil {
		return c, nil
	}
	var secret corev1.Secret
	if err := m.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}, &secret); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err == nil {
		m.workloads[cluster.UID] = c
	}
	return c, err
}

// register makes the Node as the machine's kubelet would, with what its cloud adds.
func (m *mirror) register(ctx context.Context, cluster *clusterv1.Cluster, node *corev1.Node, encoded string) error {
	var h hardware
	if err := json.Unmarshal([]byte(encoded), &h); err != nil {
		return fmt.Errorf("the hardware of machine %s: %w", node.Name, err)
	}
	labels := map[string]string{corev1.LabelHostname: node.Name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}
	maps.Copy(labels, h.Labels)
	err := m.target(cluster.Name).Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: labels, Annotations: map[string]string{fakeKey: "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: append(h.Taints, node.Spec.Taints...)},
		Status:     corev1.NodeStatus{Capacity: h.Capacity, Allocatable: h.Allocatable, Phase: corev1.NodePending},
	})
	if err == nil {
		m.mirrored[node.Name] = &mirroredNode{cluster: cluster.UID}
	}
	return err
}

// follow writes the labels and annotations that Cluster API has given to the Node, and takes away those that it took away. What a
// provider that was started again has forgotten was not taken away.
func (m *mirror) follow(ctx context.Context, cluster *clusterv1.Cluster, node *corev1.Node) error {
	mirrored := m.mirrored[node.Name]
	if mirrored != nil && !mirrored.born.Equal(&node.CreationTimestamp) {
		mirrored.born, mirrored.labels, mirrored.annotations = node.CreationTimestamp, nil, nil
	}
	if mirrored == nil || maps.Equal(mirrored.labels, node.Labels) && maps.Equal(mirrored.annotations, node.Annotations) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": changes(mirrored.labels, node.Labels), "annotations": changes(mirrored.annotations, node.Annotations),
	}})
	if err != nil {
		return err
	}
	err = m.target(cluster.Name).Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, patch))
	if err == nil || apierrors.IsNotFound(err) {
		mirrored.labels, mirrored.annotations = node.Labels, node.Annotations
		return nil
	}
	return err
}

// changes makes one map out of another, as a merge patch does: what is to be removed is nil.
func changes(before, after map[string]string) map[string]any {
	patch := map[string]any{}
	for key := range before {
		patch[key] = nil
	}
	for key, value := range after {
		patch[key] = value
	}
	return patch
}
