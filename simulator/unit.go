package simulator

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// unit is one pod of the world, with the world's own data about it.
type unit struct {
	pod   *corev1.Pod
	load  *load // its workload; nil for a pod that nothing replaces
	shape *shape
	seat  *seat // its node; nil without one
	need  amounts
	index int   // its index among the pods of its workload
	stay  *stay // nil for pods of no trace
	// version is the version of its workload.
	version int
	// number is the index of the pod in the order in which pods were added to the world.
	number int
	ready  bool
	ended  bool // it is gone: later events do not apply to it
	tried  bool // the scheduler has found no node for it
}

// key returns the pod's UID, because a later pod may have the same name.
func (u *unit) key() string { return string(u.pod.UID) }

func (u *unit) leaving() bool { return u.pod.DeletionTimestamp != nil }

// amounts are requests, in thousandths of cores and units of everything else, in the order of a resources.
type amounts []int64

// resources maps each resource that pods or nodes have named to its index.
type resources map[corev1.ResourceName]int

func (r resources) amountsIn(list corev1.ResourceList) amounts {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if _, known := r[name]; !known {
			r[name] = len(r)
		}
	}
	out := make(amounts, len(r))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[r[name]] = q.MilliValue()
		} else {
			out[r[name]] = q.Value()
		}
	}
	return out
}

// add adds other n times.
func (a *amounts) add(other amounts, n int64) {
	if more := len(other) - len(*a); more > 0 { // resources that were added later
		*a = append(*a, make(amounts, more)...)
	}
	for i, amount := range other {
		(*a)[i] += n * amount
	}
}

// of returns the amount of the resource with the index.
func (a amounts) of(i int) int64 {
	if i < len(a) {
		return a[i]
	}
	return 0
}

func isGated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// grace returns the termination grace period of the pod.
func (u *unit) grace() time.Duration {
	if s := u.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}
