package scenario

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tenon.sh/api/autoscalingv1beta1"
)

// buffer reads buffer NAME replicas=5 at-most=cpu:3 and the words of a pod for its PodTemplate, or buffer NAME of=StatefulSet/web
// percentage=20.
func (b *builder) buffer(name word, r *reader) error {
	o := &autoscalingv1beta1.CapacityBuffer{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1beta1.GroupVersion.String(), Kind: "CapacityBuffer"},
	}
	o.Spec.ProvisioningStrategy = new(autoscalingv1beta1.ActiveCapacity)
	var words []word
	for r.more() {
		w := r.next()
		mine, err := bufferWord(&o.Spec, w)
		if err != nil {
			return err
		}
		if !mine {
			words = append(words, w)
		}
	}
	p, err := b.readPod(name, &reader{of: r.of, words: words})
	if err != nil {
		return err
	}
	o.ObjectMeta = b.meta(p.pod.Namespace, name.text)
	o.Generation, o.CreationTimestamp = 1, b.ago(p.age)
	b.snapshot.CapacityBuffers = append(b.snapshot.CapacityBuffers, o)
	if o.Spec.ScalableRef != nil {
		return nil
	}
	o.Spec.PodTemplateRef = &autoscalingv1beta1.LocalObjectRef{Name: name.text}
	b.addPodTemplate(name.text, p)
	return nil
}

// addPodTemplate adds a PodTemplate of a parsed pod.
func (b *builder) addPodTemplate(name string, p *podLine) {
	t := &corev1.PodTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}, ObjectMeta: b.meta(p.pod.Namespace, name),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.pod.Labels}, Spec: p.pod.Spec},
	}
	t.Generation = 1
	b.snapshot.PodTemplates = append(b.snapshot.PodTemplates, t)
}

// bufferWord reads a word about the buffer. It returns false for words about its pods.
func bufferWord(spec *autoscalingv1beta1.CapacityBufferSpec, w word) (mine bool, err error) {
	key, value := w.cut()
	number := func(to **int32) error {
		n, err := w.number32()
		*to = &n
		return err
	}
	switch key {
	case "replicas":
		return true, number(&spec.Replicas)
	case "percentage":
		return true, number(&spec.Percentage)
	case "at-most":
		spec.Limits, err = w.resources()
		return true, err
	case "strategy":
		spec.ProvisioningStrategy = &value
		return true, nil
	case "of":
		kind, name, ok := strings.Cut(value, "/")
		if !ok {
			return true, w.errorf("write the workload as of=StatefulSet/NAME")
		}
		spec.ScalableRef = &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: kind, Name: name}
		return true, nil
	}
	return false, nil
}

// addBuffer reads a CapacityBuffer of a file.
func (m *manifest) addBuffer(u *unstructured.Unstructured) error {
	if err := m.checked(u); err != nil {
		return err
	}
	return decode(m, u, &m.snapshot.CapacityBuffers)
}

// keepForBuffers drops the Deployments, PodTemplates and ResourceQuotas that no CapacityBuffer or ProvisioningRequest needs.
func (m *manifest) keepForBuffers() {
	s := &m.snapshot
	if len(s.CapacityBuffers) > 0 {
		s.ResourceQuotas = append(s.ResourceQuotas, m.quotas...)
	} else if len(s.ProvisioningRequests) == 0 {
		s.PodTemplates = nil
	}
	s.Deployments = slices.DeleteFunc(s.Deployments, func(d *appsv1.Deployment) bool {
		return !slices.ContainsFunc(s.CapacityBuffers, func(b *autoscalingv1beta1.CapacityBuffer) bool {
			ref := b.Spec.ScalableRef
			return ref != nil && ref.Kind == "Deployment" && ref.Name == d.Name && b.Namespace == d.Namespace
		})
	})
}
