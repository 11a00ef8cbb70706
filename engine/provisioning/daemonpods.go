package provisioning

import (
	"slices"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/topology"
)

// meetDaemons collects the rules that DaemonSets' pods have about other pods.
func (p *Problem) meetDaemons() {
	for i := range p.daemons {
		d := &p.daemons[i]
		d.Info = p.Pods.Cache.InfoOf(d.Pod)
		d.Apart = p.Constraints.AntiAffinityOf(d.Info)
		p.InterPod.AddRunning(p.Constraints, d.Info)
		d.Near = p.Constraints.Selectors.AffinityOf(d.Pod).Required
		for _, t := range d.Near {
			p.InterPod.SelectorOf(t.Selector)
		}
	}
}

// judgeDaemons finds out which DaemonSets' pods keep each other off machines, or have to run beside each other.
func (p *Problem) judgeDaemons() {
	if len(p.InterPod.Layout.Residents) == 0 {
		return
	}
	c := p.InterPod
	for i := range p.daemons {
		d := &p.daemons[i]
		for j := range p.daemons {
			e := &p.daemons[j]
			if i != j && (d.Excludes(c, e) || e.Excludes(c, d) || slices.ContainsFunc(d.Ports, func(held kube.HostPort) bool {
				return slices.ContainsFunc(e.Ports, held.Collides)
			})) {
				d.Rivals = append(d.Rivals, j)
			}
			if i != j && len(d.Near) > 0 && len(e.Near) == 0 && d.Follows(c, e) {
				d.Leaders = append(d.Leaders, j)
			}
		}
		d.Doubtful = len(d.Near) > 0 && len(d.Leaders) == 0 || d.Spreads() || c.KeptOut(d)
	}
}

// nobody, as an argument of Place, adds no residents to a machine, because the pods of an existing machine are counted already.
func nobody(int) int32 { return topology.Nowhere }

// expectDaemons counts the residents that the machine will get and does not have yet. free is the room that all DaemonSets' pods leave.
func (p *Problem) expectDaemons(m *inventory.Machine, at *constraints.NodeCounts, free capacity.Vector) {
	for _, d := range p.pending {
		if !d.Resident || p.isKeptOff(m, d) {
			continue
		}
		certain, rivaled := !d.Doubtful && !free.Overdrawn(p.Names.Vector(d.Requests)) && m.SurelyRuns(&d.Daemon, p.universe), false
		for _, other := range p.pending {
			if slices.ContainsFunc(d.Rivals, func(i int) bool { return &p.daemons[i] == other }) && other.Priority >= d.Priority {
				rivaled = true
			}
		}
		if len(d.Leaders) > 0 && !slices.ContainsFunc(d.Leaders, func(i int) bool { return p.leads(m, &p.daemons[i]) }) {
			certain = false
		}
		p.InterPod.Expects(at, &p.InterPod.Layout.Residents[d.Number], certain && !rivaled)
	}
}

// leads reports whether the machine has the DaemonSet's pod, or will surely get it.
func (p *Problem) leads(m *inventory.Machine, d *constraints.DaemonSet) bool {
	return slices.Contains(m.Pods.DaemonKeys(), d.Key) || slices.Contains(p.pending, d) && !d.Doubtful && len(d.Rivals) == 0 && m.SurelyRuns(&d.Daemon, p.universe)
}

// isKeptOff reports whether pods that stay on the machine keep the DaemonSet's pod off it.
func (p *Problem) isKeptOff(m *inventory.Machine, d *constraints.DaemonSet) bool {
	i := p.InterPod
	if d.Apart != nil {
		for _, t := range d.Apart.Required {
			for _, k := range m.Pods.Kinds {
				if k.N > k.Ending && slices.Contains(k.Kind.Match(i.ID, i.Index), i.Selector[t.Selector]) {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(m.Pods.Particular, func(info *inventory.PodInfo) bool {
		a := p.Constraints.AntiAffinityOf(info)
		return a != nil && !info.Ending && slices.ContainsFunc(a.Required, func(t kube.AffinityTerm) bool { return d.IsSelected(i, t) })
	})
}
