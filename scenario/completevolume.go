package scenario

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
)

// completeVolumes sets defaults of volumes. Like the controller manager, it binds claims that were never in a cluster to volumes in the
// files.
func (m *manifest) completeVolumes() {
	s := &m.snapshot
	there := namesOf(s.PersistentVolumeClaims)
	for _, p := range s.Pods {
		if m.fresh[p] {
			s.PersistentVolumeClaims = append(s.PersistentVolumeClaims, ephemeralClaims(p, there)...)
		}
	}
	for i, c := range s.StorageClasses {
		if c.VolumeBindingMode == nil {
			s.StorageClasses[i] = c.DeepCopy()
			s.StorageClasses[i].VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
		}
	}
	for i, v := range s.PersistentVolumes {
		if v.Status.Phase == "" {
			s.PersistentVolumes[i] = v.DeepCopy()
			s.PersistentVolumes[i].Status.Phase = corev1.VolumeAvailable
		}
	}
	for i, c := range s.PersistentVolumeClaims {
		if c.Status.Phase == "" {
			s.PersistentVolumeClaims[i] = m.completeClaim(c.DeepCopy())
		}
	}
}

func (m *manifest) completeClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	s := &m.snapshot
	c.Status.Phase = corev1.ClaimPending
	if c.Spec.StorageClassName == nil {
		if i := slices.IndexFunc(s.StorageClasses, isDefaultClass); i >= 0 {
			c.Spec.StorageClassName = &s.StorageClasses[i].Name
		}
	}
	if waits(storageClassOf(s, c)) && c.Spec.VolumeName == "" {
		return c
	}
	i := slices.IndexFunc(s.PersistentVolumes, func(v *corev1.PersistentVolume) bool { return serves(v, c) })
	if i >= 0 {
		s.PersistentVolumes[i] = s.PersistentVolumes[i].DeepCopy()
		joinDisk(c, s.PersistentVolumes[i])
	}
	return c
}

func isDefaultClass(c *storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
}

// waits reports whether claims of the class stay unbound until a pod that uses them has a node.
func waits(c *storagev1.StorageClass) bool {
	return c != nil && ptr.Deref(c.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer
}

// storageClassOf finds the claim's class. It returns nil if there is none.
func storageClassOf(s *engine.Snapshot, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	name := ptr.Deref(claim.Spec.StorageClassName, "")
	i := slices.IndexFunc(s.StorageClasses, func(c *storagev1.StorageClass) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return s.StorageClasses[i]
}

// serves reports whether the claim can be bound to the volume.
func serves(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	if r := v.Spec.ClaimRef; r != nil && (r.Namespace != c.Namespace || r.Name != c.Name) {
		return false
	}
	if c.Spec.VolumeName != "" {
		return v.Name == c.Spec.VolumeName
	}
	if v.Status.Phase != corev1.VolumeAvailable || v.Spec.StorageClassName != ptr.Deref(c.Spec.StorageClassName, "") {
		return false
	}
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			return false
		}
	}
	size, has := c.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	return size.Cmp(has) <= 0
}

// assumedClass is the class of claims without a class if no file has a default class.
const assumedClass = "standard"

// assumeStorageClasses adds the classes of unbound claims that are not in the files, because users who want the cost of a StatefulSet rarely
// have the cluster's classes in their files.
func (m *manifest) assumeStorageClasses(s *engine.Snapshot) {
	for i, c := range s.PersistentVolumeClaims {
		if c.Spec.VolumeName != "" || c.ResourceVersion != "" || storageClassOf(s, c) != nil {
			continue
		}
		if c.Spec.StorageClassName == nil {
			c = c.DeepCopy()
			c.Spec.StorageClassName = ptr.To(assumedClass)
			s.PersistentVolumeClaims[i] = c
		}
		name := *c.Spec.StorageClassName
		if name == "" || storageClassOf(s, c) != nil {
			continue // the empty name requests an existing volume
		}
		m.note("StorageClass %s is not in the files: taken to make volumes wherever a pod is", name)
		s.StorageClasses = append(s.StorageClasses, &storagev1.StorageClass{
			TypeMeta:    metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
			ObjectMeta:  metav1.ObjectMeta{Name: name, UID: uidOf("", name)},
			Provisioner: diskDriver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		})
	}
}
