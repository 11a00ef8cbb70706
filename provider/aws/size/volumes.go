package size

// EBSDriver is the name of the CSI driver that attaches volumes of EBS.
const EBSDriver = "ebs.csi.aws.com"

const (
	// usualVolumes is how many volumes a machine takes of which EC2 does not say it; further interfaces take places of them.
	usualVolumes = 27
	// mostXen is how many a machine with Xen takes before it may fail to boot, whatever EC2 accepts.
	mostXen = 39
	// mostShared is how many places there are on any machine whose interfaces and volumes share them.
	mostShared = 31
)

// SetVolumes notes how many volumes EC2 says the type takes, 0 if it does not say. EC2 calls places shared that cannot be: those
// of Xen, where only volumes have names of their kind, and of newer machines without a hypervisor, which have more than the bus
// that is shared.
func (f *Figures) SetVolumes(most int, dedicated bool) {
	f.Volumes, f.Dedicated = most, dedicated || most > mostShared
	if f.Hypervisor == "xen" {
		f.Volumes = min(most, mostXen)
	}
}

// AttachLimit is how many volumes of pods a node takes by what its CSI driver works out when it starts, and how many of these
// places go to network interfaces that the machine may get later.
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
