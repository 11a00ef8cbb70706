package scenario

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

// This file reads objects that group pods: namespaces with labels, owners and services.

// namespace reads namespace NAME labels=team:a pause=true pause-reason="why".
func (b *builder) namespace(name word, r *reader) error {
	n := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: b.meta("", name.text)}
	for r.more() {
		w := r.next()
		switch key, value := w.cut(); key {
		case "labels":
			w.addLabels(&n.Labels)
		case "pause":
			addLabel(&n.Annotations, v1.PauseAnnotationKey, value)
		case "pause-reason":
			addLabel(&n.Annotations, v1.PauseReasonAnnotationKey, value)
		default:
			return r.unknown(w, "labels= pause= pause-reason=")
		}
	}
	completeNamespace(n)
	b.snapshot.Namespaces = append(b.snapshot.Namespaces, n)
	return nil
}

// completeNamespace adds the label that the API server sets on every namespace.
func completeNamespace(n *corev1.Namespace) {
	metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelMetadataName, n.Name)
}

// ownerLine is a parsed service, replicaset, statefulset or replicationcontroller statement.
type ownerLine struct {
	meta     metav1.ObjectMeta
	selector map[string]string // app:NAME by default
	replicas int32
}

func (b *builder) readOwner(name word, r *reader) (ownerLine, error) {
	o := ownerLine{b.meta(metav1.NamespaceDefault, name.text), map[string]string{"app": name.text}, 1}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "ns":
			o.meta = b.meta(value, name.text)
		case "select":
			o.selector = nil
			w.addLabels(&o.selector)
		case "replicas":
			n, err := w.number32()
			if err != nil {
				return o, err
			}
			o.replicas = n
		default:
			return o, r.unknown(w, "ns= select= replicas=")
		}
	}
	o.meta.CreationTimestamp = b.ago(0)
	return o, nil
}

func (b *builder) service(name word, r *reader) error {
	o, err := b.readOwner(name, r)
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: o.meta}
	s.Spec.Selector = o.selector
	b.snapshot.Services = append(b.snapshot.Services, s)
	return err
}

// owner reads the owner of pods with owner=ReplicaSet/NAME or a similar word. Its UID is the UID in their references.
func (b *builder) owner(kind string, name word, r *reader) error {
	o, err := b.readOwner(name, r)
	o.meta.UID = uidOf("", kind+"/"+name.text)
	selector := &metav1.LabelSelector{MatchLabels: o.selector}
	s := &b.snapshot
	switch kind {
	case "ReplicaSet":
		s.ReplicaSets = append(s.ReplicaSets, newReplicaSet(o.meta, selector, &o.replicas))
	case "StatefulSet":
		s.StatefulSets = append(s.StatefulSets, newStatefulSet(o.meta, selector, &o.replicas))
	default:
		s.ReplicationControllers = append(s.ReplicationControllers, newReplicationController(o.meta, o.selector, &o.replicas))
	}
	return err
}

func newReplicaSet(meta metav1.ObjectMeta, selector *metav1.LabelSelector, replicas *int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta,
		Spec: appsv1.ReplicaSetSpec{Selector: selector, Replicas: replicas},
	}
}

func newStatefulSet(meta metav1.ObjectMeta, selector *metav1.LabelSelector, replicas *int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{Selector: selector, Replicas: replicas},
	}
}

func newReplicationController(meta metav1.ObjectMeta, selector map[string]string, replicas *int32) *corev1.ReplicationController {
	return &corev1.ReplicationController{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}, ObjectMeta: meta,
		Spec: corev1.ReplicationControllerSpec{Selector: selector, Replicas: replicas},
	}
}

// deviceClass reads deviceclass NAME driver=gpu.example.com resource=example.com/gpu age=1h.
func (b *builder) deviceClass(name word, r *reader) error {
	c := &resourcev1.DeviceClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"}, ObjectMeta: b.meta("", name.text),
	}
	for r.more() {
		w := r.next()
		switch key, value := w.cut(); key {
		case "resource":
			c.Spec.ExtendedResourceName = ptr.To(value)
		case "driver":
			c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", value)}}}
		case "age":
			age, err := w.duration()
			if err != nil {
				return err
			}
			c.CreationTimestamp = metav1.NewTime(b.snapshot.Now.Add(-age))
		default:
			return r.unknown(w, "driver= resource= age=")
		}
	}
	b.snapshot.DeviceClasses = append(b.snapshot.DeviceClasses, c)
	return nil
}
