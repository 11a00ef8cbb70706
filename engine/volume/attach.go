package volume

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
)

// attachmentOf returns the attachment of the claim's volume; without a driver if it is unknown or nothing is attached. A volume that does not
// exist yet has its claim's name as handle.
func (r *Reader) attachmentOf(claim *corev1.PersistentVolumeClaim) Attachment {
	if volume := r.Persistent[claim.Spec.VolumeName]; claim.Spec.VolumeName != "" && volume != nil {
		return volumeAttachment(volume)
	}
	class := r.classes[claimClass(claim)]
	if class == nil {
		return Attachment{}
	}
	return Attachment{Driver: provisionerDriver(class.Provisioner), handle: claim.Namespace + "/" + claim.Name}
}

// Attached lists the volumes that a CSI driver attaches for the pod, by driver and handle, without duplicates. It skips missing claims.
func (r *Reader) Attached(pod *corev1.Pod) []Attachment {
	var out []Attachment
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		a := inlineAttachment(&volume.VolumeSource)
		if claim, _, _ := r.ClaimOf(pod, volume); claim != nil {
			a = r.attachmentOf(claim)
		}
		if a.Driver != "" && a.handle != "" {
			out = append(out, a)
		}
	}
	return sortedAttachments(out)
}

func sortedAttachments(list []Attachment) []Attachment {
	if len(list) > 1 {
		slices.SortFunc(list, func(a, b Attachment) int {
			return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.handle, b.handle))
		})
		list = slices.Compact(list)
	}
	return list
}

// attached lists the pod's volumes that count against a driver's limit. Volumes that the pod takes from local pools count in the same way.
func (v *Volumes) attached(pod *corev1.Pod) []Attachment {
	if len(v.limited) == 0 {
		return nil
	}
	out := slices.DeleteFunc(v.Attached(pod), func(a Attachment) bool { return !v.limited[a.Driver] })
	if len(v.stocks) == 0 {
		return out
	}
	for i := range pod.Spec.Volumes {
		if facts, _ := v.factsOf(pod, &pod.Spec.Volumes[i]); facts != nil {
			out = append(out, facts.taken...)
		}
	}
	return sortedAttachments(out)
}

// NodeVolumes holds the attached volumes of a machine, and its limits.
type NodeVolumes struct {
	Limits map[string]int
	InUse  map[Attachment]bool // by pods of the node
	Others map[Attachment]bool // attached, or attaching, without a pod
	Used   map[string]int      // InUse and Others together, by driver
}

// AttachedTo counts the volumes that are attached to the node with these pods, or are still attaching.
func (v *Volumes) AttachedTo(node string, expected *engine.InstanceType, pods []*corev1.Pod) NodeVolumes {
	n := NodeVolumes{Limits: v.LimitsOf(node, expected)}
	if len(n.Limits) == 0 {
		return n
	}
	n.InUse, n.Others, n.Used = map[Attachment]bool{}, map[Attachment]bool{}, map[string]int{}
	for _, pod := range pods {
		for _, a := range v.attached(pod) {
			if !n.InUse[a] {
				n.InUse[a] = true
				n.Used[a.Driver]++
			}
		}
	}
	for _, va := range v.attachments[node] {
		a, ok := v.AttachmentBehind(va)
		if ok && !n.InUse[a] && !n.Others[a] {
			n.Others[a] = true
			n.Used[a.Driver]++
		}
	}
	return n
}

func (v *Volumes) LimitsOf(node string, expected *engine.InstanceType) map[string]int {
	limits := v.ofTypes.On(v.csiNodes[node], expected)
	for _, st := range v.stocks {
		limits[st.name] = st.hosts[v.hostnameOf[node]]
	}
	return limits
}

// AttachmentBehind returns the attachment of a VolumeAttachment; only existing CSI volumes count.
func (r *Reader) AttachmentBehind(va *storagev1.VolumeAttachment) (Attachment, bool) {
	name := va.Spec.Source.PersistentVolumeName
	if name == nil || va.Spec.Attacher == "" {
		return Attachment{}, false
	}
	volume := r.Persistent[*name]
	if volume == nil || volume.Spec.CSI == nil {
		return Attachment{}, false
	}
	return Attachment{va.Spec.Attacher, volume.Spec.CSI.VolumeHandle}, true
}

// Free returns how many more volumes of the driver the node can attach; below zero if there are too many, capacity.Most without a limit.
func (n *NodeVolumes) Free(driver string) int64 {
	limit, ok := n.Limits[driver]
	if !ok {
		return capacity.Most
	}
	return int64(limit - n.Used[driver])
}

// FreeOn returns how many volumes of the driver a new machine of the type can attach, like Free.
func (v *Volumes) FreeOn(t *engine.InstanceType, driver string) int64 {
	limit, ok := v.ofTypes.of(t, driver)
	if !ok && !isLocalPool(driver) {
		return capacity.Most
	}
	return int64(limit)
}
