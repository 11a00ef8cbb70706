package inventory

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// successor is the pod that asks for a place: the pod itself, or what its owner makes in the place of one that runs. The owner
// knows nothing of a resize in place, and makes what its template says. What the pod says counts where it is more: admission may
// have raised it, and will again. template is the owner's, nil if it is not known.
func successor(pod *corev1.Pod, template *corev1.PodSpec) *corev1.Pod {
	if pod.Spec.NodeName == "" {
		return pod
	}
	if s := &pod.Status; s.Resources == nil && !slices.ContainsFunc(s.ContainerStatuses, saysResources) && !slices.ContainsFunc(s.InitContainerStatuses, saysResources) {
		return pod // never resized
	}
	fresh := *pod
	fresh.Status = corev1.PodStatus{}
	if template == nil {
		return &fresh
	}
	fresh.Spec.Containers = raised(fresh.Spec.Containers, template.Containers)
	fresh.Spec.InitContainers = raised(fresh.Spec.InitContainers, template.InitContainers)
	if whole := template.Resources; whole != nil {
		own := fresh.Spec.Resources
		if own == nil {
			own = &corev1.ResourceRequirements{}
		}
		fresh.Spec.Resources = new(raisedTo(*own, *whole))
	}
	return &fresh
}

func saysResources(s corev1.ContainerStatus) bool { return s.Resources != nil }

// raised are the containers with at least what those of the same names in the template request.
func raised(own, template []corev1.Container) []corev1.Container {
	own = slices.Clone(own)
	for i := range own {
		if j := slices.IndexFunc(template, func(c corev1.Container) bool { return c.Name == own[i].Name }); j >= 0 {
			own[i].Resources = raisedTo(own[i].Resources, template[j].Resources)
		}
	}
	return own
}

// raisedTo is what is requested with at least what the template does; of what has only a limit there, that is requested.
func raisedTo(own, template corev1.ResourceRequirements) corev1.ResourceRequirements {
	requests := corev1.ResourceList{}
	kube.MaxList(requests, own.Requests)
	kube.MaxList(requests, template.Requests)
	for name, limit := range template.Limits {
		if _, said := template.Requests[name]; !said {
			kube.MaxList(requests, corev1.ResourceList{name: limit})
		}
	}
	own.Requests = requests
	return own
}

// learnTemplates reads what owners make their pods from. Pods of owners that request something else now are asked anew what their
// successors request.
func (m *Cache) learnTemplates(s *engine.Snapshot) {
	before := m.templates
	m.templates = make(map[string]*corev1.PodSpec, len(before))
	note := func(kind string, o metav1.Object, t *corev1.PodTemplateSpec) {
		if t != nil && len(t.Spec.Containers) > 0 {
			m.templates[o.GetNamespace()+"/"+kind+"/"+o.GetName()] = &t.Spec
		}
	}
	for _, o := range s.ReplicaSets {
		note("ReplicaSet", o, &o.Spec.Template)
	}
	for _, o := range s.StatefulSets {
		note("StatefulSet", o, &o.Spec.Template)
	}
	for _, o := range s.ReplicationControllers {
		note("ReplicationController", o, o.Spec.Template)
	}
	for name, owner := range m.Owned {
		if old, now := before[name], m.templates[name]; old == now || old != nil && now != nil && m.sameRequests(old, now) {
			continue
		}
		for _, f := range owner.Infos {
			if f.nextRequests = nil; f.node != nil {
				f.node.classes, f.node.classesRead = nil, false
			}
		}
	}
}

func (m *Cache) sameRequests(a, b *corev1.PodSpec) bool {
	key := bytes.Clone(m.key.requests(&corev1.Pod{Spec: *a}))
	return bytes.Equal(key, m.key.requests(&corev1.Pod{Spec: *b}))
}
