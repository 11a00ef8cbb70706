package scenario

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

const patchWords = "labels= annotations= finalizers= deleting; of a node also taint= untaint= allocatable= published= ready not-ready gone"

// patch reads patch KIND NAME with changes that another client has made to the object.
func (b *builder) patch(kind word, r *reader) error {
	if !r.more() {
		return kind.errorf("write patch %s NAME", kind.text)
	}
	switch name := r.next(); kind.text {
	case "node":
		return patchOf(&b.snapshot.Nodes, name, r, (*corev1.Node).DeepCopy, b.patchNode)
	case "claim":
		return patchOf(&b.snapshot.NodeClaims, name, r, (*v1.NodeClaim).DeepCopy, func(c *v1.NodeClaim, w word, r *reader) error { return b.patchMeta(c, w, r) })
	case "pool":
		return patchOf(&b.snapshot.NodePools, name, r, (*v1.NodePool).DeepCopy, func(p *v1.NodePool, w word, r *reader) error { return b.patchMeta(p, w, r) })
	}
	return kind.errorf("patch knows node, claim, pool")
}

func patchOf[T metav1.Object](list *[]T, name word, r *reader, copied func(T) T, change func(T, word, *reader) error) error {
	i := slices.IndexFunc(*list, func(o T) bool { return o.GetName() == name.text })
	if i < 0 {
		return name.errorf("there is no such object")
	}
	o := copied((*list)[i]) // older snapshots share it
	for r.more() {
		if err := change(o, r.next(), r); err != nil {
			return err
		}
	}
	put(list, o)
	return nil
}

// named finds an object. It returns nil if there is none.
func named[T metav1.Object](list []T, name string) (found T) {
	if i := slices.IndexFunc(list, func(o T) bool { return o.GetName() == name }); i >= 0 {
		found = list[i]
	}
	return found
}

func (b *builder) patchMeta(o metav1.Object, w word, r *reader) error {
	switch key, _ := w.cut(); key {
	case "labels", "annotations":
		values := map[string]string{}
		w.addLabels(&values)
		if key == "labels" {
			o.SetLabels(kube.Merged(o.GetLabels(), values))
		} else {
			o.SetAnnotations(kube.Merged(o.GetAnnotations(), values))
		}
	case "finalizers":
		o.SetFinalizers(w.list())
	case "deleting":
		o.SetDeletionTimestamp(new(b.ago(0)))
	default:
		return r.unknown(w, patchWords)
	}
	return nil
}

func (b *builder) patchNode(n *corev1.Node, w word, r *reader) error {
	switch key, value := w.cut(); key {
	case "taint":
		t, err := w.taint()
		n.Spec.Taints = append(n.Spec.Taints, t)
		return err
	case "untaint":
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == value })
	case "allocatable":
		list, err := w.resources()
		maps.Copy(n.Status.Capacity, list)
		maps.Copy(n.Status.Allocatable, list)
		return err
	case "published":
		p, err := w.published()
		if err == nil {
			b.publish(n.Name, p)
		}
		return err
	case "ready", "not-ready":
		status := corev1.ConditionTrue
		if key == "not-ready" {
			status = corev1.ConditionFalse
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		if status == corev1.ConditionFalse {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
				c.Status, c.LastTransitionTime = status, b.ago(0)
			}
		}
	case "gone":
		n.Finalizers, n.DeletionTimestamp = nil, new(b.ago(0))
	default:
		return b.patchMeta(n, w, r)
	}
	return nil
}
