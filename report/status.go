package report

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// StatusObserver counts the changes of objects' conditions, and publishes events about them.
type StatusObserver struct {
	recorder *Recorder
	clock    clock.PassiveClock
	kinds    map[string]kindMetrics
}

// kindMetrics are the metrics of one kind.
type kindMetrics struct {
	transitions *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	termination *prometheus.HistogramVec
}

// NewStatusObserver declares the metrics of the given kinds, in lower case, to a registry.
func NewStatusObserver(registry prometheus.Registerer, recorder *Recorder, clock clock.PassiveClock, kinds ...string) *StatusObserver {
	f := factory{registry}
	o := &StatusObserver{recorder: recorder, clock: clock, kinds: map[string]kindMetrics{}}
	for _, kind := range kinds {
		name := "operator_" + kind
		o.kinds[kind] = kindMetrics{
			transitions: f.counters(name+"_status_condition_transitions_total", "Changes of the status of conditions.", "type", "status", "reason"),
			durations: f.histograms(name+"_status_condition_transition_seconds", "Time from one change of a condition's status to the next.",
				doubling(0.5, 15), "type", "status", "to_status"),
			termination: f.histograms(name+"_termination_duration_seconds", "Time from the deletion of an object until it is gone.", doubling(0.5, 15)),
		}
	}
	return o
}

// Handler returns a handler that observes one kind. If tell is true, its changes also make events.
func (o *StatusObserver) Handler(kind string, tell bool) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			a, ok := before.(client.Object)
			b, also := after.(client.Object)
			if ok && also {
				o.changed(kind, tell, a, b)
			}
		},
		DeleteFunc: func(last any) {
			if object, ok := last.(client.Object); ok && object.GetDeletionTimestamp() != nil {
				took := o.clock.Since(object.GetDeletionTimestamp().Time)
				o.kinds[kind].termination.WithLabelValues().Observe(max(took, 0).Seconds())
				if _, isClaim := last.(*v1.NodeClaim); isClaim && tell {
					o.recorder.Publish(Event{Object: object, Reason: Finalized, Message: "finalizer " + v1.TerminationFinalizer + " is gone"})
				}
			}
		},
	}
}

func (o *StatusObserver) changed(kind string, tell bool, before, after client.Object) {
	old := map[string]metav1.Condition{}
	for _, c := range conditionsOf(before) {
		old[c.Type] = c
	}
	for _, c := range conditionsOf(after) {
		was, known := old[c.Type]
		if !known {
			// A condition that begins as False is news, for example if the class of a pool does not exist. It counts as unknown before.
			was = metav1.Condition{Status: metav1.ConditionUnknown, LastTransitionTime: after.GetCreationTimestamp()}
		}
		if was.Status == c.Status || !known && c.Status != metav1.ConditionFalse {
			continue
		}
		m := o.kinds[kind]
		m.transitions.WithLabelValues(c.Type, string(c.Status), c.Reason).Inc()
		m.durations.WithLabelValues(c.Type, string(was.Status), string(c.Status)).
			Observe(max(c.LastTransitionTime.Sub(was.LastTransitionTime.Time), 0).Seconds())
		if tell {
			o.recorder.Publish(transition(after, was, c))
		}
	}
}

func transition(object client.Object, was, is metav1.Condition) Event {
	text := fmt.Sprintf("condition %s went from %s to %s (%s)", is.Type, was.Status, is.Status, is.Reason)
	if is.Message != "" {
		text += ": " + is.Message
	}
	return Event{Object: object, Reason: is.Type, Message: text, Key: string(is.Status), Every: 10 * time.Second}
}

func conditionsOf(o client.Object) []metav1.Condition {
	if c, ok := o.(v1.Conditioned); ok {
		return c.GetConditions()
	}
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	var out []metav1.Condition
	for _, c := range node.Status.Conditions {
		out = append(out, metav1.Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastTransitionTime: c.LastTransitionTime,
		})
	}
	return out
}
