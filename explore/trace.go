package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// trace records a run step by step. A nil trace records nothing.
type trace struct {
	began time.Time

	mu    sync.Mutex // guards the fields below, because a pass may log while the run goes on
	now   time.Time  // a copy of the time, because callers within the run's clock cannot read that clock
	lines []string
}

func (t *trace) add(format string, args ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("%9.3fs ", t.now.Sub(t.began).Seconds())+fmt.Sprintf(format, args...))
}

// moves sets the time.
func (t *trace) moves(to time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = to
}

func (t *trace) text() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// describe describes a change of an object.
func describe(s *shelf, c change) string {
	name := s.name + " " + strings.TrimPrefix(keyOf(c.object()), "/")
	if c.new == nil {
		return name + " is gone"
	}
	text := name + " is now " + about(c.new)
	if c.old == nil {
		text = name + " is new: " + about(c.new)
	}
	return text
}

// about returns the relevant fields of an object.
func about(o metav1.Object) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if t := o.GetDeletionTimestamp(); t != nil {
		say("deleting since or until %s", t.Format("15:04:05"))
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		say("held")
	}
	switch o := o.(type) {
	case *corev1.Pod:
		say("%s node=%q nominated=%q", o.Status.Phase, o.Spec.NodeName, o.Status.NominatedNodeName)
		for _, c := range o.Status.Conditions {
			say("%s=%s", c.Type, c.Status)
		}
		if o.Annotations[v1.DoNotDisruptAnnotationKey] != "" {
			say("do-not-disrupt")
		}
		say("%s", o.Spec.Containers[0].Resources.Requests.Cpu())
	case *corev1.Node:
		for _, t := range o.Spec.Taints {
			say("taint %s", t.Key)
		}
		for _, c := range o.Status.Conditions {
			say("%s=%s", c.Type, c.Status)
		}
		say("cpu=%s", o.Status.Allocatable.Cpu())
	case *v1.NodeClaim:
		for _, c := range o.Status.Conditions {
			if c.Type != v1.ConditionReady {
				say("%s=%s(%s)", c.Type, c.Status, c.Reason)
			}
		}
		say("machine=%q pods=%s", o.Status.ProviderID, o.Annotations["tenon.sh/planned-pods"])
	case *corev1.Event:
		say("%s %s: %s: %s", o.InvolvedObject.Kind, o.InvolvedObject.Name, o.Reason, o.Message)
	case *resourcev1.ResourceClaim:
		say("asks for %d", o.Spec.Devices.Requests[0].Exactly.Count)
		if a := o.Status.Allocation; a != nil {
			for _, r := range a.Devices.Results {
				say("has %s of %s", r.Device, r.Pool)
			}
		}
	case *resourcev1.ResourceClaimTemplate:
		say("asks for %d", o.Spec.Spec.Devices.Requests[0].Exactly.Count)
	case *resourcev1.ResourceSlice:
		say("%d devices, one of %d", len(o.Spec.Devices), o.Spec.Pool.ResourceSliceCount)
	case *v1.NodePool:
		for _, c := range o.Status.Conditions {
			say("%s=%s", c.Type, c.Status)
		}
	}
	return strings.Join(parts, " ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
