package provisioning

import (
	"tenon.sh/engine"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// volumeTaken names the claim of the class whose volume the plan has given to another claim.
func (an *answer) volumeTaken(c *podClass, world *topology.World) engine.Reason {
	for _, s := range c.Volumes.Singles {
		_, others := an.InterPod.SingleMarks(s)
		for _, place := range an.InterPod.List {
			if _, ok := world.Allows(&topology.Rules{Rejects: others}, place); !ok {
				return engine.Reason{Code: engine.VolumeNotReady, Key: s.Claim.String(), Have: volume.NoVolumeFree(volume.VolumeClass(an.Constraints.Volumes.Persistent[s.Volume]))}
			}
		}
	}
	return engine.Reason{}
}

// noVolumeLeft returns a reason if the plan has given away the last volumes that the class could use.
func (an *answer) noVolumeLeft(c *podClass, world *topology.World) engine.Reason {
	if len(c.Volumes.Takes) == 0 {
		return engine.Reason{}
	}
	rules := &topology.Rules{Takes: an.InterPod.Takes(c.Volumes.Takes)}
	for _, place := range an.InterPod.List {
		if _, ok := world.Allows(rules, place); ok {
			return engine.Reason{}
		}
	}
	from := c.Volumes.Takes[0].From
	if from.Makes {
		return engine.Reason{Code: engine.VolumeNotReady, Have: "all free volumes that suit are taken, and its storage class " + from.Class + " makes new ones elsewhere only"}
	}
	return engine.Reason{Code: engine.VolumeNotReady, Have: volume.NoVolumeFree(from.Class)}
}
