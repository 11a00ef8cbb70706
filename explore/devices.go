package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider/simulated"
)

// This file simulates the parts around claims for devices: drivers, the controller of ResourceClaims, and kube-scheduler's allocation.

const (
	gpuDriver = "gpu.example.com"
	gpuClass  = "gpu"
	claimsRef = "devices" // the name by which pods refer to their claim
)

// claimsAct reports whether pods of the run claim devices. It depends only on the seed, and uses a random source of its own.
func claimsAct(seed uint64) bool { return rand.New(rand.NewPCG(seed, 7)).IntN(4) == 0 }

// withDevices returns the catalog with devices on the machines of some types.
func withDevices(types []engine.InstanceType) []engine.InstanceType {
	types = slices.Clone(types)
	for i := range types {
		n := map[string]int{"s-4x-amd64-linux": 1, "c-4x-amd64-linux": 2, "c-8x-amd64-linux": 4}[types[i].Name]
		pool := device.Template{Driver: gpuDriver, Pool: "devices"}
		for j := range n {
			pool.Devices = append(pool.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", j), Shape: device.Shape{Driver: gpuDriver,
				Attributes: map[string]device.Value{}, Capacities: map[string]device.Capacity{}}})
		}
		if n > 0 {
			types[i].Claimable = []device.Template{pool}
		}
	}
	return types
}

// stageDevices creates the DeviceClass.
func (w *world) stageDevices() {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: gpuClass}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}}
	_, _ = w.api.create(class)
}

// claimSome often adds a claim for devices to an owner's pods: one claim for each pod by a template, or one claim for all pods.
func (w *world) claimSome(name string, t *corev1.PodTemplateSpec) {
	if !w.scene.claims || w.chance(4) {
		return
	}
	spec := claimFor(pick(w, int64(1), 1, 1, 2))
	ref := corev1.PodResourceClaim{Name: claimsRef}
	if w.chance(6) {
		ref.ResourceClaimName = &name
		_, _ = w.api.create(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec})
	} else {
		ref.ResourceClaimTemplateName = &name
		_, _ = w.api.create(templateOf(name, spec))
	}
	t.Spec.ResourceClaims = []corev1.PodResourceClaim{ref}
}

func templateOf(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}
}

func claimFor(devices int64) (spec resourcev1.ResourceClaimSpec) {
	spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: gpuClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devices}}}
	return spec
}

// claimOf returns the claim of a pod, nil before the claim exists.
func claimOf(s *store, pod *corev1.Pod) *resourcev1.ResourceClaim {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if name := pod.Spec.ResourceClaims[0].ResourceClaimName; name != nil {
		return find[*resourcev1.ResourceClaim](s, "default/"+*name)
	}
	for _, made := range pod.Status.ResourceClaimStatuses {
		if c := find[*resourcev1.ResourceClaim](s, "default/"+*made.ResourceClaimName); c != nil && metav1.IsControlledBy(c, pod) {
			return c
		}
	}
	return nil
}

// deviceClaims is the controller of ResourceClaims: it creates pods' claims from their templates, and frees the devices of pods that are
// gone.
func deviceClaims(w *world, add func(action)) {
	act := func(name, object string, do func()) {
		add(action{kind: "claim controller", name: name, object: object, weight: 4, do: do})
	}
	for _, pod := range all[*corev1.Pod](w.api) {
		if len(pod.Spec.ResourceClaims) == 0 || pod.Spec.ResourceClaims[0].ResourceClaimTemplateName == nil || pod.DeletionTimestamp != nil || claimOf(w.api, pod) != nil {
			continue
		}
		template := find[*resourcev1.ResourceClaimTemplate](w.api, "default/"+*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName)
		if template == nil {
			continue
		}
		act("makes the claim of ", pod.Name, func() {
			c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: pod.Name + "-" + claimsRef + "-", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}}, Spec: *template.Spec.Spec.DeepCopy()}
			made, err := w.api.create(c)
			if err != nil {
				return
			}
			update(w.api, pod, func(p *corev1.Pod) {
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: claimsRef, ResourceClaimName: new(made.GetName())}}
			})
		})
	}
	for _, c := range all[*resourcev1.ResourceClaim](w.api) {
		if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
			if pod := find[*corev1.Pod](w.api, "default/"+owner.Name); pod == nil || pod.UID != owner.UID {
				act("deletes ", c.Name, func() { _ = w.api.remove(w.api.shelfOf(c), keyOf(c), deletion{uid: c.UID}) })
			}
			continue
		}
		gone := func(r resourcev1.ResourceClaimConsumerReference) bool {
			pod := find[*corev1.Pod](w.api, "default/"+r.Name)
			return pod == nil || pod.UID != r.UID
		}
		if slices.ContainsFunc(c.Status.ReservedFor, gone) {
			act("frees ", c.Name, func() {
				update(w.api, c, func(c *resourcev1.ResourceClaim) {
					if c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, gone); len(c.Status.ReservedFor) == 0 {
						c.Status.Allocation = nil
					}
				})
			})
		}
	}
	for _, s := range all[*resourcev1.ResourceSlice](w.api) {
		if node := find[*corev1.Node](w.api, "/"+*s.Spec.NodeName); node == nil || node.UID != s.OwnerReferences[0].UID {
			add(action{kind: "garbage collector", name: "devices of ", object: s.Name, weight: 3, do: func() { _ = w.api.remove(w.api.shelfOf(s), keyOf(s), deletion{uid: s.UID}) }})
		}
	}
}

// publish acts as a node's driver that publishes a slice. The slice's name contains the node's UID, so that a new node with the same name has
// other slices.
func (k *kubernetes) publish(node *corev1.Node, m simulated.NodeFault) {
	slice := m.Slice(node)
	slice.Name += "-" + string(node.UID)
	_, _ = k.w.api.create(slice)
}

// features are the features of the allocator that are on by default.
var features = structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true}

// classes provides DeviceClasses like an informer.
type classes []*resourcev1.DeviceClass

func (l classes) List() ([]*resourcev1.DeviceClass, error) { return l, nil }

func (l classes) Get(name string) (*resourcev1.DeviceClass, error) {
	for _, c := range l {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no DeviceClass %s", name)
}

// allocate returns the devices of the node that kube-scheduler's own allocator chooses for the claim. It returns nil if there are not enough. taken
// are the claims with devices.
func (w *world) allocate(node *corev1.Node, claim *resourcev1.ResourceClaim, taken []*resourcev1.ResourceClaim, published []*resourcev1.ResourceSlice) *resourcev1.AllocationResult {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, c := range taken {
		if c.Status.Allocation != nil {
			for _, r := range c.Status.Allocation.Devices.Results {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
			}
		}
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, state, classes(all[*resourcev1.DeviceClass](w.api)), published, w.shared.compiled)
	if err != nil {
		panic(err) // the classes are always valid
	}
	out, err := allocator.Allocate(ctx, node, []*resourcev1.ResourceClaim{claim})
	if err != nil || len(out) == 0 {
		return nil
	}
	return &out[0]
}

// devicesFit reports whether the node has the devices that the pod claims.
func (k *kubernetes) devicesFit(pod *corev1.Pod, node *corev1.Node) bool {
	if len(pod.Spec.ResourceClaims) == 0 {
		return true
	}
	c := claimOf(k.w.api, pod)
	if a := c.Status.Allocation; a != nil {
		return a.Devices.Results[0].Pool == node.Name
	}
	return k.w.allocate(node, c, all[*resourcev1.ResourceClaim](k.w.api), all[*resourcev1.ResourceSlice](k.w.api)) != nil
}

// reserve writes the pod's devices into its claim, before the pod is bound to the node.
func (k *kubernetes) reserve(pod *corev1.Pod, node *corev1.Node) {
	c := claimOf(k.w.api, pod)
	if c == nil {
		return
	}
	to := c.Status.Allocation
	if to == nil {
		to = k.w.allocate(node, c, all[*resourcev1.ResourceClaim](k.w.api), all[*resourcev1.ResourceSlice](k.w.api))
	}
	update(k.w.api, c, func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation = to
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	})
}

// deviceUsers are the users and the cloud in runs with claims. Users delete templates, some of them for a while, and create others. Drivers
// publish late, in parts, other devices than expected or none.
func deviceUsers(w *world, add func(action)) {
	if w.calm || !w.scene.claims {
		return
	}
	add(action{kind: "user", name: "makes a template of claims anew", weight: 3, fault: true, do: func() {
		if t := anyOf[*resourcev1.ResourceClaimTemplate](w); t != nil {
			_ = w.api.remove(w.api.shelfOf(t), keyOf(t), deletion{uid: t.UID})
			_, _ = w.api.create(templateOf(t.Name, claimFor(pick(w, int64(1), 2))))
		}
	}})
	add(action{kind: "user", name: "deletes a template of claims", weight: 1, fault: true, do: func() {
		if t := anyOf[*resourcev1.ResourceClaimTemplate](w); t != nil {
			w.scene.templates = append(w.scene.templates, t)
			_ = w.api.remove(w.api.shelfOf(t), keyOf(t), deletion{uid: t.UID})
		}
	}})
	add(action{kind: "cloud", name: simulated.FaultSlices + " ", weight: 3, fault: true, do: func() {
		f := simulated.Fault{What: simulated.FaultSlices, Factor: pick(w, 0, 0.5, 1, 1, 2), Parts: 1 + w.draw(2), Lag: metav1.Duration{Duration: pick(w, 0, 5*time.Second, 2*time.Minute, 20*time.Minute)}}
		w.lasts(f)
	}})
}

// mendTemplates creates the deleted templates again.
func (w *world) mendTemplates() {
	for _, t := range w.scene.templates {
		_, _ = w.api.create(templateOf(t.Name, t.Spec.Spec))
	}
}
