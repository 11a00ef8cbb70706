package report

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// mostJourneys bounds the pods that are followed; the figures leave out all other pods.
const mostJourneys = 10_000

// PodObserver measures the time until pods are decided on, bound and ready.
type PodObserver struct {
	clock   clock.PassiveClock
	bound   *prometheus.HistogramVec
	startup *prometheus.SummaryVec
	// From here on, the metrics include only pods that waited for this program.
	decision           *prometheus.HistogramVec
	provisioned        *prometheus.HistogramVec
	provisionedStartup *prometheus.HistogramVec

	mu       sync.Mutex // guards journeys
	journeys map[types.UID]*journey
}

// journey is the path of one pod from kube-scheduler's refusal until it is ready.
type journey struct {
	seen, decided time.Time // first seen waiting; first considered by a plan
	planned       time.Time // since when plans have a place for it
}

// NewPodObserver declares the metrics to a registry.
func NewPodObserver(registry prometheus.Registerer, clock clock.PassiveClock) *PodObserver {
	f := factory{registry}
	o := &PodObserver{
		clock: clock,
		bound: f.histograms("karpenter_pods_bound_duration_seconds", "Time from a pod's creation until a node was chosen.",
			decisionBuckets(), "dynamic_resources"),
		startup: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "karpenter_pods_startup_duration_seconds", Help: "Time from a pod's creation until it was ready.", Objectives: quantiles(),
		}, nil),
		decision: f.histograms("karpenter_pods_scheduling_decision_duration_seconds",
			"Time from the first sight of a pending pod until a plan included the pod.", decisionBuckets()),
		provisioned: f.histograms("karpenter_pods_provisioning_bound_duration_seconds",
			"Time from the first plan with a place for a pod until a node was chosen.", decisionBuckets(), "dynamic_resources"),
		provisionedStartup: f.histograms("karpenter_pods_provisioning_startup_duration_seconds",
			"Time from the first plan with a place for a pod until it was ready.", decisionBuckets()),
		journeys: map[types.UID]*journey{},
	}
	registry.MustRegister(o.startup)
	return o
}

// Handler observes pods.
func (o *PodObserver) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) {
			if pod, ok := added.(*corev1.Pod); ok {
				o.see(pod)
			}
		},
		UpdateFunc: func(before, after any) {
			a, ok := before.(*corev1.Pod)
			b, also := after.(*corev1.Pod)
			if ok && also {
				o.see(b)
				o.changed(a, b)
			}
		},
		DeleteFunc: func(deleted any) {
			if missed, ok := deleted.(toolscache.DeletedFinalStateUnknown); ok {
				deleted = missed.Obj
			}
			if pod, ok := deleted.(*corev1.Pod); ok {
				o.forget(pod.UID)
			}
		},
	}
}

func (o *PodObserver) see(pod *corev1.Pod) {
	if !kube.IsPending(pod) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.journeys[pod.UID] == nil && len(o.journeys) < mostJourneys {
		o.journeys[pod.UID] = &journey{seen: o.clock.Now()}
	}
}

func (o *PodObserver) forget(pod types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.journeys, pod)
}

// Decided records the decisions of a plan on the pods that wait.
func (o *PodObserver) Decided(plan *engine.Plan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			o.decided(id.UID, true)
		}
	}
	for _, p := range plan.Placements {
		o.decided(p.Pod.UID, true)
	}
	for _, u := range plan.Unplaced {
		o.decided(u.Pod.UID, false)
	}
}

// decided does the work of Decided for one pod. It must be called with mu held.
func (o *PodObserver) decided(pod types.UID, placed bool) {
	j := o.journeys[pod]
	if j == nil {
		return
	}
	now := o.clock.Now()
	if j.decided.IsZero() {
		j.decided = now
		o.decision.WithLabelValues().Observe(now.Sub(j.seen).Seconds())
	}
	switch {
	case !placed:
		j.planned = time.Time{}
	case j.planned.IsZero():
		j.planned = now
	}
}

func (o *PodObserver) changed(before, after *corev1.Pod) {
	age := max(o.clock.Since(after.CreationTimestamp.Time), time.Duration(0)).Seconds()
	if before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		devices := strconv.FormatBool(len(after.Spec.ResourceClaims) > 0)
		o.bound.WithLabelValues(devices).Observe(age)
		if since, ok := o.sincePlanned(after.UID); ok {
			o.provisioned.WithLabelValues(devices).Observe(since)
		}
	}
	if before.Status.Phase == corev1.PodPending && !podReady(before) && podReady(after) {
		o.startup.WithLabelValues().Observe(age)
		if since, ok := o.sincePlanned(after.UID); ok {
			o.provisionedStartup.WithLabelValues().Observe(since)
		}
		o.forget(after.UID)
	}
}

func (o *PodObserver) sincePlanned(pod types.UID) (seconds float64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	j := o.journeys[pod]
	if j == nil || j.planned.IsZero() {
		return 0, false
	}
	return o.clock.Since(j.planned).Seconds(), true
}
