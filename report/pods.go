package report

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// PodObserver measures how long pods take to be bound and to be ready. It keeps no list of pods: what it needs stands
// in each pod.
type PodObserver struct {
	clock   clock.PassiveClock
	bound   *prometheus.HistogramVec
	startup *prometheus.SummaryVec
}

// NewPodObserver declares the metrics to a registry.
func NewPodObserver(registry prometheus.Registerer, clock clock.PassiveClock) *PodObserver {
	o := &PodObserver{
		clock: clock,
		bound: factory{registry}.histograms("karpenter_pods_bound_duration_seconds", "Time from a pod's creation until a node was chosen.",
			decisionBuckets(), "dynamic_resources"),
		startup: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "karpenter_pods_startup_duration_seconds", Help: "Time from a pod's creation until it was ready.", Objectives: quantiles(),
		}, nil),
	}
	registry.MustRegister(o.startup)
	return o
}

// Handler observes pods.
func (o *PodObserver) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		a, ok := before.(*corev1.Pod)
		b, also := after.(*corev1.Pod)
		if ok && also {
			o.changed(a, b)
		}
	}}
}

func (o *PodObserver) changed(before, after *corev1.Pod) {
	age := max(o.clock.Since(after.CreationTimestamp.Time), time.Duration(0)).Seconds()
	if before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		o.bound.WithLabelValues(strconv.FormatBool(len(after.Spec.ResourceClaims) > 0)).Observe(age)
	}
	if before.Status.Phase == corev1.PodPending && !podReady(before) && podReady(after) {
		o.startup.WithLabelValues().Observe(age)
	}
}
