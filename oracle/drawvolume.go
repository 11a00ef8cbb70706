package oracle

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The storage classes of each cluster.
const (
	diskClass  = "disk"       // created in the zone of the first consumer
	zonalClass = "disk-zonal" // the same, in some zones only
	nowClass   = "disk-now"   // created at once, anywhere
	fileClass  = "file"       // without attach limits
	localClass = "local"      // created by an administrator, on the disk of a host
	spareClass = "spare"      // created by an administrator, in a zone
)

// bindCompleted is the annotation with which the volume controller marks a bound claim.
const bindCompleted = "pv.kubernetes.io/bind-completed"

func (d *drawing) storageClasses() {
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: d.meta("", name), Provisioner: provisioner, VolumeBindingMode: &mode}
		d.s.StorageClasses = append(d.s.StorageClasses, c)
		return c
	}
	class(diskClass, diskDriver, storagev1.VolumeBindingWaitForFirstConsumer)
	zonal := class(zonalClass, diskDriver, storagev1.VolumeBindingWaitForFirstConsumer)
	zonal.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{pick(d, d.zones...)}}},
	}}
	class(nowClass, diskDriver, storagev1.VolumeBindingImmediate)
	class(fileClass, fileDriver, storagev1.VolumeBindingWaitForFirstConsumer)
	class(localClass, "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
	class(spareClass, "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
}

// A volumePlan describes how the pods of a workload get one of their volumes.
type volumePlan struct {
	name      string
	class     string
	mode      corev1.PersistentVolumeAccessMode
	shared    bool // one claim for all pods
	ephemeral bool // a claim that lives as long as its pod
	unused    bool // the shared claim does not exist yet
}

func (d *drawing) volumePlan() *volumePlan {
	v := &volumePlan{
		name: d.name("vol"), class: pick(d, diskClass, diskClass, diskClass, zonalClass, zonalClass, zonalClass, nowClass, fileClass, localClass, localClass, spareClass),
		mode: corev1.ReadWriteOnce, unused: true,
	}
	switch d.IntN(8) {
	case 0, 1, 7:
		v.shared = true
		v.mode = pick(d, corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod, corev1.ReadWriteOncePod)
	case 2, 3:
		v.ephemeral = !isMadeByHand(v.class)
	case 4:
		v.mode = corev1.ReadWriteOncePod
	}
	return v
}

// mount adds the volume to the pod. home is the pod's node, nil if the pod waits.
func (d *drawing) mount(pod *corev1.Pod, v *volumePlan, home *drawnNode) {
	name := v.name
	volume := corev1.Volume{Name: v.name}
	switch {
	case v.ephemeral:
		name = pod.Name + "-" + v.name
		volume.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: d.claimSpec(v),
		}}
	case v.shared:
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	default:
		name = v.name + "-" + pod.Name
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	if v.shared && !v.unused {
		return
	}
	v.unused = false
	if home == nil && d.chance(40) && !v.ephemeral {
		return // the claim does not exist
	}
	d.persistentVolumeClaim(pod, v, name, home)
}

func (d *drawing) claimSpec(v *volumePlan) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{v.mode}, StorageClassName: ptr.To(v.class), VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: mebi(1024)}},
	}
}

func (d *drawing) persistentVolumeClaim(pod *corev1.Pod, v *volumePlan, name string, home *drawnNode) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: d.meta(pod.Namespace, name), Spec: d.claimSpec(v)}
	c.Status.Phase = corev1.ClaimPending
	if v.ephemeral {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	}
	d.s.PersistentVolumeClaims = append(d.s.PersistentVolumeClaims, c)
	switch {
	case home == nil && d.chance(40):
		c.DeletionTimestamp = ptr.To(metav1.NewTime(d.s.Now))
		c.Finalizers = []string{"kubernetes.io/pvc-protection"}
		return
	case home == nil && d.chance(40):
		c.Spec.VolumeName, c.Status.Phase = "vanished", corev1.ClaimLost
		c.Annotations = map[string]string{bindCompleted: "yes"}
		return
	case home == nil && v.class == nowClass && d.chance(6):
		return
	case home == nil && isMadeByHand(v.class) && d.chance(3):
		d.unclaimed(c, v.class)
		return
	case home == nil && v.class != nowClass && !isMadeByHand(v.class) && !d.chance(3):
		return
	}
	pv := d.volume("pv-"+pod.Namespace+"-"+name, driverOf(v.class), v.class, c.Spec.AccessModes)
	d.reach(pv, v, home)
	pv.Status.Phase = corev1.VolumeBound
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	c.Spec.VolumeName, c.Status.Phase = pv.Name, corev1.ClaimBound
	c.Annotations = map[string]string{bindCompleted: "yes"}
	d.s.PersistentVolumes = append(d.s.PersistentVolumes, pv)
}

// unclaimed creates, for some claims without a volume, a matching volume. Several claims may match it.
func (d *drawing) unclaimed(c *corev1.PersistentVolumeClaim, class string) {
	if len(d.s.Nodes) == 0 || d.chance(5) {
		return
	}
	pv := d.volume("free-"+c.Namespace+"-"+c.Name, "", class, c.Spec.AccessModes)
	if class == localClass {
		affine(pv, corev1.LabelHostname, pick(d, d.s.Nodes...).Labels[corev1.LabelHostname])
	} else {
		affine(pv, corev1.LabelTopologyZone, pick(d, d.zones...))
	}
	pv.Status.Phase = corev1.VolumeAvailable
	d.s.PersistentVolumes = append(d.s.PersistentVolumes, pv)
}

func isMadeByHand(class string) bool { return class == localClass || class == spareClass }

func driverOf(class string) string {
	switch class {
	case fileClass:
		return fileDriver
	case localClass, spareClass:
		return ""
	}
	return diskDriver
}

// volume returns a volume that all nodes reach.
func (d *drawing) volume(name, driver, class string, modes []corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: d.meta("", name)}
	pv.Spec = corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: mebi(1024)}, AccessModes: modes, StorageClassName: class,
		VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
	}
	if driver == "" {
		pv.Spec.Local = &corev1.LocalVolumeSource{Path: "/mnt/disk"}
	} else {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
	}
	return pv
}

// reach limits the nodes that reach the volume: one node, the home's zone, a random zone, two zones, or no limit. Old volumes have labels for
// that, which only the plugin VolumeZone reads.
func (d *drawing) reach(pv *corev1.PersistentVolume, v *volumePlan, home *drawnNode) {
	zone := pick(d, d.zones...)
	if home != nil {
		zone = home.Labels[corev1.LabelTopologyZone]
	}
	if v.class == localClass {
		// No volume is on the disk of a deleted host. In that case the engine deliberately differs from kube-scheduler, and plans as if the volume
		// were created anew.
		switch {
		case home != nil:
			affine(pv, corev1.LabelHostname, home.Labels[corev1.LabelHostname])
		case len(d.s.Nodes) > 0:
			affine(pv, corev1.LabelHostname, pick(d, d.s.Nodes...).Labels[corev1.LabelHostname])
		}
		return
	}
	if v.class == fileClass || zone == "" {
		return
	}
	other := pick(d, d.zones...)
	zones := slices.Compact(slices.Sorted(slices.Values([]string{zone, other})))
	switch d.IntN(8) {
	case 0, 1, 2:
		pv.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	case 3:
		pv.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: strings.Join(zones, "__")}
	case 4:
		affine(pv, corev1.LabelTopologyZone, zones...)
	default:
		affine(pv, corev1.LabelTopologyZone, zone)
	}
}

func affine(pv *corev1.PersistentVolume, key string, values ...string) {
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}}
}
