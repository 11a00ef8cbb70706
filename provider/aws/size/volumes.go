package size

// EBSDriver is the name of the CSI driver that attaches volumes of EBS.
const EBSDriver = "ebs.csi.aws.com"

const (
	// usualVolumes is the number of volumes of a machine for which EC2 gives none; further interfaces reduce it.
	usualVolumes = 27
	// mostXen is the largest number for a machine with Xen. With more, it may fail to boot although EC2 accepts them.
	mostXen = 39
	// mostShared is the largest number of places on a machine whose interfaces and volumes share them.
	mostShared = 31
)

// SetVolumes stores EC2's number of volumes of the type, 0 if EC2 gives none. EC2 calls some places shared that cannot be. On Xen, volumes
// have device names of their own. Newer machines without a hypervisor have more places than the shared bus.
func (f *Figures) SetVolumes(most int, dedicated bool) {
	f.Volumes, f.Dedicated = most, dedicated || most > mostShared
	if f.Hypervisor == "xen" {
		f.Volumes = min(most, mostXen)
	}
}

// AttachLimit returns the number of volumes of pods that a node's CSI driver computes when it starts, and how many of these places network
// interfaces may use later.
func (f *Figures) AttachLimit(s *Settings) (limit, shared int) {
	limit, dedicated := f.Volumes, f.Dedicated
	if limit == 0 {
		limit, dedicated = usualVolumes, false
	}
	limit -= s.Volumes
	if !dedicated {
		further := max(len(s.Interfaces), 1) - 1
		limit -= further
		for _, n := range f.Cards {
			shared += n
		}
		shared -= 1 + further
	}
	limit = max(limit, 1)
	return limit, min(max(shared, 0), limit-1)
}
