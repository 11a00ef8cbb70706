package cli

import (
	"io"
	"sync/atomic"
	"time"

	"tenon.sh/engine"
)

// The names of the two worlds of --change.
const (
	unchangedSetting = "unchanged"
	changedSetting   = "changed"
)

// changed returns the settings of --change: the unchanged cluster, and the cluster with the objects of the file.
func (o *simulateOptions) changed(s *engine.Snapshot, stdin io.Reader, notes *terminal) ([]setting, error) {
	change, err := readChange(o.change, s, nil, stdin)
	if err != nil {
		return nil, err
	}
	notes.notes(change.Notes)
	return []setting{{name: unchangedSetting, cluster: s}, {name: changedSetting, cluster: change.Snapshot}}, nil
}

// emptied returns the cluster without its pods and nodes, and without the objects that concern only these.
func emptied(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.Pods, out.Nodes, out.NodeClaims, out.EarlierPasses = nil, nil, nil, nil
	out.PersistentVolumes, out.PersistentVolumeClaims, out.CSINodes, out.VolumeAttachments = nil, nil, nil, nil
	out.ResourceClaims, out.ResourceSlices = nil, nil
	out.PodGroups, out.ProvisioningRequests, out.ScaleUps = nil, nil, nil
	return &out
}

// hoursOf returns the number of hours of a simulation. The last hour may be incomplete.
func hoursOf(length time.Duration) int { return int((length + time.Hour - 1) / time.Hour) }

// showHours returns a function that shows the progress. It is called after each simulated hour, also in parallel.
func showHours(p *progress, all int) func() {
	const form = "simulated %d of %d hours"
	var done atomic.Int64
	p.say(form, 0, all)
	return func() { p.say(form, done.Add(1), all) }
}
