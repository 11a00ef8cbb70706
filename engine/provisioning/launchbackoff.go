package provisioning

import (
	"slices"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/launchbackoff"
	"tenon.sh/engine/offering"
)

// knownBackoffs holds the backoffs that the first compilation of a call has read. The other compilations share them.
type knownBackoffs struct {
	pass uint64
	held int
	*constraints.LaunchBackoffs
}

// ReadBackoffs reads the failures recorded on the pools, and adds those of existing machines that do not take their pods.
func (rd *Reading) ReadBackoffs() *constraints.LaunchBackoffs {
	return rd.judge().Read()
}

func (rd *Reading) judge() *launchbackoff.Judge {
	return &launchbackoff.Judge{Snapshot: rd.Snapshot, Pods: rd.Pods, Machines: rd.Machines, Constraints: rd.Constraints, Gangs: rd.Gangs, Options: rd.opt}
}

// optionsOf returns the pool's options that are closed to the pods now. It returns nil if there is none. A retry may use the options whose wait is
// over.
func optionsOf(b *constraints.ShapeBackoff, p *offering.Pool, now time.Time, retry bool) bitset.Set {
	if b == nil {
		return nil
	}
	f := b.ByPool[p.NodePool.Name]
	most, limited := b.Most[p.NodePool.Name]
	if f != nil && retry && !now.Before(f.Until()) {
		f = nil
	}
	if f == nil && !limited {
		return nil
	}
	if f != nil && now.Before(f.Closed()) {
		return bitset.Full(len(p.Options))
	}
	out := bitset.New(len(p.Options))
	for i := range p.Options {
		if f != nil && slices.Contains(f.InstanceTypes, p.Options[i].Kind.Name) || limited && p.Options[i].Commitment == "" && p.Options[i].Offering.Price > most {
			out.Add(i)
		}
	}
	return out
}

// launchRefusal returns why the pool starts no machine for the class now: earlier ones did not take equal pods, or the available ones are too dear.
// Otherwise it returns the zero Reason.
func (an *answer) launchRefusal(pool *offering.Pool, c *podClass) engine.Reason {
	if c.Backoff == nil {
		return engine.Reason{}
	}
	f := c.Backoff.ByPool[pool.NodePool.Name]
	if f == nil || !an.Snapshot.Now.Before(f.Until()) {
		return c.Backoff.Dear[pool.NodePool.Name]
	}
	return engine.Reason{Code: engine.LaunchesBackedOff, Need: engine.ClockText(f.Until()), Have: f.Why}
}
