package provisioning

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
)

// Trial is what compile takes for granted beside the snapshot: some machines are leaving although nothing in the cluster
// says so.
type Trial struct {
	Gone inventory.MachineSet // their pods need another place
	Left inventory.MachineSet // their pods have one already, or none
	// Held is true if pods of gone machines move even if something protects them.
	Held   bool
	Closed inventory.MachineSet // these take no pods
	Guards *budget.Guards       // what covers pods does not change from trial to trial
	// AssignedNodes are the machines, by number, where pods are to run that need a place anyway; those that are not listed are left out of
	// the trial.
	AssignedNodes map[*corev1.Pod]int
	// Also are machines that stay; their pods are to be planned for all the same, in classes.
	Also inventory.MachineSet
	// Nominations are the machines, by number, where pods of gone machines had better go.
	Nominations map[*corev1.Pod]int
	// Batches keeps apart the machines that are bought in the place of many: none replaces machines of two batches.
	Batches map[string]int // by node
	// Freed is a reservation that is to have one slot more; empty for none.
	Freed string
	// Begun are machines that the same plan starts already: quotas and reservations have no more room for them.
	Begun []engine.Launch
}

// counts reports whether the trial is only about which pods are alike: then it does not matter who comes first.
func (t *Trial) counts() bool { return t != nil && t.Also != nil }

func (t *Trial) batchOf(pod *corev1.Pod) int {
	if t == nil || len(t.Batches) == 0 {
		return 0
	}
	if _, hinted := t.Nominations[pod]; hinted {
		return 0
	}
	return t.Batches[pod.Spec.NodeName]
}

// assignedNodeOf is the machine that a hint names; nil for none that takes pods.
func (t *Trial) assignedNodeOf(pod *corev1.Pod, hosts []*inventory.Machine) *inventory.Machine {
	number, ok := t.Nominations[pod]
	if !ok || t.closes(hosts[number]) || hosts[number].Leaving {
		return nil
	}
	return hosts[number]
}

func (t *Trial) mark(hosts []*inventory.Machine) {
	if t == nil {
		return
	}
	for _, m := range hosts {
		if !m.Leaving && (t.Gone.Has(m) || t.Left.Has(m)) {
			m.Leaving, m.Supposed = true, true
		}
	}
}

// loseDisks counts on disks inside of machines no more that the trial takes away: they go with their machines, as those of a
// machine that is gone.
func (p *Problem) loseDisks() {
	if p.trial == nil {
		return
	}
	for _, m := range p.Machines {
		if m.Supposed {
			delete(p.Constraints.Volumes.Hostnames, m.Labels[corev1.LabelHostname])
		}
	}
}

func (t *Trial) closes(m *inventory.Machine) bool { return t != nil && t.Closed.Has(m) }

// sortTrial settles, for a trial, where the pods are expected that need a place anyway. It returns those that the trial is
// about.
func (p *Problem) sortTrial() []*corev1.Pod {
	for pod, number := range p.trial.AssignedNodes {
		if m := p.Machines[number]; !m.Leaving && !p.trial.closes(m) {
			m.Expected = append(m.Expected, pod)
		}
	}
	p.recheckExpected() // what does not fit after all is somebody else's affair
	var waiting []*corev1.Pod
	for _, m := range p.Machines {
		if p.trial.Gone.Has(m) {
			waiting = append(waiting, p.LeavingPods(m)...)
		}
	}
	return waiting
}

// CompareNames orders machines by name.
func CompareNames(a, b *inventory.Machine) int {
	return inventory.CompareMachineNames(a.MachineInfo, b.MachineInfo)
}
