package scenario

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

// diskDriver is the default CSI driver of volumes and classes.
const diskDriver = "disk.example.com"

// diskSize is the size of every volume and claim, so that no volume is too small.
func diskSize() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// storageClass reads storageclass NAME driver= wait zones=a,b.
func (b *builder) storageClass(name word, r *reader) error {
	c := &storagev1.StorageClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:  b.meta("", name.text),
		Provisioner: diskDriver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "driver":
			c.Provisioner = value
		case "wait":
			c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		case "zones":
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: corev1.LabelTopologyZone, Values: w.list()},
			}}}
		default:
			return r.unknown(w, "driver= wait zones=")
		}
	}
	b.snapshot.StorageClasses = append(b.snapshot.StorageClasses, c)
	return nil
}

// volumeLine is a parsed volume statement.
type volumeLine struct {
	*corev1.PersistentVolume
	claim, namespace               string
	attached, attaching, detaching string // names of nodes
}

// volume reads volume NAME zone=a driver= class= claim=NAME: a PersistentVolume, and its bound claim.
func (b *builder) volume(name word, r *reader) error {
	v := volumeLine{newVolume(b.meta("", name.text), diskDriver), "", metav1.NamespaceDefault, "", "", ""}
	for r.more() {
		if err := v.word(r); err != nil {
			return err
		}
	}
	b.snapshot.PersistentVolumes = append(b.snapshot.PersistentVolumes, v.PersistentVolume)
	b.attach(v, v.attached, true, false)
	b.attach(v, v.attaching, false, false)
	b.attach(v, v.detaching, true, true)
	if v.claim == "" {
		return nil
	}
	if b.diskNamed(v.namespace, v.claim) != nil {
		return name.errorf("there is a disk %s already", v.claim)
	}
	claim := newDisk(b.meta(v.namespace, v.claim), &v.Spec.StorageClassName)
	joinDisk(claim, v.PersistentVolume)
	b.snapshot.PersistentVolumeClaims = append(b.snapshot.PersistentVolumeClaims, claim)
	return nil
}

func (v *volumeLine) word(r *reader) error {
	if r.atRequirement() {
		req, err := r.requirement()
		v.require(req)
		return err
	}
	w := r.next()
	key, value := w.cut()
	switch key {
	case "zone":
		v.require(v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: w.list()})
	case "driver":
		v.Spec.CSI.Driver = value
	case "class":
		v.Spec.StorageClassName = value
	case "labels":
		w.addLabels(&v.Labels)
	case "claim":
		v.claim = value
	case "ns":
		v.namespace = value
	case "attached":
		v.attached = value
	case "attaching":
		v.attaching = value
	case "detaching":
		v.detaching = value
	default:
		return r.unknown(w, "zone= driver= class= labels= claim= ns= attached= attaching= detaching=, and requirements on the labels of nodes")
	}
	return nil
}

// require adds to the volume's node affinity.
func (v *volumeLine) require(req v1.Requirement) {
	if v.Spec.NodeAffinity == nil {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	}
	term := &v.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
	term.MatchExpressions = append(term.MatchExpressions, selectorRequirement(req))
}

// newVolume returns an unclaimed volume that all nodes can use.
func newVolume(meta metav1.ObjectMeta, driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeSpec{
			Capacity: diskSize(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: meta.Name},
			},
			VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

// attach adds a VolumeAttachment. `attached` and `leaving` determine whether the volume is attached, is being attached or is being detached.
func (b *builder) attach(v volumeLine, node string, attached, leaving bool) {
	if node == "" {
		return
	}
	a := &storagev1.VolumeAttachment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"},
		ObjectMeta: b.meta("", "csi-"+v.Name+"-"+node),
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: v.Spec.CSI.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: attached},
	}
	if leaving {
		a.DeletionTimestamp, a.Finalizers = ptr.To(metav1.NewTime(b.snapshot.Now)), []string{"external-attacher/" + v.Spec.CSI.Driver}
	}
	b.snapshot.VolumeAttachments = append(b.snapshot.VolumeAttachments, a)
}
