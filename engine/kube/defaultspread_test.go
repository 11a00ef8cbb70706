package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

const spreadWorkloads = `
kind: ReplicaSet
metadata: {name: web-1}
spec: {selector: {matchLabels: {app: web, hash: "1"}, matchExpressions: [{key: tier, operator: Exists}]}}
---
kind: ReplicaSet
metadata: {name: broken}
spec: {selector: {matchExpressions: [{key: tier, operator: In}]}}
---
kind: ReplicaSet
metadata: {name: empty}
---
kind: StatefulSet
metadata: {name: db}
spec: {selector: {matchLabels: {app: db}}}
---
kind: ReplicationController
metadata: {name: old}
spec: {selector: {app: old}}
---
kind: Service
metadata: {name: by-app}
spec: {selector: {app: web}}
---
kind: Service
metadata: {name: by-tier}
spec: {selector: {tier: front}}
---
kind: Service
metadata: {name: by-both}
spec: {selector: {tier: back, zone: a}}
---
kind: Service
metadata: {name: of-all}
spec: {selector: {}}
---
kind: Service
metadata: {name: by-hand}
---
kind: Service
metadata: {name: elsewhere, namespace: other}
spec: {selector: {far: away}}
`

func owned(pod *corev1.Pod, apiVersion, kind, name string, controller bool) *corev1.Pod {
	pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: &controller,
	})
	return pod
}

func TestDefaultConstraintsCountWhatOwnersAndServicesSelect(t *testing.T) {
	t.Parallel()
	s := enginetest.ReadObjects(t, spreadWorkloads)
	domains := int32(3)
	opt := engine.Options{DefaultConstraints: []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: &domains},
		{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway},
	}}
	d := NewDefaultSpreads(s, opt)
	read := NewSelectors(s)
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string // the selector; empty for no constraints
	}{
		{"no owner and no service", labelled("default", "app", "lonely"), ""},
		{"a service", labelled("default", "app", "web"), `"app" In "web"`},
		{"several services are merged", labelled("default", "app", "web", "tier", "front"), `"app" In "web"&"tier" In "front"`},
		{"a service that asks for more", labelled("default", "tier", "back"), ""},
		{"a service of another namespace", labelled("default", "far", "away"), ""},
		{"a service of the pod's namespace", labelled("other", "far", "away"), `"far" In "away"`},
		{"a ReplicaSet's selector, not the pod's labels", owned(labelled("default", "x", "y"), "apps/v1", "ReplicaSet", "web-1", true), `"app" In "web"&"hash" In "1"&"tier" Exists`},
		{"a service and a ReplicaSet", owned(labelled("default", "tier", "front"), "apps/v1", "ReplicaSet", "web-1", true), `"app" In "web"&"hash" In "1"&"tier" In "front"`},
		{"a StatefulSet, whatever the pod's own name", owned(labelled("default", "statefulset.kubernetes.io/pod-name", "db-0"), "apps/v1", "StatefulSet", "db", true), `"app" In "db"`},
		{"a ReplicationController takes the place of the service's labels", owned(labelled("default", "app", "web"), "v1", "ReplicationController", "old", true), `"app" In "old"`},
		{"a StatefulSet against a service selects nothing", owned(labelled("default", "app", "web"), "apps/v1", "StatefulSet", "db", true), "nothing"},
		{"an owner that is not the controller", owned(labelled("default"), "apps/v1", "StatefulSet", "db", false), ""},
		{"an owner of another kind", owned(labelled("default"), "batch/v1", "Job", "db", true), ""},
		{"an owner of another group", owned(labelled("default"), "example.com/v1", "StatefulSet", "db", true), ""},
		{"an owner that is gone", owned(labelled("default"), "apps/v1", "StatefulSet", "gone", true), ""},
		{"an owner of another namespace", owned(labelled("other"), "apps/v1", "StatefulSet", "db", true), ""},
		{"an owner whose selector cannot be read", owned(labelled("default"), "apps/v1", "ReplicaSet", "broken", true), ""},
		{"an owner without a selector", owned(labelled("default"), "apps/v1", "ReplicaSet", "empty", true), ""},
	} {
		for range 2 { // the second answer is remembered
			got := d.ConstraintsOf(c.pod)
			if c.want == "" {
				if len(got) != 0 {
					t.Errorf("%s: %v", c.name, got)
				}
				continue
			}
			if len(got) != 2 || got[0].TopologyKey != "zone" || *got[0].MinDomains != 3 || got[1].MaxSkew != 2 {
				t.Fatalf("%s: %v", c.name, got)
			}
			for i := range got {
				selector := read.SpreadOf(c.pod, &got[i]).Selector
				if text := string(AppendExpressions(nil, selector.Rules)); selector.Unreadable || text != c.want && !(selector.Nothing && c.want == "nothing") {
					t.Errorf("%s: %s", c.name, text)
				}
			}
		}
	}
	if opt.DefaultConstraints[0].LabelSelector != nil {
		t.Error("the options have been changed")
	}
}

func TestDefaultConstraintsAreForPodsWithoutAny(t *testing.T) {
	t.Parallel()
	s := enginetest.ReadObjects(t, spreadWorkloads)
	configured := engine.Options{DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}}
	plain := labelled("default", "app", "web")
	own := labelled("default", "app", "web")
	own.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 7, TopologyKey: "rack"}}

	d := NewDefaultSpreads(s, configured)
	if got := d.ConstraintsOf(own); len(got) != 1 || got[0].MaxSkew != 7 {
		t.Errorf("the pod's own constraints became %v", got)
	}
	if got := d.SystemConstraintsOf(plain); got != nil {
		t.Errorf("configured constraints replace those of the system, but there are %v", got)
	}
	d = NewDefaultSpreads(s, engine.Options{})
	if got := d.ConstraintsOf(plain); len(got) != 0 {
		t.Errorf("none are configured, but there are %v", got)
	}
	if got := d.SystemConstraintsOf(own); got != nil {
		t.Errorf("a pod with constraints of its own has the system's too: %v", got)
	}
	got := d.SystemConstraintsOf(plain)
	if len(got) != 2 || got[0].TopologyKey != corev1.LabelHostname || got[0].MaxSkew != 3 || got[1].TopologyKey != corev1.LabelTopologyZone ||
		got[1].MaxSkew != 5 || got[0].WhenUnsatisfiable != corev1.ScheduleAnyway || got[0].LabelSelector.MatchLabels["app"] != "web" {
		t.Errorf("the system's constraints are %v", got)
	}
}

func TestPodsOfDifferentOwnersSpreadByThemselves(t *testing.T) {
	t.Parallel()
	s := enginetest.ReadObjects(t, spreadWorkloads)
	d := NewDefaultSpreads(s, engine.Options{DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone"}}})
	web := d.ConstraintsOf(owned(labelled("default"), "apps/v1", "ReplicaSet", "web-1", true))
	db := d.ConstraintsOf(owned(labelled("default"), "apps/v1", "StatefulSet", "db", true))
	front := d.ConstraintsOf(owned(labelled("default", "tier", "front"), "apps/v1", "ReplicaSet", "web-1", true))
	if web[0].LabelSelector == db[0].LabelSelector || web[0].LabelSelector == front[0].LabelSelector {
		t.Error("pods of other owners, or with labels that services ask for, share a selector")
	}
	again := d.ConstraintsOf(owned(labelled("default", "any", "thing"), "apps/v1", "ReplicaSet", "web-1", true))
	if again[0].LabelSelector != web[0].LabelSelector {
		t.Error("labels that no service asks for make a difference")
	}
}
