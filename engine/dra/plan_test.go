package dra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"

	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// A claimedCluster is a cluster whose pods claim devices.
type claimedCluster struct {
	*engine.Snapshot
	classes classList
	slices  []*resourcev1.ResourceSlice            // of its node
	ofType  map[string][]*resourcev1.ResourceSlice // the slices of machines of the type
	claims  map[string]*resourcev1.ResourceClaim   // by pod
	// fails means that selectors may fail: then a type serves no pod, though kube-scheduler may find devices before such a failure.
	fails bool
}

func drawCluster(t *testing.T, seed uint64) *claimedCluster {
	t.Helper()
	d := newDrawing(seed)
	d.scattered, d.admin, d.distinct = false, false, false // kube-scheduler is lenient with distinctAttribute
	text := "pool general\nnode node-1 pool=general type=t0 zone=a\n"
	for i := range 3 {
		text = fmt.Sprintf("type t%d cpu=%d mem=32Gi price=%d\n", i, 4<<i, 1+i+d.IntN(3)) + text
	}
	file, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := &claimedCluster{Snapshot: file.Snapshot, classes: d.classes(), ofType: map[string][]*resourcev1.ResourceSlice{}, claims: map[string]*resourcev1.ResourceClaim{}}
	c.slices, c.fails = d.slices(), d.errors
	d.taints = false // taints are not expected on a future machine
	list := c.Classes[0].InstanceTypes
	for i := range list {
		if drawn := d.slices(); i > 0 {
			list[i].Claimable, c.ofType[list[i].Name] = expected(drawn)
		}
	}
	learned := map[string]bool{} // by driver
	for _, t := range dra.Publish(c.slices).Templates(c.Nodes[0]) {
		learned[t.Driver] = true
	}
	for _, s := range c.slices { // the devices that are learned from the node are expected on another machine like it
		if learned[s.Spec.Driver] {
			c.ofType["t0"] = append(c.ofType["t0"], s)
		}
	}
	c.ResourceSlices, c.DeviceClasses, c.Selectors = c.slices, c.classes, deviceselector.New().Ask
	var specs []*resourcev1.ResourceClaim
	for range 1 + d.IntN(4) {
		specs = append(specs, d.claim("spec"))
	}
	for i := range 3 + d.IntN(8) {
		c.addPod(fmt.Sprintf("pod-%d", i), specs[d.IntN(len(specs))])
	}
	return c
}

// expected makes templates of slices, and removes from the slices all data that templates cannot hold.
func expected(drawn []*resourcev1.ResourceSlice) ([]device.Template, []*resourcev1.ResourceSlice) {
	for _, s := range drawn {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].BindingConditions, s.Spec.Devices[i].BindingFailureConditions = nil, nil
		}
	}
	m := dra.NewModel()
	pools := dra.Publish(drawn).Pools(m, thisNode, nil)
	shapes := m.Facts(func([]string, *device.Shape) []device.Answer { return nil }).Shapes
	var templates []device.Template
	var kept []*resourcev1.ResourceSlice
	for _, pool := range pools {
		if pool.Incomplete || pool.Invalid != "" || slices.ContainsFunc(pool.Devices, func(d device.Device) bool { return d.NotModelled != "" }) {
			continue
		}
		template := device.Template{Driver: pool.Driver, Pool: pool.Name, Counters: pool.Counters}
		for _, d := range pool.Devices {
			template.Devices = append(template.Devices, device.Expected{Name: d.Name, Shape: shapes[d.Shape], Consumes: d.Consumes})
		}
		templates = append(templates, template)
		for _, s := range drawn {
			if s.Spec.Driver == pool.Driver && s.Spec.Pool.Name == pool.Name {
				kept = append(kept, s)
			}
		}
	}
	return templates, kept
}

// addPod adds a pod with its own claim.
func (c *claimedCluster) addPod(name string, spec *resourcev1.ResourceClaim) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: new("template")}},
		Containers:     []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "devices", ResourceClaimName: new("claim-" + name)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}}
	claim := spec.DeepCopy()
	claim.Name, claim.OwnerReferences = "claim-"+name, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID, Controller: new(true)}}
	c.Pods, c.ResourceClaims, c.claims[name] = append(c.Pods, pod), append(c.ResourceClaims, claim), claim
}

// serves reports whether kube-scheduler's allocator finds devices for the pods, one after another, on a machine with these slices.
func (c *claimedCluster) serves(t *testing.T, compiled *cel.Cache, published []*resourcev1.ResourceSlice, pods []string) (string, bool) {
	t.Helper()
	s := &setting{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: thisNode, Labels: map[string]string{"zone": "a"}}}, slices: published, classes: c.classes}
	for _, pod := range pods {
		claim := c.claims[pod].DeepCopy()
		said, results := s.oracle(t, compiled, []*resourcev1.ResourceClaim{claim})
		if said.kind != "fits" {
			return pod + ": " + said.kind + " " + said.why, false
		}
		claim.Status.Allocation = &results[0]
		s.claims = append(s.claims, claim)
	}
	return "", true
}

// TestPlansAreServedByKubeSchedulersAllocator plans for clusters whose pods claim devices, and compares with kube-scheduler's own allocator for
// each machine. The machine has devices for all pods that the plan places there, for each listed type and for any order of the pods. If a type
// would serve a pod, the plan does not refuse the pod.
func TestPlansAreServedByKubeSchedulersAllocator(t *testing.T) {
	t.Parallel()
	compiled := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	found := map[string]int{}
	first := uint64(numberFrom(t, "ORACLE_SEED", 1))
	for seed := first; seed < first+uint64(numberFrom(t, "ORACLE_PLANS", 100+int(enginetest.Draws(300)))); seed++ {
		c := drawCluster(t, seed)
		plan := provisioning.Plan(c.Snapshot, engine.Options{Threads: 1}, nil)
		check := func(where string, published []*resourcev1.ResourceSlice, pods []string) {
			for range 2 {
				if why, ok := c.serves(t, compiled, published, pods); !ok {
					t.Errorf("seed %d: %s with pods %s: kube-scheduler says of %s", seed, where, strings.Join(pods, ", "), why)
				}
				slices.Reverse(pods)
			}
		}
		for i := range plan.Launches {
			l := &plan.Launches[i]
			found["launches"]++
			if len(l.Pods) > 1 {
				found["launches for several"]++
			}
			for _, kind := range l.InstanceTypes {
				check(kind, c.ofType[kind], namesOf(l.Pods))
			}
		}
		var here []engine.PodID
		for _, p := range plan.Placements {
			here = append(here, p.Pod)
		}
		if len(here) > 0 {
			found["on the node"] += len(here)
			check("the node", c.slices, namesOf(here))
		}
		for _, u := range plan.Unplaced {
			found[string(u.Reasons[0].Code)]++
			if code := u.Reasons[0].Code; code == engine.FeatureNotSupported || code == engine.SelectorFails || c.fails {
				continue
			}
			for kind, published := range c.ofType {
				if kind == "t0" {
					continue // the differences between its devices are unknown
				}
				if _, ok := c.serves(t, compiled, published, []string{u.Pod.Name}); ok {
					t.Errorf("seed %d: %s is refused (%s), and %s would serve it", seed, u.Pod, u.Reasons[0], kind)
				}
			}
		}
	}
	t.Log(found)
	for _, what := range []string{"launches", "launches for several", "on the node", string(engine.NoDevices)} {
		if found[what] < 20 {
			t.Errorf("only %d of %q: this tests little", found[what], what)
		}
	}
}

func namesOf(pods []engine.PodID) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}
