package volume

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CSI drivers that replaced volume plugins of Kubernetes.
const (
	ebsDriver       = "ebs.csi.aws.com"
	gceDriver       = "pd.csi.storage.gke.io"
	azureDiskDriver = "disk.csi.azure.com"
	cinderDriver    = "cinder.csi.openstack.org"
	portworxDriver  = "pxd.portworx.com"
)

// provisionerDriver returns the CSI driver of a class's provisioner. It is empty for plugins whose volumes kube-scheduler does not count.
func provisionerDriver(provisioner string) string {
	switch provisioner {
	case "kubernetes.io/aws-ebs":
		return ebsDriver
	case "kubernetes.io/gce-pd":
		return gceDriver
	case "kubernetes.io/azure-disk":
		return azureDiskDriver
	case "kubernetes.io/cinder":
		return cinderDriver
	case "kubernetes.io/portworx-volume":
		return portworxDriver
	case "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume":
		return ""
	}
	return provisioner
}

// volumeAttachment returns the attachment of a PersistentVolume, for older kinds with the CSI driver that replaced them; without a driver if
// nothing is attached.
func volumeAttachment(p *corev1.PersistentVolume) Attachment {
	s := &p.Spec.PersistentVolumeSource
	switch {
	case s.CSI != nil:
		return Attachment{s.CSI.Driver, s.CSI.VolumeHandle}
	case s.AWSElasticBlockStore != nil:
		return ebsAttachment(s.AWSElasticBlockStore)
	case s.GCEPersistentDisk != nil:
		return Attachment{gceDriver, gceHandle(p)}
	case s.AzureDisk != nil:
		return Attachment{azureDiskDriver, s.AzureDisk.DataDiskURI}
	case s.Cinder != nil:
		return Attachment{cinderDriver, s.Cinder.VolumeID}
	case s.PortworxVolume != nil:
		return Attachment{portworxDriver, s.PortworxVolume.VolumeID}
	}
	return Attachment{}
}

// inlineAttachment returns the attachment of a volume that a pod names directly, like volumeAttachment.
func inlineAttachment(s *corev1.VolumeSource) Attachment {
	switch {
	case s.AWSElasticBlockStore != nil:
		return ebsAttachment(s.AWSElasticBlockStore)
	case s.GCEPersistentDisk != nil:
		return Attachment{gceDriver, gceDisk("zones", unspecified, s.GCEPersistentDisk.PDName)}
	case s.AzureDisk != nil:
		return Attachment{azureDiskDriver, s.AzureDisk.DataDiskURI}
	case s.Cinder != nil:
		return Attachment{cinderDriver, s.Cinder.VolumeID}
	case s.PortworxVolume != nil:
		return Attachment{portworxDriver, s.PortworxVolume.VolumeID}
	}
	return Attachment{}
}

// ebsAttachment removes the zone prefix of older IDs: aws://us-east-1a/vol-1.
func ebsAttachment(s *corev1.AWSElasticBlockStoreVolumeSource) Attachment {
	rest, ok := strings.CutPrefix(s.VolumeID, "aws://")
	if !ok {
		return Attachment{ebsDriver, s.VolumeID}
	}
	_, id, _ := strings.Cut(rest, "/")
	if id = strings.Trim(id, "/"); !strings.HasPrefix(id, "vol-") || strings.Contains(id, "/") {
		return Attachment{} // kube-scheduler cannot read such an ID either, and does not count the volume
	}
	return Attachment{ebsDriver, id}
}

const unspecified = "UNSPECIFIED"

// gceHandle names the disk with its zone or, if it has several, with its region.
func gceHandle(p *corev1.PersistentVolume) string {
	label := cmp.Or(p.Labels[corev1.LabelFailureDomainBetaZone], p.Labels[corev1.LabelTopologyZone], unspecified)
	name := p.Spec.GCEPersistentDisk.PDName
	first, _, several := strings.Cut(label, "__")
	if !several {
		return gceDisk("zones", first, name)
	}
	region := first
	if i := strings.LastIndexByte(first, '-'); i > 0 {
		region = first[:i]
	}
	return gceDisk("regions", region, name)
}

func gceDisk(kind, place, name string) string {
	return "projects/" + unspecified + "/" + kind + "/" + place + "/disks/" + name
}

// Disk is a disk that pods name directly, without a claim. Two pods with the same disk cannot share a node, unless both only read it.
type Disk struct {
	ID       string
	readOnly bool
}

func (d Disk) Conflicts(other Disk) bool { return d.ID == other.ID && !(d.readOnly && other.readOnly) }

// Disks holds the disks of the pods on a node. The zero value has none.
type Disks struct {
	used map[string]bool // by ID: whether some pod writes
}

// Add adds the disks of a pod.
func (u *Disks) Add(disks []Disk) {
	if u.used == nil && len(disks) > 0 {
		u.used = map[string]bool{}
	}
	for _, d := range disks {
		u.used[d.ID] = u.used[d.ID] || !d.readOnly
	}
}

// Conflict reports whether one of the disks conflicts with a disk in use.
func (u *Disks) Conflict(disks []Disk) bool {
	return slices.ContainsFunc(disks, func(d Disk) bool {
		writes, used := u.used[d.ID]
		return used && (writes || !d.readOnly)
	})
}

func CompareDisks(a, b Disk) int {
	if c := cmp.Compare(a.ID, b.ID); c != 0 || a.readOnly == b.readOnly {
		return c
	}
	if a.readOnly {
		return 1
	}
	return -1
}

// DisksOf lists the disks that the pod names. An EBS volume conflicts even if it is only read; a Ceph image is listed once for each monitor.
func DisksOf(pod *corev1.Pod) []Disk {
	var out []Disk
	for i := range pod.Spec.Volumes {
		switch s := &pod.Spec.Volumes[i].VolumeSource; {
		case s.AWSElasticBlockStore != nil:
			out = append(out, Disk{ID: "ebs " + s.AWSElasticBlockStore.VolumeID})
		case s.GCEPersistentDisk != nil:
			out = append(out, Disk{ID: "gce " + s.GCEPersistentDisk.PDName, readOnly: s.GCEPersistentDisk.ReadOnly})
		case s.ISCSI != nil:
			out = append(out, Disk{ID: "iscsi " + s.ISCSI.IQN, readOnly: s.ISCSI.ReadOnly})
		case s.RBD != nil:
			for _, monitor := range s.RBD.CephMonitors {
				out = append(out, Disk{ID: "rbd " + monitor + " " + s.RBD.RBDPool + " " + s.RBD.RBDImage, readOnly: s.RBD.ReadOnly})
			}
		}
	}
	slices.SortFunc(out, CompareDisks)
	return slices.Compact(out)
}
