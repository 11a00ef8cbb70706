package azure

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"tenon.sh/engine"
)

// metrics holds the provider's metrics, with the names that dashboards for Karpenter use.
type metrics struct{ starts, failures *prometheus.CounterVec }

func newMetrics(registry prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	return &metrics{
		starts: counters("karpenter_instance_vm_create_start_total", "Requests to Azure to create a machine.", "image", "size", "zone", "capacity_type", "nodepool"),
		failures: counters("karpenter_instance_vm_create_failure_total", "Machines that Azure refused, at once (sync) or later (async), by Azure's error code.",
			"image", "size", "zone", "capacity_type", "nodepool", "phase", "error_code"),
	}
}

func (m *metrics) started(image string, id engine.OfferingID, pool string) {
	m.starts.WithLabelValues(image, id.InstanceType, id.Zone, id.CapacityType, pool).Inc()
}

func (m *metrics) failed(image string, id engine.OfferingID, pool, phase, code string) {
	m.failures.WithLabelValues(image, id.InstanceType, id.Zone, id.CapacityType, pool, phase, cmp.Or(code, "UnknownError")).Inc()
}
