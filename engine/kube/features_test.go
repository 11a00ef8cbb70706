package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func TestResourcesThatStandForDevicesAreRefused(t *testing.T) {
	t.Parallel()
	s := enginetest.ReadObjects(t, `
kind: DeviceClass
metadata: {name: gpus}
spec: {extendedResourceName: example.com/gpu}
---
kind: DeviceClass
metadata: {name: nics}
spec: {extendedResourceName: example.com/nic}
---
kind: DeviceClass
metadata: {name: disks}
spec: {extendedResourceName: example.com/disk}
---
kind: Node
metadata: {name: a}
status: {allocatable: {example.com/nic: "2", example.com/gpu: "0"}}
`)
	s.Classes = []engine.Class{{InstanceTypes: []engine.InstanceType{{Name: "small", Capacity: corev1.ResourceList{"example.com/disk": resource.MustParse("1")}}}}}
	d := NewDeviceResources(s)
	for _, c := range []struct {
		requests string
		class    string // empty: an ordinary resource
	}{
		{`{cpu: 1}`, ""},
		{`{example.com/gpu: 1}`, "gpus"},
		{`{example.com/gpu: 0}`, ""},
		{`{deviceclass.resource.kubernetes.io/gpus: 1}`, "gpus"},
		{`{deviceclass.resource.kubernetes.io/unknown: 1}`, ""},
		{`{example.com/nic: 1}`, ""},                             // a node has it
		{`{example.com/disk: 1}`, ""},                            // an instance type has it
		{`{deviceclass.resource.kubernetes.io/nics: 1}`, "nics"}, // no node has it by this name
	} {
		requests := corev1.ResourceList{}
		enginetest.Parse(t, c.requests, &requests)
		r := d.ProblemOf(requests, false)
		if c.class == "" && !r.OK() || c.class != "" && (r.Code != engine.FeatureNotSupported || !strings.HasSuffix(r.Key, "DeviceClass "+c.class)) {
			t.Errorf("%s: %v", c.requests, r)
		}
	}
}

// Two DeviceClasses have one extendedResourceName. The newer one has the resource; it is unsure whether the resource made from the other one's
// own name exists.
func TestTheNameOfAClassThatLostAnotherIsRefused(t *testing.T) {
	t.Parallel()
	d := NewDeviceResources(enginetest.ReadObjects(t, `
kind: DeviceClass
metadata: {name: a, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {extendedResourceName: example.com/gpu}
---
kind: DeviceClass
metadata: {name: b, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {extendedResourceName: example.com/gpu}
---
kind: DeviceClass
metadata: {name: c, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {extendedResourceName: example.com/gpu}
`))
	for name, problem := range map[corev1.ResourceName]bool{
		"example.com/gpu": false, "deviceclass.resource.kubernetes.io/a": true, "deviceclass.resource.kubernetes.io/b": false, "deviceclass.resource.kubernetes.io/c": true,
	} {
		if r := d.ProblemOf(corev1.ResourceList{name: resource.MustParse("1")}, true); r.OK() == problem || problem == (d.ClassOf(name) != nil) {
			t.Errorf("%s: %v, of class %v", name, r, d.ClassOf(name))
		}
	}
	if c := d.ClassOf("example.com/gpu"); c == nil || c.Name != "b" {
		t.Errorf("the name stands for %v, want the later class, and of those the first by name", c)
	}
}

// A file may hold objects that no API server accepts.
func TestAClassThatTakesTheNameOfALoserIsNoPanic(t *testing.T) {
	t.Parallel()
	d := NewDeviceResources(enginetest.ReadObjects(t, `
kind: DeviceClass
metadata: {name: b, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {extendedResourceName: x/y}
---
kind: DeviceClass
metadata: {name: c, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {extendedResourceName: x/y}
---
kind: DeviceClass
metadata: {name: a, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {extendedResourceName: deviceclass.resource.kubernetes.io/b}
`))
	if c := d.ClassOf("x/y"); c == nil || c.Name != "c" || d.ClassOf("deviceclass.resource.kubernetes.io/b") != nil {
		t.Errorf("x/y stands for %v", c)
	}
}

func TestClaimsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, want string }{
		{`{}`, ""},
		{`resourceClaims: [{name: gpu, resourceClaimName: x}, {name: nic, resourceClaimName: y}]`, "resource claims gpu, nic"},
		{`schedulingGroup: {podGroupName: training}`, ""},
	} {
		r := UnsupportedOf(&enginetest.PodWith(t, c.spec).Spec)
		if r.OK() != (c.want == "") || !strings.HasSuffix(r.Key, c.want) || !r.OK() && r.Code != engine.FeatureNotSupported {
			t.Errorf("%s: %v", c.spec, r)
		}
	}
}

func TestFeaturesThatAPodNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec string
		want []string
	}{
		{`containers: [{restartPolicyRules: [{action: Restart}]}]`, nil},
		{`containers: [{}, {restartPolicyRules: [{action: Restart}, {action: RestartAllContainers}]}]`, []string{restartAllFeature}},
		{`initContainers: [{restartPolicyRules: [{action: RestartAllContainers}]}]`, []string{restartAllFeature}},
		{`{hostNetwork: true, hostUsers: false}`, []string{hostUsersFeature}},
		{`{hostNetwork: true, hostUsers: true}`, nil},
		{`{hostNetwork: true}`, nil},
		{`{hostUsers: false}`, nil},
		{`{hostNetwork: true, hostUsers: false, containers: [{restartPolicyRules: [{action: RestartAllContainers}]}]}`, DeclaredFeatures()},
	} {
		if got := RequiredFeatures(&enginetest.PodWith(t, c.spec).Spec); !slices.Equal(got, c.want) {
			t.Errorf("%s needs %v, want %v", c.spec, got, c.want)
		}
	}
}
