package inventory

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// ownerTemplate is the pod template of a controller; spec is nil if it is not known.
type ownerTemplate struct {
	spec   *corev1.PodSpec
	update updateRule
}

// updateRule is a StatefulSet's choice of the revision for a new pod. The pod is created from the present template if its ordinal is first or
// more, else from the earlier revision. First is 0 for the update strategy OnDelete.
type updateRule struct {
	stateful bool
	first    int
	revision string // status.updateRevision, empty if there is none
}

func updateRuleOf(o *appsv1.StatefulSet) updateRule {
	rule := updateRule{stateful: true, revision: o.Status.UpdateRevision}
	rolling := o.Spec.UpdateStrategy.RollingUpdate
	if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || rolling == nil || rolling.Partition == nil {
		return rule
	}
	if rule.first = int(*rolling.Partition); o.Spec.Ordinals != nil {
		rule.first += int(o.Spec.Ordinals.Start)
	}
	return rule
}

// isNewerThan reports whether the StatefulSet created the pod from an earlier revision, and will create its successor from this template.
func (t ownerTemplate) isNewerThan(pod *corev1.Pod) bool {
	if rule := t.update; !rule.stateful || rule.revision != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == rule.revision {
		return false
	}
	if t.update.first <= 0 {
		return true
	}
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	return err == nil && ordinal >= t.update.first
}

// successor returns the pod that needs a place: the pod itself or, if it runs, the pod that its owner would create instead. The owner ignores a
// resize in place and uses its template, which may be newer than the pod. The successor has the pod's own requests if they are greater, because
// admission may have raised them, and will again.
func successor(pod *corev1.Pod, template ownerTemplate) *corev1.Pod {
	if pod.Spec.NodeName == "" {
		return pod
	}
	if s := &pod.Status; !template.isNewerThan(pod) && s.Resources == nil && !slices.ContainsFunc(s.ContainerStatuses, saysResources) && !slices.ContainsFunc(s.InitContainerStatuses, saysResources) {
		return pod // it was never resized, and its controller would create an equal one
	}
	fresh := *pod
	fresh.Status = corev1.PodStatus{}
	if template.spec == nil {
		return &fresh
	}
	fresh.Spec.Containers = raised(fresh.Spec.Containers, template.spec.Containers)
	fresh.Spec.InitContainers = raised(fresh.Spec.InitContainers, template.spec.InitContainers)
	if whole := template.spec.Resources; whole != nil {
		own := fresh.Spec.Resources
		if own == nil {
			own = &corev1.ResourceRequirements{}
		}
		fresh.Spec.Resources = new(raisedTo(*own, *whole))
	}
	return &fresh
}

func saysResources(s corev1.ContainerStatus) bool { return s.Resources != nil }

// raised returns the containers with at least the requests of the template's containers with the same names.
func raised(own, template []corev1.Container) []corev1.Container {
	own = slices.Clone(own)
	for i := range own {
		if j := slices.IndexFunc(template, func(c corev1.Container) bool { return c.Name == own[i].Name }); j >= 0 {
			own[i].Resources = raisedTo(own[i].Resources, template[j].Resources)
		}
	}
	return own
}

// raisedTo returns own with at least the requests of the template. A resource that has only a limit in the template is treated as requested.
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

// learnTemplates reads the pod templates of owners. If an owner's template has other requests now, the requests of its pods' successors are
// read again.
func (cache *Cache) learnTemplates(s *engine.Snapshot) {
	before := cache.templates
	cache.templates = make(map[string]ownerTemplate, len(before))
	note := func(kind string, o metav1.Object, t *corev1.PodTemplateSpec) {
		if t != nil && len(t.Spec.Containers) > 0 {
			cache.templates[o.GetNamespace()+"/"+kind+"/"+o.GetName()] = ownerTemplate{spec: &t.Spec}
		}
	}
	for _, o := range s.ReplicaSets {
		note("ReplicaSet", o, &o.Spec.Template)
	}
	for _, o := range s.StatefulSets {
		note("StatefulSet", o, &o.Spec.Template)
		name := o.Namespace + "/StatefulSet/" + o.Name
		if t, ok := cache.templates[name]; ok {
			t.update = updateRuleOf(o)
			cache.templates[name] = t
		}
	}
	for _, o := range s.ReplicationControllers {
		note("ReplicationController", o, o.Spec.Template)
	}
	for name, owner := range cache.Owned {
		if old, now := before[name], cache.templates[name]; old == now || old.spec != nil && now.spec != nil && old.update == now.update && cache.sameRequests(old.spec, now.spec) {
			continue
		}
		for _, info := range owner.Infos {
			if info.nextRequests = nil; info.node != nil {
				info.node.classes, info.node.classesRead = nil, false
			}
		}
	}
}

func (cache *Cache) sameRequests(a, b *corev1.PodSpec) bool {
	key := bytes.Clone(cache.key.requests(&corev1.Pod{Spec: *a}))
	return bytes.Equal(key, cache.key.requests(&corev1.Pod{Spec: *b}))
}
