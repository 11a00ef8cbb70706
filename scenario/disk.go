package scenario

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The volume controllers use these annotations for the state of a claim.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
)

// disk reads disk NAME class= volume=NAME: a PersistentVolumeClaim, which is bound if it names a volume.
func (b *builder) disk(name word, r *reader) error {
	claim := newDisk(b.meta(metav1.NamespaceDefault, name.text), nil)
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "ns":
			meta := b.meta(value, name.text)
			meta.Annotations, meta.DeletionTimestamp, meta.Finalizers = claim.Annotations, claim.DeletionTimestamp, claim.Finalizers
			claim.ObjectMeta = meta
		case "class":
			claim.Spec.StorageClassName = &value
		case "volume":
			volume := b.volumeNamed(value)
			if volume == nil {
				return w.errorf("there is no volume %q above", value)
			}
			joinDisk(claim, volume)
		case "selected":
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, selectedNode, value)
		case "rwop":
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		case "rwx":
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		case "lost":
			claim.Status.Phase = corev1.ClaimLost
		case "deleting":
			claim.DeletionTimestamp, claim.Finalizers = ptr.To(metav1.NewTime(b.snapshot.Now)), []string{"kubernetes.io/pvc-protection"}
		default:
			return r.unknown(w, "ns= class= volume= selected= rwop rwx lost deleting")
		}
	}
	if b.diskNamed(claim.Namespace, claim.Name) != nil {
		return name.errorf("there is a disk of this name already")
	}
	if claim.Spec.VolumeName != "" {
		b.volumeNamed(claim.Spec.VolumeName).Spec.ClaimRef = claimRef(claim) // the namespace may follow the volume
	}
	b.snapshot.PersistentVolumeClaims = append(b.snapshot.PersistentVolumeClaims, claim)
	return nil
}

// newDisk returns a claim without a volume.
func newDisk(meta metav1.ObjectMeta, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: diskSize()}, VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// joinDisk binds a claim and a volume to each other.
func joinDisk(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, bindCompleted, "yes")
	claim.Spec.VolumeName = volume.Name
	if claim.Spec.StorageClassName == nil {
		claim.Spec.StorageClassName = ptr.To(volume.Spec.StorageClassName)
	}
	claim.Status.Phase = corev1.ClaimBound
	volume.Spec.ClaimRef, volume.Status.Phase = claimRef(claim), corev1.VolumeBound
}

func claimRef(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

// volumeNamed finds a volume, which the caller may change. It returns nil if there is none.
func (b *builder) volumeNamed(name string) *corev1.PersistentVolume {
	i := slices.IndexFunc(b.snapshot.PersistentVolumes, func(v *corev1.PersistentVolume) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	b.snapshot.PersistentVolumes[i] = b.snapshot.PersistentVolumes[i].DeepCopy() // older snapshots share it
	return b.snapshot.PersistentVolumes[i]
}

func (b *builder) diskNamed(namespace, name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(b.snapshot.PersistentVolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Namespace == namespace && c.Name == name
	})
	if i < 0 {
		return nil
	}
	return b.snapshot.PersistentVolumeClaims[i]
}

// namesOf returns namespace/name of each object of a list.
func namesOf[T metav1.Object](list []T) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, o := range list {
		out[o.GetNamespace()+"/"+o.GetName()] = true
	}
	return out
}

// disks adds a volume for each claim to the pod.
func (p *podLine) disks(claims []string) {
	for _, claim := range claims {
		p.pod.Spec.Volumes = append(p.pod.Spec.Volumes, corev1.Volume{
			Name:         fmt.Sprintf("disk-%d", len(p.pod.Spec.Volumes)+1),
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
	}
}

// addScratch adds the pod's ephemeral volumes.
func (p *podLine) addScratch() {
	for i, class := range p.scratch {
		claim := newDisk(metav1.ObjectMeta{}, &class)
		p.pod.Spec.Volumes = append(p.pod.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprintf("scratch-%d", i+1),
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec},
			}},
		})
	}
}

// ephemeralClaims returns the claims that the ephemeral volume controller makes for a pod, except existing ones.
func ephemeralClaims(pod *corev1.Pod, there map[string]bool) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, v := range pod.Spec.Volumes {
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || there[pod.Namespace+"/"+pod.Name+"-"+v.Name] {
			continue
		}
		template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
		name := pod.Name + "-" + v.Name
		out = append(out, &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: name, UID: uidOf(pod.Namespace, name), ResourceVersion: pod.ResourceVersion,
				Labels: template.Labels, Annotations: template.Annotations, CreationTimestamp: pod.CreationTimestamp,
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
				}},
			},
			Spec:   template.Spec,
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		})
	}
	return out
}
