package scenario

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// noProvisioner is the provisioner of classes whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// mountDisks acts like the volume controllers after a pod is bound: each unbound claim of the pod gets a volume that the node can use.
func mountDisks(s *engine.Snapshot, pod *corev1.Pod, node *corev1.Node) {
	for _, name := range claimsOf(pod) {
		i := slices.IndexFunc(s.PersistentVolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == pod.Namespace && c.Name == name
		})
		if i < 0 || s.PersistentVolumeClaims[i].Spec.VolumeName != "" || s.PersistentVolumeClaims[i].Status.Phase != corev1.ClaimPending {
			continue
		}
		claim := s.PersistentVolumeClaims[i].DeepCopy()
		if volume := volumeFor(s, claim, node); volume != nil {
			joinDisk(claim, volume)
			s.PersistentVolumeClaims[i] = claim
		}
	}
}

// claimsOf returns the names of the pod's claims.
func claimsOf(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}

// volumeFor finds a volume of the claim's class for the node, or makes one. It returns nil if neither is possible.
func volumeFor(s *engine.Snapshot, claim *corev1.PersistentVolumeClaim, node *corev1.Node) *corev1.PersistentVolume {
	class := storageClassOf(s, claim)
	if !waits(class) {
		return nil
	}
	free := -1
	for j, v := range s.PersistentVolumes {
		if serves(v, claim) && reaches(node, v) && (free < 0 || cmp.Less(v.Name, s.PersistentVolumes[free].Name)) {
			free = j
		}
	}
	if free >= 0 {
		s.PersistentVolumes[free] = s.PersistentVolumes[free].DeepCopy()
		return s.PersistentVolumes[free]
	}
	if class.Provisioner == noProvisioner {
		return nil
	}
	full := "pvc-" + strings.TrimPrefix(claim.Namespace+"-"+claim.Name, metav1.NamespaceDefault+"-")
	v := volumeLine{PersistentVolume: newVolume(metav1.ObjectMeta{Name: full, UID: uidOf("", full), ResourceVersion: "1"}, class.Provisioner)}
	v.Spec.StorageClassName, v.CreationTimestamp = class.Name, metav1.NewTime(s.Now)
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
		v.require(v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{zone}})
	}
	s.PersistentVolumes = append(s.PersistentVolumes, v.PersistentVolume)
	return v.PersistentVolume
}

// reaches reports whether the volume's node affinity allows the node.
func reaches(node *corev1.Node, v *corev1.PersistentVolume) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	return slices.ContainsFunc(v.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return !holds(e, node.Labels) })
	})
}

func holds(e corev1.NodeSelectorRequirement, of labels.Set) bool {
	operator := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}[e.Operator]
	r, err := labels.NewRequirement(e.Key, operator, e.Values)
	return err == nil && r.Matches(of)
}
