package main

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// noProvisioner is the provisioner of classes whose volumes an administrator creates.
const noProvisioner = "kubernetes.io/no-provisioner"

// bindClaims does the work of the volume controller and of a CSI driver after kube-scheduler has chosen a node. Each claim that waited for its
// first consumer gets the volume that the scheduler would have chosen, or a new volume in the node's zone.
func (w *oracleWorld) bindClaims(pod *corev1.Pod, node *corev1.Node) error {
	claims, err := w.undecided(pod)
	if err != nil {
		return err
	}
	taken := map[string]*corev1.PersistentVolume{}
	for _, claim := range claims {
		class, err := w.factory.Storage().V1().StorageClasses().Lister().Get(volume.GetPersistentVolumeClaimClass(claim))
		if err != nil {
			return fmt.Errorf("claim %s: %w", claim.Name, err)
		}
		pv, err := w.volumeFor(claim, class, node, taken)
		if err != nil {
			return fmt.Errorf("claim %s: %w", claim.Name, err)
		}
		if err := w.join(claim, pv); err != nil {
			return fmt.Errorf("claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// undecided lists the pod's claims without a volume, the smallest first, because kube-scheduler looks for volumes in that order.
func (w *oracleWorld) undecided(pod *corev1.Pod) ([]*corev1.PersistentVolumeClaim, error) {
	var claims []*corev1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := w.factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			return nil, err
		}
		if claim.Spec.VolumeName == "" && !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	slices.SortStableFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Or(a.Spec.Resources.Requests.Storage().Cmp(*b.Spec.Resources.Requests.Storage()), cmp.Compare(a.Name, b.Name))
	})
	return claims, nil
}

func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// volumeFor returns a volume for the claim. It prefers an existing volume, as kube-scheduler does.
func (w *oracleWorld) volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node, taken map[string]*corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	var volumes []*corev1.PersistentVolume
	for _, object := range w.factory.of(&corev1.PersistentVolume{}).objects.List() {
		if pv := object.(*corev1.PersistentVolume); volume.GetPersistentVolumeClass(pv) == class.Name {
			volumes = append(volumes, pv)
		}
	}
	slices.SortFunc(volumes, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	found, err := volume.FindMatchingVolume(claim, volumes, node, taken, true, true)
	if err != nil || found != nil {
		if found != nil {
			taken[found.Name] = found
		}
		return found, err
	}
	if class.Provisioner == noProvisioner {
		return nil, fmt.Errorf("no volume of class %s is left for node %s, and nobody makes new ones", class.Name, node.Name)
	}
	return provisioned(claim, class, node), nil
}

// provisioned returns a volume as a cloud's CSI driver creates it: all nodes in the node's zone reach it, if the node has a zone.
func provisioned(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) *corev1.PersistentVolume {
	name := "oracle-" + claim.Namespace + "-" + claim.Name
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         claim.Spec.Resources.Requests,
			AccessModes:      claim.Spec.AccessModes,
			StorageClassName: class.Name,
			VolumeMode:       claim.Spec.VolumeMode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: name},
			},
		},
	}
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
			},
		}}}}
	}
	return pv
}

// join stores copies of both objects that refer to each other. Their resource versions change, so that the plugins' caches notice the change.
func (w *oracleWorld) join(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	claim, pv = claim.DeepCopy(), pv.DeepCopy()
	pv.ResourceVersion += "1"
	pv.Status.Phase = corev1.VolumeBound
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	claim.ResourceVersion += "1"
	claim.Status.Phase = corev1.ClaimBound
	claim.Spec.VolumeName = pv.Name
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[volume.AnnBindCompleted] = "yes"
	if err := w.factory.put(pv); err != nil {
		return err
	}
	return w.factory.put(claim)
}
