package provisioning

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
)

// Trial holds the assumptions of a compilation that differ from the snapshot: some machines are leaving although the snapshot does not show it.
type Trial struct {
	Gone inventory.MachineSet // machines whose pods need another place
	Left inventory.MachineSet // machines chosen for removal before; their pods have a place already, or get none here
	// Held is true if pods of the machines in Gone move even if something protects them.
	Held   bool
	Closed inventory.MachineSet // machines that take no pods
	Guards *budget.Guards       // trials share it, because the pods that it covers do not change
	// AssignedNodes holds, for pods that need a place anyway, the Machine.Number of the machine that will run each. Pods that are not listed are left
	// out.
	AssignedNodes map[*corev1.Pod]int
	// Also lists machines that are not removed although their pods are planned for, in classes.
	Also inventory.MachineSet
	// Nominations holds, for pods of machines in Gone, the Machine.Number of the machine that each should preferably use.
	Nominations map[*corev1.Pod]int
	// Batches divides the replacements of many machines: no new machine replaces machines of two batches.
	Batches map[string]int // the batch of each node
	// Freed is a reservation with one slot more than in the snapshot; empty for none.
	Freed string
	// Begun are launches of the same plan: quotas and reservations have no more room for them.
	Begun []engine.Launch
}

// counts reports whether the trial needs only the number of equal pods. The order of pods then does not matter.
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

// assignedNodeOf returns the machine to which the trial nominates the pod. It returns nil if there is none that takes pods.
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

// loseDisks drops the disks inside machines that the trial removes, because these disks are deleted with their machines.
func (rd *Reading) loseDisks() {
	if rd.trial == nil {
		return
	}
	for _, m := range rd.Machines {
		if m.Supposed {
			delete(rd.Constraints.Volumes.Hostnames, m.Labels[corev1.LabelHostname])
		}
	}
}

func (t *Trial) closes(m *inventory.Machine) bool { return t != nil && t.Closed.Has(m) }

// sortTrial sets, for a trial, the machines on which the pods that need a place anyway are expected. It returns the pods that leave machines in Gone.
func (rd *Reading) sortTrial() []*corev1.Pod {
	for pod, number := range rd.trial.AssignedNodes {
		if m := rd.Machines[number]; !m.Leaving && !rd.trial.closes(m) {
			m.Expected = append(m.Expected, pod)
		}
	}
	rd.recheckExpected() // pods that do not fit are left out
	var waiting []*corev1.Pod
	for _, m := range rd.Machines {
		if rd.trial.Gone.Has(m) {
			waiting = append(waiting, rd.LeavingPods(m)...)
		}
	}
	return waiting
}

// CompareNames orders machines by name.
func CompareNames(a, b *inventory.Machine) int {
	return inventory.CompareMachineNames(a.MachineInfo, b.MachineInfo)
}
