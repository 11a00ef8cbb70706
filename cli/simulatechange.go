package cli

import (
	"io"
	"sync/atomic"
	"time"

	"tenon.sh/engine"
)

// What the two worlds of --change are called.
const (
	unchangedSetting = "unchanged"
	changedSetting   = "changed"
)

// changed are the settings of --change: the cluster as it is, and with the objects of the file.
func (o *simulateOptions) changed(s *engine.Snapshot, stdin io.Reader, notes *terminal) ([]setting, error) {
	change, err := readChange(o.change, s, nil, stdin)
	if err != nil {
		return nil, err
	}
	notes.notes(change.Notes)
	return []setting{{name: unchangedSetting, cluster: s}, {name: changedSetting, cluster: change.Snapshot}}, nil
}

// emptied is the cluster without its pods and nodes, and without what is known or wanted for them alone.
func emptied(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.Pods, out.Nodes, out.NodeClaims, out.EarlierPasses = nil, nil, nil, nil
	out.PersistentVolumes, out.PersistentVolumeClaims, out.CSINodes, out.VolumeAttachments = nil, nil, nil, nil
	out.ResourceClaims, out.ResourceSlices = nil, nil
	out.PodGroups, out.ProvisioningRequests, out.ScaleUps = nil, nil, nil
	return &out
}

// hoursOf is how many hours of a simulation there are, the last one perhaps not a whole one.
func hoursOf(length time.Duration) int { return int((length + time.Hour - 1) / time.Hour) }

// showHours is called after each simulated hour, by several at once, and shows it.
func showHours(p *progress, all int) func() {
	const form = "simulated %d of %d hours"
	var done atomic.Int64
	p.say(form, 0, all)
	return func() { p.say(form, done.Add(1), all) }
}
