package scenario

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// disruptionBudget reads pdb NAME select=app:web min=2|max=1|max=10% allowed=1 ns=.
func (b *builder) disruptionBudget(name word, r *reader) error {
	p := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: b.meta(metav1.NamespaceDefault, name.text),
	}
	selector := map[string]string{"app": name.text}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		amount := intstr.Parse(value)
		switch key {
		case "ns":
			p.ObjectMeta = b.meta(value, name.text)
		case "select":
			selector = nil
			w.addLabels(&selector)
		case "min":
			p.Spec.MinAvailable = &amount
		case "max":
			p.Spec.MaxUnavailable = &amount
		case "allowed":
			n, err := w.number()
			if err != nil {
				return err
			}
			p.Status.DisruptionsAllowed = int32(n)
		case "expected":
			n, err := w.number32()
			if err != nil {
				return err
			}
			p.Status.ExpectedPods = n
		case "desired":
			n, err := w.number32()
			if err != nil {
				return err
			}
			p.Status.DesiredHealthy = n
		case "always-allow":
			policy := policyv1.AlwaysAllow
			p.Spec.UnhealthyPodEvictionPolicy = &policy
		default:
			return r.unknown(w, "ns= select= min= max= allowed= expected= desired= always-allow")
		}
	}
	p.CreationTimestamp = b.ago(24 * time.Hour)
	p.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	b.snapshot.PodDisruptionBudgets = append(b.snapshot.PodDisruptionBudgets, p)
	return nil
}

// delete reads delete KIND NAME [ns=]: it takes back what an earlier statement made.
func (b *builder) delete(kind word, r *reader) error {
	if !r.more() {
		return kind.errorf("write delete %s NAME", kind.text)
	}
	name, namespace := r.next(), metav1.NamespaceDefault
	for r.more() {
		w := r.next()
		key, value := w.cut()
		if key != "ns" {
			return r.unknown(w, "ns=")
		}
		namespace = value
	}
	s, ok := &b.snapshot, false
	switch kind.text {
	case "pod":
		s.Pods, ok = without(s.Pods, namespace, name.text)
		s.PersistentVolumeClaims = slices.DeleteFunc(s.PersistentVolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == namespace && slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool {
				return o.Kind == "Pod" && o.Name == name.text
			})
		})
	case "node":
		s.Nodes, ok = without(s.Nodes, "", name.text)
		s.NodeClaims, _ = without(s.NodeClaims, "", name.text)
		s.CSINodes, _ = without(s.CSINodes, "", name.text)
	case "claim":
		s.NodeClaims, ok = without(s.NodeClaims, "", name.text)
	case "pool":
		s.NodePools, ok = without(s.NodePools, "", name.text)
	case "daemonset":
		s.DaemonSets, ok = without(s.DaemonSets, namespace, name.text)
	case "pdb":
		s.PodDisruptionBudgets, ok = without(s.PodDisruptionBudgets, namespace, name.text)
	case "namespace":
		s.Namespaces, ok = without(s.Namespaces, "", name.text)
	case "volume":
		s.PersistentVolumes, ok = without(s.PersistentVolumes, "", name.text)
	case "attachment":
		s.VolumeAttachments, ok = without(s.VolumeAttachments, "", name.text)
	case "disk":
		s.PersistentVolumeClaims, ok = without(s.PersistentVolumeClaims, namespace, name.text)
	case "storageclass":
		s.StorageClasses, ok = without(s.StorageClasses, "", name.text)
	case "buffer":
		s.CapacityBuffers, ok = without(s.CapacityBuffers, namespace, name.text)
	case "request":
		s.ProvisioningRequests, ok = without(s.ProvisioningRequests, namespace, name.text)
	case "gang":
		s.PodGroups, ok = without(s.PodGroups, namespace, name.text)
	case "overlay":
		s.NodeOverlays, ok = without(s.NodeOverlays, "", name.text)
	case "service":
		s.Services, ok = without(s.Services, namespace, name.text)
	case "class":
		before := len(s.Classes)
		ref := *classRef(name.text)
		for i := range slices.Backward(s.Classes) {
			if s.Classes[i].Ref == ref {
				s.Classes = slices.Delete(slices.Clone(s.Classes), i, i+1)
			}
		}
		ok = len(s.Classes) < before
	default:
		return kind.errorf("delete knows pod, node, claim, pool, daemonset, pdb, overlay, buffer, request, gang, namespace, service, volume, attachment, disk, storageclass, class")
	}
	if !ok {
		return name.errorf("there is no such %s", kind.text)
	}
	return nil
}
