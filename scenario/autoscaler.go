package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	hpav1 "k8s.io/api/autoscaling/v1"
	hpav2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"tenon.sh/engine/kube"
)

// This file reads HorizontalPodAutoscalers and KEDA's ScaledObjects, which change the number of pods of a workload.

// autoscaler holds the numbers of pods between which a HorizontalPodAutoscaler or a ScaledObject keeps a workload.
type autoscaler struct {
	kind, name  string // kind is in the name too, for notes
	namespace   string
	target      metav1.OwnerReference // the workload
	least, most int
	wanted      int  // the number of pods in its status, 0 if it has none
	offAtZero   bool // it does not scale a workload that has no pods
	live        bool // it comes from a cluster
}

// These annotations of a ScaledObject stop KEDA's scaling: the first one at the given number of pods, the second one at the present number.
const (
	kedaPausedReplicas = "autoscaling.keda.sh/paused-replicas"
	kedaPaused         = "autoscaling.keda.sh/paused"
)

const hpaKind = "HorizontalPodAutoscaler"

// mostKEDAPods is KEDA's default for the field maxReplicaCount of a ScaledObject.
const mostKEDAPods = 100

func newAutoscaler(u *unstructured.Unstructured, kind, name string) *autoscaler {
	return &autoscaler{
		kind: u.GetKind(), name: identity(u), namespace: u.GetNamespace(), target: metav1.OwnerReference{Kind: kind, Name: name}, live: u.GetResourceVersion() != "",
	}
}

// addHPA reads a HorizontalPodAutoscaler of autoscaling/v1 or of a later version. The fields that are read are the same in both.
func (m *manifest) addHPA(u *unstructured.Unstructured) error {
	if u.GroupVersionKind().Version == "v1" {
		var list []*hpav1.HorizontalPodAutoscaler
		if err := decode(m, u, &list); err != nil {
			return err
		}
		spec, status := &list[0].Spec, &list[0].Status
		return m.addReplicas(u, hpav2.CrossVersionObjectReference(spec.ScaleTargetRef), spec.MinReplicas, spec.MaxReplicas, cmp.Or(status.DesiredReplicas, status.CurrentReplicas))
	}
	var list []*hpav2.HorizontalPodAutoscaler
	if err := decode(m, u, &list); err != nil {
		return err
	}
	spec, status := &list[0].Spec, &list[0].Status
	return m.addReplicas(u, spec.ScaleTargetRef, spec.MinReplicas, spec.MaxReplicas, cmp.Or(status.DesiredReplicas, status.CurrentReplicas))
}

// addReplicas adds a HorizontalPodAutoscaler with these numbers of pods.
func (m *manifest) addReplicas(u *unstructured.Unstructured, target hpav2.CrossVersionObjectReference, least *int32, most, wanted int32) error {
	a := newAutoscaler(u, target.Kind, target.Name)
	a.least, a.most, a.wanted = int(ptr.Deref(least, 1)), int(most), int(wanted)
	a.offAtZero = a.least > 0
	return m.addAutoscaler(a, "spec.minReplicas", "spec.maxReplicas")
}

// scaledObject has the fields of KEDA's ScaledObject that this package reads.
type scaledObject struct {
	Spec struct {
		ScaleTargetRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
	} `json:"spec"`
}

func (m *manifest) addScaledObject(u *unstructured.Unstructured) error {
	var o scaledObject
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return wrongType(u, &scaledObject{}, err)
	}
	a := newAutoscaler(u, cmp.Or(o.Spec.ScaleTargetRef.Kind, "Deployment"), o.Spec.ScaleTargetRef.Name)
	a.least, a.most = int(ptr.Deref(o.Spec.MinReplicaCount, 0)), int(ptr.Deref(o.Spec.MaxReplicaCount, mostKEDAPods))
	if text, held := u.GetAnnotations()[kedaPausedReplicas]; held {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("annotation %s is %q: write a number of pods", kedaPausedReplicas, text)
		}
		a.least, a.most = n, n
	} else if u.GetAnnotations()[kedaPaused] == "true" {
		return nil
	}
	return m.addAutoscaler(a, "spec.minReplicaCount", "spec.maxReplicaCount")
}

func (m *manifest) addAutoscaler(a *autoscaler, least, most string) error {
	switch {
	case a.target.Name == "":
		return fmt.Errorf("spec.scaleTargetRef.name is missing: write the name of the workload that it scales")
	case a.least < 0 || a.least > mostPods:
		return fmt.Errorf("%s is %d: from 0 to %d pods can be planned", least, a.least, mostPods)
	case a.most < max(a.least, 0):
		return fmt.Errorf("%s is %d, less than %s, which is %d: write as many at least", most, a.most, least, a.least)
	}
	m.autoscalers = append(m.autoscalers, a)
	return nil
}

// autoscalerOf returns the workload's autoscaler. It returns nil if there is none. KEDA makes a HorizontalPodAutoscaler for each ScaledObject, so a
// workload may have two. In this case the one with a number of pods in its status counts.
func (m *manifest) autoscalerOf(w workload) (found *autoscaler) {
	for _, a := range m.autoscalers {
		if a.namespace != w.meta.Namespace || a.target.Kind != w.kind || a.target.Name != w.meta.Name {
			continue
		}
		if found == nil || found.wanted == 0 && a.wanted > 0 {
			found = a
		}
	}
	return found
}

// rivalOf returns another HorizontalPodAutoscaler for a's workload. It returns nil if there is none. If there are two, kube-controller-manager uses
// neither and reports AmbiguousSelector.
func (m *manifest) rivalOf(a *autoscaler) *autoscaler {
	if i := slices.IndexFunc(m.autoscalers, func(other *autoscaler) bool {
		return other != a && other.kind == hpaKind && a.kind == hpaKind && other.namespace == a.namespace && other.target == a.target
	}); i >= 0 {
		return m.autoscalers[i]
	}
	return nil
}

// scaleWorkloads sets the number of pods of each workload that has an autoscaler. The workload's own manifest often has no spec.replicas, or an
// old number, because the autoscaler changes that field in the cluster.
func (m *manifest) scaleWorkloads() {
	for i := range m.workloads {
		w := &m.workloads[i]
		a := m.autoscalerOf(*w)
		if a == nil && !w.unsaid || w.meta.DeletionTimestamp != nil {
			continue
		}
		if there := m.podsOf(*w); len(there) > 0 {
			if w.meta.ResourceVersion == "" { // the autoscaler has requested these pods
				w.scale(len(slices.DeleteFunc(there, func(p *corev1.Pod) bool { return !kube.IsActive(p) })))
			}
			continue
		}
		if a != nil && !m.hasOwner(*w) && w.idle == "" {
			m.scaleBy(w, a)
		}
	}
	for _, a := range m.autoscalers {
		switch a.target.Kind {
		case "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController":
			if target := fmt.Sprintf("%s %s/%s", a.target.Kind, a.namespace, a.target.Name); m.seen[target] == "" && !a.live {
				m.note("%s: its target %s is not in the files, so no pods are planned for it", a.name, target)
			}
		}
	}
}

// scaleBy sets the number of pods of a workload without pods in the files, and notes the autoscaler's minimum and maximum.
func (m *manifest) scaleBy(w *workload, a *autoscaler) {
	name, n, by := fmt.Sprintf("%s %s/%s", w.kind, w.meta.Namespace, w.meta.Name), w.pods, ""
	if w.meta.ResourceVersion == "" && a.wanted > 0 {
		n, by = a.wanted, fmt.Sprintf(", and its status asks for %d", a.wanted)
	}
	if n == 0 && a.offAtZero {
		m.note("%s: its spec.replicas is 0, which turns %s off, so no pods are planned for it", name, a.name)
		return
	}
	if rival := m.rivalOf(a); rival != nil && a.wanted == 0 {
		m.note("%s: %s and %s scale the same pods, so Kubernetes heeds neither (AmbiguousSelector): planned with %d", name, a.name, rival.name, w.pods)
		return
	}
	w.scale(min(max(n, a.least), a.most, mostPods))
	if a.least < a.most {
		m.note("%s: %s may ask for %d to %d pods%s: planned with %d", name, a.name, a.least, a.most, by, w.pods)
	}
}
