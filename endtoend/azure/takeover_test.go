package azure_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/azuretest"
)

const (
	upstreamNodes = 2
	// watched is how long nothing may happen: every loop makes several passes in it.
	watched = 20 * time.Second
)

// upstream is a cluster of AKS and a subscription as Karpenter leaves them behind.
type upstream struct {
	*world
	// names are what Azure and the API server have decided.
	names map[string]string
}

// TestAClusterOfKarpenterOnAKSIsTakenOver starts from what Karpenter writes. Our controller changes nothing of it but annotations, and
// the tags that say whose a machine is; then it starts a machine for a pod that waits, and takes away those that are not needed.
func TestAClusterOfKarpenterOnAKSIsTakenOver(t *testing.T) {
	u := newUpstream(t)
	u.build()
	before := u.Machines()
	u.deploy(upstreamNodes)
	u.start()
	u.taken()
	u.undisturbed(before)
	u.tagged()

	u.scale("web", upstreamNodes+1)
	u.settled(upstreamNodes + 1)
	if n := len(u.Calls("VirtualMachines_CreateOrUpdate")) - upstreamNodes; n != 1 {
		t.Errorf("%d calls started machines for one pod, want one", n)
	}
	u.scale("web", 1)
	u.settled(1)

	u.must(u.Delete(u, deployment("web"), client.PropagationPolicy("Background")))
	u.must(u.Delete(u, &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	class := u.class()
	u.must(u.Delete(u, class))
	u.until(patience, func() (string, bool) {
		err := u.Get(u, client.ObjectKeyFromObject(class), class)
		left := len(u.Machines()) + len(u.nodes()) + len(u.claims()) + len(u.Names("Microsoft.Network/networkInterfaces")) + len(u.Names("Microsoft.Compute/disks"))
		return fmt.Sprintf("%d machines, nodes, claims, interfaces and disks are left; the class: %v, %q", left, err, class.Finalizers), left == 0 && apierrors.IsNotFound(err)
	})
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{world: newAKS(t)}
	u.names = map[string]string{"subscription": u.ID, "group": u.group(), "subnet": u.subnet, "version": u.version}
	return u
}

// build makes everything: the class, the pool, and two nodes in two zones with their machines.
func (u *upstream) build() {
	u.Helper()
	for _, o := range u.objects("testdata/upstream.yaml") {
		made := u.store(o)
		if made.GetKind() == "NodePool" {
			u.names["pool-uid"] = string(made.GetUID())
		}
	}
	u.joiner.mu.Lock() // these have joined long ago
	defer u.joiner.mu.Unlock()
	for number := 1; number <= upstreamNodes; number++ {
		u.names["zone"], u.names["claim"] = strconv.Itoa(number), "default-x7k2"+strconv.Itoa(number)
		u.joiner.joined["aks-"+u.names["claim"]] = told{}
		bodies := u.objects("testdata/upstreammachine.yaml")
		u.put("Microsoft.Network/networkInterfaces", bodies[0].Object)
		u.put("Microsoft.Compute/virtualMachines", bodies[1].Object)
		made := u.store(u.objects("testdata/upstreamnode.yaml")[0])
		u.names["claim-uid"] = string(made.GetUID())
		u.store(u.objects("testdata/upstreamnode.yaml")[1])
	}
	u.until(patience, func() (string, bool) {
		runs := slices.DeleteFunc(u.Machines(), func(m azuretest.Machine) bool { return !m.Runs() })
		return fmt.Sprintf("%d machines run", len(runs)), len(runs) == upstreamNodes
	})
}

// put has Azure make something of the claim's, as Karpenter does.
func (u *upstream) put(kind string, body map[string]any) {
	u.Helper()
	text, err := json.Marshal(body)
	u.must(err)
	request, err := http.NewRequestWithContext(u, http.MethodPut, u.URL+u.names["group"]+"/"+kind+"/aks-"+u.names["claim"]+"?api-version=2024-07-01", bytes.NewReader(text))
	u.must(err)
	request.Header.Set("Authorization", "Bearer test")
	answer, err := u.Subscription.Client().Do(request)
	u.must(err)
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode >= http.StatusBadRequest {
		u.Fatalf("put %s: %s: %s", kind, answer.Status, said)
	}
}

// objects reads a file of objects, with the names that are known by now.
func (u *upstream) objects(path string) (out []*unstructured.Unstructured) {
	u.Helper()
	text, err := os.ReadFile(path)
	u.must(err)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		filled := os.Expand(string(document), func(name string) string { return cmp.Or(u.names[name], "${"+name+"}") })
		o := &unstructured.Unstructured{}
		u.must(yaml.Unmarshal([]byte(filled), &o.Object))
		if o.GetKind() == "NodePool" { // its fingerprint is Karpenter's to the bit
			var pool v1.NodePool
			u.must(yaml.Unmarshal([]byte(filled), &pool))
			u.names["pool-hash"] = pool.Hash()
			annotations := o.GetAnnotations()
			annotations[v1.NodePoolHashAnnotationKey] = u.names["pool-hash"]
			o.SetAnnotations(annotations)
		}
		out = append(out, o)
	}
	return out
}

// store makes an object, with its status.
func (u *upstream) store(o *unstructured.Unstructured) *unstructured.Unstructured {
	u.Helper()
	made := o.DeepCopy()
	u.must(u.Create(u, made))
	if status, has := o.Object["status"]; has && o.GetKind() != "Node" { // a kubelet writes both at once
		made.Object["status"] = status
		u.must(u.Status().Update(u, made))
	}
	u.Cleanup(func() { // what a test that failed has left
		if u.Failed() {
			_ = u.Client.Delete(context.Background(), made)
			_ = u.Client.Patch(context.Background(), made, merge(`{"metadata":{"finalizers":null}}`))
		}
	})
	return made
}

// deploy makes a Deployment whose pods fill a machine each.
func (u *upstream) deploy(replicas int32) {
	u.Helper()
	labels := map[string]string{"app": "web"}
	d := deployment("web")
	d.Spec = appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{v1.NodePoolLabelKey: "default", "team": "a"}, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
			Name: "web", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
		}}},
	}}
	u.must(u.Create(u, d))
	u.until(patience, func() (string, bool) {
		n := len(u.running("web"))
		return fmt.Sprintf("%d pods run: %+v", n, u.pods("web")), n == int(replicas)
	})
}

func (u *upstream) class() *azurev1beta1.AKSNodeClass {
	u.Helper()
	c := &azurev1beta1.AKSNodeClass{}
	u.must(u.Get(u, client.ObjectKey{Name: "default"}, c))
	return c
}

// taken waits until class and claims carry our fingerprint.
func (u *upstream) taken() {
	u.Helper()
	u.until(patience, func() (string, bool) {
		if version := u.class().Annotations[azurev1beta1.HashVersionAnnotationKey]; version != azurev1beta1.HashVersion {
			return "the class is stamped by version " + version, false
		}
		for _, c := range u.claims() {
			if version := c.Annotations[azurev1beta1.HashVersionAnnotationKey]; version != azurev1beta1.HashVersion {
				return "claim " + c.Name + " is stamped by version " + version, false
			}
			if hash := c.Annotations[azurev1beta1.HashAnnotationKey]; hash != u.class().Hash() {
				u.Fatalf("claim %s carries fingerprint %s, its class %s", c.Name, hash, u.class().Hash())
			}
		}
		return "", true
	})
}

// undisturbed watches for a while that nothing happens to machines, claims and nodes.
func (u *upstream) undisturbed(machines []azuretest.Machine) {
	u.Helper()
	end := time.Now().Add(watched)
	u.until(watched+patience, func() (string, bool) {
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
		return "the watch did not end", time.Now().After(end)
	})
	ids := func(list []azuretest.Machine) (out []string) {
		for _, m := range list {
			out = append(out, m.ID)
		}
		return out
	}
	if now := ids(u.Machines()); !slices.Equal(now, ids(machines)) || len(u.claims()) != len(machines) || len(u.nodes()) != len(machines) {
		u.Errorf("machines were %q, and are %q, with %d claims and %d nodes", ids(machines), now, len(u.claims()), len(u.nodes()))
	}
	for operation, want := range map[string]int{"VirtualMachines_CreateOrUpdate": len(machines), "VirtualMachines_Delete": 0, "NetworkInterfaces_CreateOrUpdate": len(machines), "NetworkInterfaces_Delete": 0} {
		if n := len(u.Calls(operation)); n != want {
			u.Errorf("%d calls of %s, %d of them ours", n, operation, n-want)
		}
	}
	if images := u.class().Status.Images; len(images) != 3 || !strings.HasSuffix(images[0].ID, "/2404gen2containerd/versions/202605.1.0") {
		u.Errorf("the class has other images, and AKS said to wait with that: %+v", images)
	}
}

// tagged waits until machines and their interfaces carry our tags; those of Karpenter, of the class and of others stay.
func (u *upstream) tagged() {
	u.Helper()
	u.until(patience, func() (string, bool) {
		for _, c := range u.claims() {
			for _, kind := range []string{"Microsoft.Compute/virtualMachines", "Microsoft.Network/networkInterfaces"} {
				tags := u.Tags(u.names["group"] + "/" + kind + "/aks-" + c.Name)
				for key, want := range map[string]string{
					"karpenter.azure.com_cluster": cluster, "karpenter.sh_nodepool": "default", "compute.aks.billing": "linux", "team": "platform",
					"example.com_cost": "42", "audited": "yes", "tenon.sh_nodeclaim": c.Name, "tenon.sh_nodeclaim-uid": string(c.UID), "karpenter.azure.com_aksnodeclass": "default",
				} {
					if tags[key] != want {
						return fmt.Sprintf("%s of claim %s has tags %v: want %s=%s", kind, c.Name, tags, key, want), false
					}
				}
			}
		}
		return "", true
	})
}

// settled waits until n pods run on as many machines, and nothing else is there.
func (u *upstream) settled(n int) {
	u.Helper()
	u.until(patience, func() (string, bool) {
		claims, used := u.claims(), map[string]bool{}
		for _, p := range u.running("web") {
			used[p.Spec.NodeName] = true
		}
		ready := !slices.ContainsFunc(claims, func(c v1.NodeClaim) bool { return !v1.IsTrue(&c, v1.ConditionReady) })
		return fmt.Sprintf("%d machines with pods of %d, %d nodes; claims: %s", len(used), len(u.Machines()), len(u.nodes()), describe(claims)),
			len(used) == n && len(claims) == n && len(u.Machines()) == n && len(u.nodes()) == n && ready
	})
}
