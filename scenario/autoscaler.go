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

// This file reads what decides how many pods a workload has in the workload's place: HorizontalPodAutoscalers, and KEDA's ScaledObjects.

// autoscaler says how many pods a workload may have.
type autoscaler struct {
	name        string // with its kind, for notes
	namespace   string
	target      metav1.OwnerReference // kind and name of the workload
	least, most int
	wanted      int  // how many pods its status asks for; 0 if the status does not say
	offAtZero   bool // it leaves a workload alone that has no pods
	live        bool // it comes from a cluster
}

// Annotations by which people hold a ScaledObject at a number of pods, or at those that there are.
const (
	kedaPausedReplicas = "autoscaling.keda.sh/paused-replicas"
	kedaPaused         = "autoscaling.keda.sh/paused"
)

// mostKEDAPods is a ScaledObject's maxReplicaCount unless it says another one.
const mostKEDAPods = 100

func newAutoscaler(u *unstructured.Unstructured, kind, name string) *autoscaler {
	return &autoscaler{
		name: identity(u), namespace: u.GetNamespace(), target: metav1.OwnerReference{Kind: kind, Name: name}, live: u.GetResourceVersion() != "",
	}
}

// addHPA reads a HorizontalPodAutoscaler; the fields that matter are the same in all versions.
func (m *manifest) addHPA(u *unstructured.Unstructured) error {
	var a *autoscaler
	if u.GroupVersionKind().Version == "v1" {
		var list []*hpav1.HorizontalPodAutoscaler
		if err := decode(m, u, &list); err != nil {
			return err
		}
		spec, status := &list[0].Spec, &list[0].Status
		a = newAutoscaler(u, spec.ScaleTargetRef.Kind, spec.ScaleTargetRef.Name)
		a.least, a.most, a.wanted = int(ptr.Deref(spec.MinReplicas, 1)), int(spec.MaxReplicas), int(cmp.Or(status.DesiredReplicas, status.CurrentReplicas))
	} else {
		var list []*hpav2.HorizontalPodAutoscaler
		if err := decode(m, u, &list); err != nil {
			return err
		}
		spec, status := &list[0].Spec, &list[0].Status
		a = newAutoscaler(u, spec.ScaleTargetRef.Kind, spec.ScaleTargetRef.Name)
		a.least, a.most, a.wanted = int(ptr.Deref(spec.MinReplicas, 1)), int(spec.MaxReplicas), int(cmp.Or(status.DesiredReplicas, status.CurrentReplicas))
	}
	a.offAtZero = a.least > 0
	return m.addAutoscaler(a, "spec.minReplicas", "spec.maxReplicas")
}

// scaledObject is what is read of KEDA's kind.
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

// autoscalerOf is the workload's autoscaler, nil if it has none. Of several, which is how KEDA does its work, the one counts whose
// status says how many pods there are to be.
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

// scaleWorkloads gives workloads the number of pods that their autoscalers give them at least. A manifest that an autoscaler owns the
// number of does not say it, or says how many there were in the beginning.
func (m *manifest) scaleWorkloads() {
	for i := range m.workloads {
		w := &m.workloads[i]
		a := m.autoscalerOf(*w)
		if a == nil && !w.unsaid || w.meta.DeletionTimestamp != nil {
			continue
		}
		if there := m.podsOf(*w); len(there) > 0 {
			if w.meta.ResourceVersion == "" { // those that the owner of the number has asked for
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

// scaleBy gives a workload without pods as many as the autoscaler asks for, as far as the files say it, and notes how many it may ask for.
func (m *manifest) scaleBy(w *workload, a *autoscaler) {
	name, n, by := fmt.Sprintf("%s %s/%s", w.kind, w.meta.Namespace, w.meta.Name), w.pods, ""
	if w.meta.ResourceVersion == "" && a.wanted > 0 {
		n, by = a.wanted, fmt.Sprintf(", and its status asks for %d", a.wanted)
	}
	if n == 0 && a.offAtZero {
		m.note("%s: its spec.replicas is 0, which turns %s off, so no pods are planned for it", name, a.name)
		return
	}
	w.scale(min(max(n, a.least), a.most, mostPods))
	if a.least < a.most {
		m.note("%s: %s may ask for %d to %d pods%s: planned with %d", name, a.name, a.least, a.most, by, w.pods)
	}
}
