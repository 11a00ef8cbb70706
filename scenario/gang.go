package scenario

import (
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/schedulingv1alpha3"
)

// gang reads gang NAME min=4 topology=zone disruption=all priority=10 ns=batch age=1m: a PodGroup. Pods say gang=NAME.
func (b *builder) gang(name word, r *reader) error {
	o := &schedulingv1alpha3.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: schedulingv1alpha3.GroupVersion.String(), Kind: "PodGroup"}}
	o.ObjectMeta = b.meta(metav1.NamespaceDefault, name.text)
	o.CreationTimestamp = b.ago(0)
	o.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.BasicSchedulingPolicy{}
	for r.more() {
		if err := b.gangWord(o, r.next()); err != nil {
			return err
		}
	}
	b.snapshot.PodGroups = append(b.snapshot.PodGroups, o)
	return nil
}

func (b *builder) gangWord(o *schedulingv1alpha3.PodGroup, w word) (err error) {
	switch key, value := w.cut(); key {
	case "min":
		gang := &schedulingv1alpha3.GangSchedulingPolicy{}
		gang.MinCount, err = w.number32()
		o.Spec.SchedulingPolicy = schedulingv1alpha3.SchedulingPolicy{Gang: gang}
	case "topology":
		o.Spec.SchedulingConstraints = &schedulingv1alpha3.SchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: labelKey(value)}}}
	case "disruption":
		if value != "all" {
			return w.errorf("write disruption=all, or leave it out")
		}
		o.Spec.DisruptionMode = &schedulingv1alpha3.DisruptionMode{All: &schedulingv1alpha3.AllDisruptionMode{}}
	case "priority":
		o.Spec.Priority = new(int32)
		*o.Spec.Priority, err = w.number32()
	case "ns":
		o.Namespace, o.UID = value, uidOf(value, o.Name)
	case "age":
		var age time.Duration
		age, err = w.duration()
		o.CreationTimestamp = b.ago(age)
	default:
		return w.errorf("unknown word; a gang has min, topology, disruption, priority, ns, age")
	}
	return err
}

// addPodGroup reads a PodGroup of a file, in either version. It reads an unknown version like the newest and adds a note.
func (m *manifest) addPodGroup(u *unstructured.Unstructured) error {
	version := u.GroupVersionKind().Version
	if version == schedulingv1alpha2.SchemeGroupVersion.Version {
		older := &schedulingv1alpha2.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, older); err != nil {
			return wrongType(u, older, err)
		}
		m.snapshot.PodGroups = append(m.snapshot.PodGroups, schedulingv1alpha3.FromV1Alpha2(older))
		return nil
	}
	if version != schedulingv1alpha3.GroupVersion.Version {
		m.note("%s: its version %s is not known, it is read as if it were %s", identity(u), version, schedulingv1alpha3.GroupVersion.Version)
	}
	return decode(m, u, &m.snapshot.PodGroups)
}
