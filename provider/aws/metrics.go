package aws

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/fleet"
)

// metrics holds the provider's metrics. Dashboards for Karpenter use their names and labels, except names that begin with tenon_.
type metrics struct {
	launchFailures, terminationFailures  *prometheus.CounterVec
	batchTime, batchSize                 *prometheus.HistogramVec
	userDataBytes                        *prometheus.GaugeVec
	received, deleted, unhealthy         *prometheus.CounterVec
	unclaimed                            *prometheus.CounterVec
	queued                               *prometheus.HistogramVec
	requests, attempts                   *prometheus.CounterVec
	requestTime, attemptTime, retryCount *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	r := registrar{registry}
	latencies := []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60}
	m := &metrics{
		launchFailures: r.counters("karpenter_cloudprovider_instance_launch_failures_total",
			"Offerings of which EC2 refused to start a machine, by reason.", "zone", "zone_id", "capacity_type", "reason"),
		terminationFailures: r.counters("karpenter_cloudprovider_instance_termination_failures_total",
			"Failed requests to stop a machine.", "zone", "zone_id"),
		batchTime: r.histograms("karpenter_cloudprovider_batcher_batch_time_seconds", "Time that calls waited to be combined with others.",
			[]float64{.01, .02, .05, .1, .2, .5, 1, 2}, "batcher"),
		batchSize: r.histograms("karpenter_cloudprovider_batcher_batch_size", "Number of calls that were combined into one.",
			[]float64{1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}, "batcher"),
		userDataBytes: r.gauges("karpenter_ec2nodeclasses_userdata_bytes", "Size of the user data of the machines of a class; EC2 accepts at most 16384.", "nodeclass"),
		received:      r.counters("karpenter_interruption_received_messages_total", "Received messages about interruptions of machines, by kind.", "message_type"),
		unhealthy: r.counters("karpenter_interruption_instance_status_unhealthy_total",
			"Machines with a failed EC2 status check, by the kind of check.", "category"),
		deleted: r.counters("karpenter_interruption_deleted_messages_total", "Messages that were handled and deleted from the queue."),
		unclaimed: r.counters("tenon_interruption_unclaimed_messages_total",
			"Messages about machines of this cluster that no NodeClaim names after two minutes; they were deleted from the queue."),
		queued: r.histograms("karpenter_interruption_message_queue_duration_seconds", "Time from an event to the reading of its message.",
			[]float64{.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}),
		requests:    r.counters("aws_sdk_go_request_total", "Completed requests to AWS, by the last HTTP status; 0 means no answer.", "service", "action", "status_code"),
		attempts:    r.counters("aws_sdk_go_request_attempt_total", "Attempts of requests to AWS, by HTTP status; 0 means no answer.", "service", "action", "status_code"),
		requestTime: r.histograms("aws_sdk_go_request_duration_seconds", "Time that a request to AWS took, with all attempts and the wait for EC2's rate limits.", latencies, "service", "action"),
		attemptTime: r.histograms("aws_sdk_go_request_attempt_duration_seconds", "Time that one attempt of a request to AWS took.", latencies, "service", "action"),
		retryCount:  r.histograms("aws_sdk_go_request_retry_count", "Number of repeated attempts of requests to AWS.", []float64{0, 1, 2, 3, 5, 10}, "service", "action"),
	}
	// The series exist with 0 from the start, so that queries that compare them or compute their increase have a value.
	m.deleted.WithLabelValues()
	m.queued.WithLabelValues()
	return m
}

// registrar makes and registers metrics.
type registrar struct{ registry prometheus.Registerer }

func (r registrar) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.registry.MustRegister(c)
	return c
}

func (r registrar) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.registry.MustRegister(g)
	return g
}

func (r registrar) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.registry.MustRegister(h)
	return h
}

var _ cloud.Observer = &metrics{}

// Requested counts a request to AWS.
func (m *metrics) Requested(o cloud.Outcome) {
	m.requests.WithLabelValues(o.Service, o.Operation, o.Status).Inc()
	m.requestTime.WithLabelValues(o.Service, o.Operation).Observe(o.Took.Seconds())
	m.retryCount.WithLabelValues(o.Service, o.Operation).Observe(float64(o.Retries))
}

// Attempted counts an attempt at a request to AWS.
func (m *metrics) Attempted(o cloud.Outcome) {
	m.attempts.WithLabelValues(o.Service, o.Operation, o.Status).Inc()
	m.attemptTime.WithLabelValues(o.Service, o.Operation).Observe(o.Took.Seconds())
}

// Received counts a message that was read.
func (m *metrics) Received(kind string, waited time.Duration) {
	m.received.WithLabelValues(kind).Inc()
	if waited > 0 {
		m.queued.WithLabelValues().Observe(waited.Seconds())
	}
}

// Deleted counts a message that was deleted from the queue.
func (m *metrics) Deleted() { m.deleted.WithLabelValues().Inc() }

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
