package playground_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

const patience = 30 * time.Second

// A cluster is one test's view of a control plane: a namespace of its own, and nodes that only its pods may use.
type cluster struct {
	t         testing.TB
	client    *kubernetes.Clientset
	namespace string
}

// newCluster uses the shared control plane.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := newClusterOn(t, playgroundtest.Get(t))
	ctx := context.Background()
	t.Cleanup(func() {
		c.must(c.client.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{}))
		c.must(c.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "test=" + c.namespace}))
	})
	return c
}

func newClusterOn(t testing.TB, p *playground.Playground) *cluster {
	t.Helper()
	c := &cluster{t: t, client: kubernetes.NewForConfigOrDie(p.RESTConfig())}
	ctx := context.Background()
	namespace, err := c.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	c.must(err)
	c.namespace = namespace.Name
	eventually(t, patience, func() error {
		_, err := c.client.CoreV1().ServiceAccounts(c.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

const unregistered = "karpenter.sh/unregistered"

func isUnregistered(taint corev1.Taint) bool { return taint.Key == unregistered }

// node creates a node like the kwok provider.
func (c *cluster) node(name string, cpu, memory, pods string) *corev1.Node {
	c.t.Helper()
	name = c.namespace + "-" + name
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse(pods),
	}
	allocatable := maps.Clone(resources)
	allocatable[corev1.ResourceMemory] = resource.MustParse("1Gi")
	node, err := c.client.CoreV1().Nodes().Create(context.Background(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"kwok.x-k8s.io/node": "fake", "test": c.namespace, corev1.LabelHostname: name, corev1.LabelTopologyZone: "test-zone-a",
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec:   corev1.NodeSpec{ProviderID: "kwok://" + name, Taints: []corev1.Taint{{Key: unregistered, Effect: corev1.TaintEffectNoExecute}}},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: allocatable, Phase: corev1.NodePending},
	}, metav1.CreateOptions{})
	c.must(err)
	return node
}

// register removes the taint that keeps pods off an unregistered node.
func (c *cluster) register(name string) {
	c.t.Helper()
	c.ready(name)
	eventually(c.t, patience, func() error {
		node, err := c.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isUnregistered)
		_, err = c.client.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{})
		return err
	})
}

func (c *cluster) ready(name string) (node *corev1.Node) {
	c.t.Helper()
	eventually(c.t, patience, func() (err error) {
		if node, err = c.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not Ready: %v", name, node.Status.Conditions)
	})
	return node
}

// podSpec returns the spec of a pod that runs only on nodes of this test.
func (c *cluster) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{"test": c.namespace},
		Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		}},
	}
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).Create(context.Background(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.podSpec()}, metav1.CreateOptions{})
	c.must(err)
	return pod
}

func (c *cluster) running(name string) (pod *corev1.Pod) {
	c.t.Helper()
	eventually(c.t, patience, func() (err error) {
		pod, err = c.client.CoreV1().Pods(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod %s on node %q is %s: %v", name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions)
		}
		return err
	})
	return pod
}

func (c *cluster) unschedulable(name string) {
	c.t.Helper()
	eventually(c.t, patience, func() error {
		pod, err := c.client.CoreV1().Pods(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not known to be unschedulable: %v", name, pod.Status.Conditions)
	})
}

func TestANodeOfTheKwokProviderBecomesReadyAsItIsAndRunsPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	created := c.node("n", "4", "8Gi", "20")

	node := c.ready(created.Name)
	if !maps.Equal(node.Labels, created.Labels) {
		t.Errorf("labels changed from %v to %v", created.Labels, node.Labels)
	}
	if !slices.ContainsFunc(node.Spec.Taints, isUnregistered) {
		t.Errorf("taints changed: %v", node.Spec.Taints)
	}
	if got := node.Status.Capacity.Memory().String(); got != "8Gi" {
		t.Errorf("capacity changed: memory %s", got)
	}
	if got := node.Status.Allocatable.Memory().String(); got != "1Gi" {
		t.Errorf("allocatable changed: memory %s", got)
	}

	c.pod("p")
	c.unschedulable("p")
	c.register(created.Name)
	pod := c.running("p")
	if address, err := netip.ParseAddr(pod.Status.PodIP); err != nil || !netip.MustParsePrefix("10.128.0.0/9").Contains(address) {
		t.Errorf("the pod's address is %q", pod.Status.PodIP)
	}

	c.must(c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}))
	eventually(t, patience, func() error {
		_, err := c.client.CoreV1().Pods(c.namespace).Get(t.Context(), "p", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the deleted pod is still there (%v)", err)
	})
}

// With hundreds of nodes, their leases would be much of the API server's work.
func TestAReadyNodeHasNoLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	node := c.ready(c.node("n", "1", "1Gi", "10").Name)
	_, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), node.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading its lease: %v", err)
	}
}

func TestANominatedNodeIsTriedBeforeItsEquals(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var nodes []string
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, c.node(name, "4", "8Gi", "20").Name)
	}
	for _, name := range nodes {
		c.ready(name)
		c.register(name)
	}
	// A pod that runs on the second node shows that the scheduler can use the node, and makes it the least attractive node.
	first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: c.podSpec()}
	first.Spec.NodeSelector[corev1.LabelHostname] = nodes[1]
	_, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(), first, metav1.CreateOptions{})
	c.must(err)
	c.running("first")
	// Only the nomination makes it preferred for all of six pods. They are gated until they are nominated, because a failed attempt removes a
	// nomination.
	var pods []string
	for i := range 6 {
		name := fmt.Sprintf("p%d", i)
		spec := c.podSpec()
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/nominated"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		_, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		c.must(err)
		nominate := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, nodes[1])
		_, err = c.client.CoreV1().Pods(c.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(nominate), metav1.PatchOptions{}, "status")
		c.must(err)
		release := `{"spec":{"schedulingGates":null}}`
		_, err = c.client.CoreV1().Pods(c.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(release), metav1.PatchOptions{})
		c.must(err)
		pods = append(pods, name)
	}
	for _, name := range pods {
		if pod := c.running(name); pod.Spec.NodeName != nodes[1] {
			t.Errorf("pod %s runs on %s, nominated was %s", name, pod.Spec.NodeName, nodes[1])
		}
	}
}

// The kubelet's work must include pods that exist before it: here they are bound before KWOK knows the node.
func TestPodsBoundToANodeAtItsBirthRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("n%d", i)
		spec := c.podSpec()
		spec.NodeName = c.namespace + "-" + name
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		c.node(name, "4", "8Gi", "20")
		_, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		c.must(err)
		names = append(names, name)
	}
	for _, name := range names {
		c.running(name)
	}
}

func TestAnUnhealthyPodNeverBecomesReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	node := c.node("n", "4", "8Gi", "20")
	c.register(node.Name)
	_, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "sick", Labels: map[string]string{"kwok.x-k8s.io/stage": "unhealthy"}},
		Spec:       c.podSpec(),
	}, metav1.CreateOptions{})
	c.must(err)
	eventually(t, patience, func() error {
		pod, err := c.client.CoreV1().Pods(c.namespace).Get(t.Context(), "sick", metav1.GetOptions{})
		if err == nil && (pod.Status.Phase != corev1.PodUnknown || pod.Status.PodIP == "") {
			err = fmt.Errorf("phase %s, address %q", pod.Status.Phase, pod.Status.PodIP)
		}
		return err
	})
}

func TestAPodEndsAfterTheDelayOfItsAnnotation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	node := c.node("n", "4", "8Gi", "20")
	c.register(node.Name)
	_, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", Annotations: map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "3s"}},
		Spec:       c.podSpec(),
	}, metav1.CreateOptions{})
	c.must(err)
	c.running("slow")
	begin := time.Now()
	c.must(c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "slow", metav1.DeleteOptions{}))
	eventually(t, patience, func() error {
		_, err := c.client.CoreV1().Pods(c.namespace).Get(t.Context(), "slow", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the deleted pod is still there (%v)", err)
	})
	if took := time.Since(begin); took < 2500*time.Millisecond {
		t.Errorf("the pod ended after %s", took)
	}
}

func TestAUserMayDoWhatRolesAllow(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	config, err := playgroundtest.Get(t).UserConfig("alice", "developers")
	c.must(err)
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice"`) {
		t.Errorf("without a role alice gets %v, want forbidden", err)
	}
	c.must(c.grantView("developers"))
	eventually(t, patience, func() error {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
		return err
	})
}
