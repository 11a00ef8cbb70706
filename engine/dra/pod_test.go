package dra_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

func owned(by types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: by, Controller: new(true)}}
}

func named(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func TestAPodWaitsForItsClaims(t *testing.T) {
	t.Parallel()
	open, foreign, mine, allocated, full, leaving := named("open"), named("foreign"), named("mine"), named("allocated"), named("full"), named("leaving")
	foreign.OwnerReferences, mine.OwnerReferences = owned("other"), owned("web")
	zone := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	allocated.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: zone}
	full.Status.Allocation = &resourcev1.AllocationResult{}
	for i := range 256 {
		full.Status.ReservedFor = append(full.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(fmt.Sprint(i))})
	}
	leaving.DeletionTimestamp = &metav1.Time{}
	two := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}
	claims := dra.Claims([]*resourcev1.ResourceClaim{open, foreign, mine, allocated, full, leaving}, []*resourcev1.ResourceClaimTemplate{two})

	direct := func(name string) corev1.PodResourceClaim {
		return corev1.PodResourceClaim{Name: "ref-" + name, ResourceClaimName: &name}
	}
	template := func(name string) corev1.PodResourceClaim {
		return corev1.PodResourceClaim{Name: "ref-" + name, ResourceClaimTemplateName: new("template")}
	}
	of := func(template, ref string) corev1.PodResourceClaim {
		return corev1.PodResourceClaim{Name: "ref-" + ref, ResourceClaimTemplateName: &template}
	}
	made := func(name string) corev1.PodResourceClaimStatus {
		return corev1.PodResourceClaimStatus{Name: "ref-" + name, ResourceClaimName: &name}
	}
	for _, c := range []struct {
		name   string
		refs   []corev1.PodResourceClaim
		status []corev1.PodResourceClaimStatus
		want   string
	}{
		{"a claim to be allocated, named twice", []corev1.PodResourceClaim{direct("open"), direct("open")}, nil, "open 1, within 0"},
		{"one that is allocated", []corev1.PodResourceClaim{direct("allocated")}, nil, "open 0, within 1"},
		{"one that is not there", []corev1.PodResourceClaim{direct("nothing")}, nil, "ClaimMissing nothing"},
		{"a template that is not there", []corev1.PodResourceClaim{template("mine")}, nil, "TemplateMissing template"},
		{"a template that nothing was made of yet, named twice", []corev1.PodResourceClaim{of("two", "a"), of("two", "b")}, nil, "ClaimMissing two"},
		{"one of a template that has been deleted", []corev1.PodResourceClaim{of("two", "gone")}, []corev1.PodResourceClaimStatus{made("gone")}, "ClaimMissing gone"},
		{"one that was made", []corev1.PodResourceClaim{template("mine")}, []corev1.PodResourceClaimStatus{made("mine")}, "open 1, within 0"},
		{"none is needed", []corev1.PodResourceClaim{template("mine")}, []corev1.PodResourceClaimStatus{{Name: "ref-mine"}}, "open 0, within 0"},
		{"one that was made for another", []corev1.PodResourceClaim{template("foreign")}, []corev1.PodResourceClaimStatus{made("foreign")}, "ClaimForeign foreign"},
		{"one that as many use as may", []corev1.PodResourceClaim{direct("full")}, nil, "ClaimFull full"},
		{"one that is being deleted", []corev1.PodResourceClaim{direct("leaving")}, nil, "ClaimLeaving leaving"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
			Spec: corev1.PodSpec{ResourceClaims: c.refs}, Status: corev1.PodStatus{ResourceClaimStatuses: c.status}}
		found, reason := dra.ClaimsOf(pod, claims)
		got := fmt.Sprintf("open %d, within %d", len(found.Open), len(found.Within))
		if reason != nil {
			got = string(reason.Code) + " " + reason.What
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: "255"}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{direct("full")}}}
	if _, reason := dra.ClaimsOf(pod, claims); reason != nil {
		t.Errorf("a pod that uses the claim already: %+v", *reason)
	}
}

func TestClaimsThatOnlyLeavingPodsHoldAreFree(t *testing.T) {
	t.Parallel()
	held := func(device string, by ...types.UID) *resourcev1.ResourceClaim {
		c := named(device)
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu", Pool: "p", Device: device}}}}
		for _, uid := range by {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: uid})
		}
		return c
	}
	leaving := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == "leaving" }
	usage := dra.Allocated([]*resourcev1.ResourceClaim{held("0", "leaving"), held("1", "leaving", "staying"), held("2"), named("3")}, leaving)
	for device, taken := range map[string]bool{"0": false, "1": true, "2": true, "3": false} {
		if got := fits(usage, device); got == taken {
			t.Errorf("device %s is free: %t", device, got)
		}
	}
}

// fits reports whether the one device of this name is free.
func fits(usage *device.Usage, name string) bool {
	pool := device.Pool{Driver: "gpu", Name: "p", Devices: []device.Device{{Name: name}}}
	claims := []device.Claim{{Requests: []device.Request{{Choices: []device.Choice{{Count: 1}}}}}}
	_, reason := device.Allocate(&device.Facts{Shapes: []device.Shape{{Driver: "gpu"}}}, []device.Pool{pool}, usage, claims, 0)
	return reason == nil
}

func TestAClaimWhoseClassIsMissingNamesIt(t *testing.T) {
	t.Parallel()
	c := named("claim")
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "large", DeviceClassName: "h100"}}}}
	_, reason := dra.NewModel().Claim(c, nil)
	if want := (device.Reason{Code: dra.ClassMissing, Claim: "claim", Request: "gpu/large", Selector: -1, What: "h100"}); reason == nil || *reason != want {
		t.Errorf("got %+v, want %+v", reason, want)
	}
}

func TestADriverIsReadyOnceAPoolOfTheNodeIsComplete(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: thisNode, UID: "uid"}}
	slice := func(name, driver, node string, generation, count int64) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Driver, s.Spec.Pool = driver, resourcev1.ResourcePool{Name: driver, Generation: generation, ResourceSliceCount: count}
		if node != "" {
			s.Spec.NodeName = &node
		}
		return s
	}
	byOwner := slice("e", "owned", "", 1, 1)
	byOwner.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: thisNode, UID: "uid"}}
	formerly := slice("f", "former", "", 1, 1)
	formerly.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: thisNode, UID: "before"}}
	published := dra.Publish([]*resourcev1.ResourceSlice{
		slice("a", "complete", thisNode, 1, 1), slice("b", "half", thisNode, 1, 2), slice("c", "elsewhere", "node-2", 1, 1),
		slice("d", "renewed", thisNode, 1, 1), slice("d2", "renewed", thisNode, 2, 2), byOwner, formerly})
	if got := fmt.Sprint(published.Drivers(node)); got != "[complete owned]" {
		t.Errorf("ready are %s, want [complete owned]", got)
	}
}
