package aws

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tenon.sh/provider/aws/fleet"
)

// metrics counts what the provider does. Names and labels are those that dashboards made for Karpenter know, but for the
// one that begins with tenon_.
type metrics struct {
	launchFailures, terminationFailures *prometheus.CounterVec
	batchTime, batchSize                *prometheus.HistogramVec
	userDataBytes                       *prometheus.GaugeVec
	received, unhealthy                 *prometheus.CounterVec
	deleted                             prometheus.Counter
	queued                              prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(h)
		return h
	}
	m := &metrics{
		launchFailures: counters("karpenter_cloudprovider_instance_launch_failures_total",
			"Offerings of which EC2 started no machine when it was asked to, by why.", "zone", "zone_id", "capacity_type", "reason"),
		terminationFailures: counters("karpenter_cloudprovider_instance_termination_failures_total",
			"Machines that could not be told to stop.", "zone", "zone_id"),
		batchTime: histograms("karpenter_cloudprovider_batcher_batch_time_seconds", "How long calls waited for others to be made with.",
			[]float64{.01, .02, .05, .1, .2, .5, 1, 2}, "batcher"),
		batchSize: histograms("karpenter_cloudprovider_batcher_batch_size", "How many calls were made as one.",
			[]float64{1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}, "batcher"),
		userDataBytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "karpenter_ec2nodeclasses_userdata_bytes", Help: "Size of the user data of machines of a class; EC2 takes 16384.",
		}, []string{"nodeclass"}),
		received: counters("karpenter_interruption_received_messages_total", "Messages about machines that the cloud will take away, by kind.", "message_type"),
		unhealthy: counters("karpenter_interruption_instance_status_unhealthy_total",
			"Machines that EC2 found broken, by what is broken.", "category"),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "karpenter_interruption_deleted_messages_total", Help: "Messages that were dealt with and taken off the queue.",
		}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "karpenter_interruption_message_queue_duration_seconds", Help: "Time from an event to the reading of its message.",
			Buckets: []float64{.5, 1, 2, 5, 10, 20, 30, 60, 120, 300},
		}),
	}
	registry.MustRegister(m.userDataBytes, m.deleted, m.queued)
	return m
}

func (m *metrics) refused(r fleet.Refusal, zoneID string) {
	m.launchFailures.WithLabelValues(r.Zone, zoneID, r.CapacityType, fleet.Reason(r.Code, r.Message)).Inc()
}

func (m *metrics) terminationFailed(zone, zoneID string) {
	m.terminationFailures.WithLabelValues(zone, zoneID).Inc()
}

func (m *metrics) batch(name string, open time.Duration, items int) {
	m.batchTime.WithLabelValues(name).Observe(open.Seconds())
	m.batchSize.WithLabelValues(name).Observe(float64(items))
}

func (m *metrics) userData(class string, bytes int) {
	m.userDataBytes.WithLabelValues(class).Set(float64(bytes))
}
