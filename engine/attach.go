package engine

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/capacity"
)

// attachPrefix starts the names of the resources that volumes of a driver are counted as.
const attachPrefix = "attachable-volumes-"

// attachResource is the resource that stands for one more volume of the CSI driver on a node.
func attachResource(driver string) corev1.ResourceName {
	return corev1.ResourceName(attachPrefix + driver)
}

// attachmentOf is how the claim's volume is or will be attached; without a driver if that is not known, or if nothing is
// attached. A volume that does not exist yet goes by the name of its claim.
func (v *volumes) attachmentOf(claim *corev1.PersistentVolumeClaim) attachment {
	if volume := v.persistent[claim.Spec.VolumeName]; claim.Spec.VolumeName != "" && volume != nil {
		return volumeAttachment(volume)
	}
	class := v.classes[claimClass(claim)]
	if class == nil {
		return attachment{}
	}
	return attachment{driver: provisionerDriver(class.Provisioner), handle: claim.Namespace + "/" + claim.Name}
}

// attached lists the volumes of the pod that count against some driver's limit, by driver and handle, none of them twice;
// what the pod takes from stocks of free volumes is counted in the same way.
// Claims that are missing are passed over.
func (v *volumes) attached(pod *corev1.Pod) []attachment {
	if len(v.limited) == 0 {
		return nil
	}
	var out []attachment
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		a := inlineAttachment(&volume.VolumeSource)
		if facts, _ := v.factsOf(pod, volume); facts != nil {
			a = facts.attach
			out = append(out, facts.taken...)
		}
		if v.limited[a.driver] && a.handle != "" {
			out = append(out, a)
		}
	}
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b attachment) int {
			return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.handle, b.handle))
		})
		out = slices.Compact(out)
	}
	return out
}

// requests counts, as resources, the volumes that the pod will attach wherever it goes: those that no other pod uses.
func (p *podVolumes) requests() corev1.ResourceList {
	if len(p.Attach) == len(p.Shared) {
		return nil
	}
	list := corev1.ResourceList{}
	for _, a := range p.Attach {
		if !slices.Contains(p.Shared, a) {
			addList(list, corev1.ResourceList{attachResource(a.driver): *resource.NewQuantity(1, resource.DecimalSI)})
		}
	}
	return list
}

// nodeVolumes is what is attached to a machine, and how much more can be.
type nodeVolumes struct {
	limits map[string]int
	inUse  map[attachment]bool // by pods of the node
	others map[attachment]bool // attached, or attaching, without a pod
	used   map[string]int      // by pods, and volumes that are attached or attaching without one
}

// attachedTo counts what is attached to the node with these pods, and what is still attaching. A node takes as many
// volumes of a driver as its CSINode says, any number if that does not say; expected, which may be nil, stands in for
// drivers that a node which is still starting has not reported yet.
func (v *volumes) attachedTo(node string, expected *InstanceType, pods []*corev1.Pod) nodeVolumes {
	n := nodeVolumes{limits: v.limitsOf(node, expected)}
	if len(n.limits) == 0 {
		return n
	}
	n.inUse, n.others, n.used = map[attachment]bool{}, map[attachment]bool{}, map[string]int{}
	for _, pod := range pods {
		for _, a := range v.attached(pod) {
			if !n.inUse[a] {
				n.inUse[a] = true
				n.used[a.driver]++
			}
		}
	}
	for _, va := range v.attachments[node] {
		a, ok := v.attachmentBehind(va)
		if ok && !n.inUse[a] && !n.others[a] {
			n.others[a] = true
			n.used[a.driver]++
		}
	}
	return n
}

func (v *volumes) limitsOf(node string, expected *InstanceType) map[string]int {
	limits := map[string]int{}
	maps.Copy(limits, v.ofTypes.all(expected))
	for _, st := range v.stocks {
		limits[st.name] = st.hosts[v.hostnameOf[node]]
	}
	csi := v.csiNodes[node]
	if csi == nil {
		return limits
	}
	for _, d := range csi.Spec.Drivers {
		delete(limits, d.Name)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return limits
}

// attachmentBehind reads a VolumeAttachment; only those of CSI volumes that exist count.
func (v *volumes) attachmentBehind(va *storagev1.VolumeAttachment) (attachment, bool) {
	name := va.Spec.Source.PersistentVolumeName
	if name == nil || va.Spec.Attacher == "" {
		return attachment{}, false
	}
	volume := v.persistent[*name]
	if volume == nil || volume.Spec.CSI == nil {
		return attachment{}, false
	}
	return attachment{va.Spec.Attacher, volume.Spec.CSI.VolumeHandle}, true
}

// free is how many more volumes of the driver the node takes; below zero if there are too many, capacity.Most if there is
// no limit.
func (n *nodeVolumes) free(driver string) int64 {
	limit, ok := n.limits[driver]
	if !ok {
		return capacity.Most
	}
	return int64(limit - n.used[driver])
}

// freeOn is the same for a new machine of the type.
func (v *volumes) freeOn(t *InstanceType, driver string) int64 {
	limit, ok := v.ofTypes.of(t, driver)
	if !ok && !isStock(driver) {
		return capacity.Most
	}
	return int64(limit)
}
