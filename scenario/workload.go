package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

var errNoContainers = errors.New("spec.containers is empty")

// workload is an object whose controller makes pods.
type workload struct {
	kind      string
	meta      metav1.ObjectMeta
	owner     metav1.OwnerReference
	selector  *metav1.LabelSelector
	template  corev1.PodTemplateSpec
	claims    []corev1.PersistentVolumeClaim // of each pod
	pods      int
	replicas  *int32 // the number of pods in the snapshot's object
	unsaid    bool   // spec.replicas is missing
	update    appsv1.StatefulSetUpdateStrategy
	ordinals  *appsv1.StatefulSetOrdinals
	revision  string // of a StatefulSet's template, from its status
	firstName int    // number of the first pod
	idle      string // the reason why its controller makes no pods, "" if it makes them
}

// mostPods bounds the number of pods of one workload, so that a typing error does not exhaust the memory.
const mostPods = 200_000

func (m *manifest) addWorkload(u *unstructured.Unstructured) error {
	w, err := m.readWorkload(u)
	if err != nil {
		return err
	}
	w.replicas = ptr.To(int32(w.pods))
	if isCleaned(w.template, u) && m.remember(w) {
		if w.pods > 0 && u.GetResourceVersion() == "" {
			m.note("%s: it has no template, so no pods are planned for it", identity(u))
		}
		return nil
	}
	m.remember(w)
	if len(w.template.Spec.Containers) == 0 {
		return fmt.Errorf("spec.template.%w", errNoContainers)
	}
	if w.pods < 0 || w.pods > mostPods {
		return fmt.Errorf("%d pods are asked for; from 0 to %d can be planned", w.pods, mostPods)
	}
	m.workloads = append(m.workloads, w)
	return nil
}

// isCleaned reports whether the object's template is missing, or comes from Clean: it has requests but no images, which every template in a
// live cluster has.
func isCleaned(template corev1.PodTemplateSpec, u *unstructured.Unstructured) bool {
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template"); !found {
		return true
	}
	list := template.Spec.Containers
	return u.GetResourceVersion() != "" && len(list) > 0 && !slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Image != "" })
}

func (m *manifest) readWorkload(u *unstructured.Unstructured) (workload, error) {
	w := workload{kind: u.GetKind(), firstName: 1}
	w.owner = metav1.OwnerReference{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: ptr.To(true),
	}
	switch u.GetKind() {
	case "Deployment":
		var list []*appsv1.Deployment
		if err := decode(m, u, &list); err != nil {
			return w, err
		}
		w.meta = list[0].ObjectMeta
		w.selector, w.template, w.pods = list[0].Spec.Selector, list[0].Spec.Template, int(ptr.Deref(list[0].Spec.Replicas, 1))
		w.unsaid = list[0].Spec.Replicas == nil
		w.owner.Kind = "ReplicaSet" // which a Deployment's pods belong to
		if list[0].Spec.Paused && list[0].Status.Replicas == 0 {
			w.idle = "it is paused"
		}
	case "ReplicaSet":
		var list []*appsv1.ReplicaSet
		if err := decode(m, u, &list); err != nil {
			return w, err
		}
		w.meta = list[0].ObjectMeta
		w.selector, w.template, w.pods = list[0].Spec.Selector, list[0].Spec.Template, int(ptr.Deref(list[0].Spec.Replicas, 1))
		w.unsaid = list[0].Spec.Replicas == nil
	case "StatefulSet":
		var list []*appsv1.StatefulSet
		if err := decode(m, u, &list); err != nil {
			return w, err
		}
		spec := &list[0].Spec
		w.meta, w.claims = list[0].ObjectMeta, spec.VolumeClaimTemplates
		w.selector, w.template, w.pods, w.firstName = spec.Selector, spec.Template, int(ptr.Deref(spec.Replicas, 1)), 0
		w.unsaid = spec.Replicas == nil
		w.update, w.ordinals, w.revision = spec.UpdateStrategy, spec.Ordinals, list[0].Status.UpdateRevision
		if spec.Ordinals != nil {
			w.firstName = int(spec.Ordinals.Start)
		}
	case "ReplicationController":
		var list []*corev1.ReplicationController
		if err := decode(m, u, &list); err != nil {
			return w, err
		}
		spec := &list[0].Spec
		w.meta = list[0].ObjectMeta
		w.selector, w.pods, w.unsaid = &metav1.LabelSelector{MatchLabels: spec.Selector}, int(ptr.Deref(spec.Replicas, 1)), spec.Replicas == nil
		if spec.Template != nil {
			w.template = *spec.Template
		}
	case "Job":
		var list []*batchv1.Job
		if err := decode(m, u, &list); err != nil {
			return w, err
		}
		w.meta = list[0].ObjectMeta
		w.selector, w.template, w.pods = list[0].Spec.Selector, list[0].Spec.Template, jobPods(list[0], m.snapshot.Now)
		if by := ptr.Deref(list[0].Spec.ManagedBy, batchv1.JobControllerName); by != batchv1.JobControllerName {
			w.idle = "it is managed by " + by
		}
	}
	return w, nil
}

// remember adds the owner of pods to the snapshot, with its selector and template. It returns false if the snapshot does not contain the
// kind.
func (m *manifest) remember(w workload) bool {
	s, replicas := &m.snapshot, cmp.Or(w.replicas, ptr.To(int32(w.pods)))
	meta := *w.meta.DeepCopy()
	meta.ManagedFields = nil
	switch w.kind {
	case "Deployment":
		o := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta}
		o.Spec.Selector, o.Spec.Replicas, o.Spec.Template = w.selector, replicas, w.template
		s.Deployments = append(s.Deployments, o)
	case "ReplicaSet":
		o := newReplicaSet(meta, w.selector, replicas)
		o.Spec.Template = w.template
		s.ReplicaSets = append(s.ReplicaSets, o)
	case "StatefulSet":
		o := newStatefulSet(meta, w.selector, replicas)
		o.Spec.Template, o.Status.UpdateRevision = w.template, w.revision
		o.Spec.UpdateStrategy, o.Spec.Ordinals = w.update, w.ordinals
		s.StatefulSets = append(s.StatefulSets, o)
	case "ReplicationController":
		o := newReplicationController(meta, w.selector.MatchLabels, replicas)
		o.Spec.Template = &w.template
		s.ReplicationControllers = append(s.ReplicationControllers, o)
	default:
		return false
	}
	return true
}

// mountClaims adds a claim to the pod for each of the workload's claim templates.
func (m *manifest) mountClaims(w workload, pod *corev1.Pod, there map[string]bool) {
	for _, template := range w.claims {
		name := template.Name + "-" + pod.Name
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == template.Name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name:         template.Name,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
		})
		if there[pod.Namespace+"/"+name] {
			continue
		}
		claim := template.DeepCopy()
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		claim.ObjectMeta = metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, UID: uidOf(pod.Namespace, name), Labels: template.Labels, Annotations: template.Annotations,
		}
		m.snapshot.PersistentVolumeClaims = append(m.snapshot.PersistentVolumeClaims, claim)
	}
}

// expandWorkloads makes the pods of each workload that has no pods in the files, and no owner in the files.
func (m *manifest) expandWorkloads() {
	for _, w := range m.workloads {
		if w.meta.DeletionTimestamp != nil || m.hasPods(w) || m.hasOwner(w) {
			continue
		}
		if w.idle != "" {
			if w.pods > 0 && !m.ownsWorkload(w) {
				m.note("%s %s/%s: %s, so no pods are planned for it", w.kind, w.meta.Namespace, w.meta.Name, w.idle)
			}
			continue
		}
		if w.kind == "Deployment" {
			m.snapshot.ReplicaSets = append(m.snapshot.ReplicaSets, replicaSetOf(w))
		}
		there := namesOf(m.snapshot.PersistentVolumeClaims)
		for i := range w.pods {
			m.addPodOf(w, i, there)
		}
	}
}

// replicaSetOf returns the ReplicaSet of a Deployment's pods. It has the name and UID in the pods' owner reference.
func replicaSetOf(w workload) *appsv1.ReplicaSet {
	o := newReplicaSet(metav1.ObjectMeta{
		Namespace: w.meta.Namespace, Name: w.owner.Name, UID: w.owner.UID, CreationTimestamp: w.meta.CreationTimestamp,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: w.owner.APIVersion, Kind: w.kind, Name: w.meta.Name, UID: w.meta.UID, Controller: ptr.To(true),
		}},
	}, w.selector, ptr.To(int32(w.pods)))
	o.Spec.Template = w.template
	return o
}

// scale changes the workload's number of pods.
func (w *workload) scale(pods int) {
	if w.pods = pods; w.replicas != nil {
		*w.replicas = int32(pods)
	}
}

// hasPods reports whether the files contain pods of the workload.
func (m *manifest) hasPods(w workload) bool {
	return slices.ContainsFunc(m.snapshot.Pods, belongsTo(w))
}

// podsOf returns the pods of the workload in the files.
func (m *manifest) podsOf(w workload) (out []*corev1.Pod) {
	belongs := belongsTo(w)
	for _, p := range m.snapshot.Pods {
		if belongs(p) {
			out = append(out, p)
		}
	}
	return out
}

// belongsTo returns a function that reports whether a pod belongs to the workload: the workload owns the pod, or its selector matches.
func belongsTo(w workload) func(*corev1.Pod) bool {
	selector := labels.Nothing()
	if s, err := metav1.LabelSelectorAsSelector(w.selector); err == nil && w.selector != nil && !s.Empty() {
		selector = s
	}
	return func(p *corev1.Pod) bool {
		if p.Namespace != w.meta.Namespace {
			return false
		}
		return ownedBy(p.OwnerReferences, w.owner) || len(p.OwnerReferences) > 0 && selector.Matches(labels.Set(p.Labels))
	}
}

func ownedBy(owners []metav1.OwnerReference, owner metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == owner.Kind && o.Name == owner.Name })
}

// hasOwner reports whether another workload in the files made this one and has planned pods. A paused Deployment makes no ReplicaSets, but
// keeps its existing ones.
func (m *manifest) hasOwner(w workload) bool {
	return slices.ContainsFunc(m.workloads, func(o workload) bool { return o.idle == "" && o.makes(w) })
}

// ownsWorkload reports whether the workload has made another workload in the files.
func (m *manifest) ownsWorkload(w workload) bool { return slices.ContainsFunc(m.workloads, w.makes) }

func (w workload) makes(other workload) bool {
	return w.meta.Namespace == other.meta.Namespace && ownedBy(other.meta.OwnerReferences, metav1.OwnerReference{Kind: w.kind, Name: w.meta.Name})
}

// addPodOf adds a pod of the workload, and each PersistentVolumeClaim of the pod that does not exist yet.
func (m *manifest) addPodOf(w workload, i int, there map[string]bool) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	template := w.template.DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: w.meta.Namespace, Name: numberedName(w.meta.Name, w.firstName+i),
		Labels: template.Labels, Annotations: template.Annotations, OwnerReferences: []metav1.OwnerReference{w.owner},
	}
	pod.UID = uidOf(pod.Namespace, pod.Name)
	pod.Spec = template.Spec
	m.mountClaims(w, pod, there)
	m.fresh[pod], m.makers[pod] = true, fmt.Sprintf("%s %s/%s", w.kind, w.meta.Namespace, w.meta.Name)
	m.snapshot.Pods = append(m.snapshot.Pods, pod)
}
