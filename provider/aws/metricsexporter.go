package aws

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/price"
)

// shownFor is the time for which an unused catalog is exported.
const shownFor = 30 * time.Minute

// metricsExporter exports the instance types and offerings of all classes, from the last catalog of each.
type metricsExporter struct {
	clock  clock.PassiveClock
	began  time.Time
	prices *price.Prices

	mu       sync.Mutex // guards catalogs
	catalogs map[string]shown

	available, estimate, cores, memory, age *prometheus.Desc
}

type shown struct {
	types []engine.InstanceType
	at    time.Time
}

func newMetricsExporter(clock clock.PassiveClock, prices *price.Prices) *metricsExporter {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	const prefix = "karpenter_cloudprovider_instance_type_"
	return &metricsExporter{
		clock: clock, began: clock.Now(), prices: prices, catalogs: map[string]shown{},
		available: desc(prefix+"offering_available", "1 if some node class can buy the offering, else 0.", "instance_type", "capacity_type", "zone"),
		estimate:  desc(prefix+"offering_price_estimate", "The price of a machine of the offering, in USD per hour.", "instance_type", "capacity_type", "zone"),
		cores:     desc(prefix+"cpu_cores", "Cores of an instance type.", "instance_type"),
		memory:    desc(prefix+"memory_bytes", "Nominal memory of an instance type.", "instance_type"),
		age:       desc("tenon_cloudprovider_price_age_seconds", "Time since prices were last read, or since the start if they never were.", "capacity_type"),
	}
}

// show keeps the catalog of a class.
func (s *metricsExporter) show(class string, types []engine.InstanceType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogs[class] = shown{types, s.clock.Now()}
}

// Describe is part of prometheus.Collector.
func (s *metricsExporter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.available, s.estimate, s.cores, s.memory, s.age} {
		out <- d
	}
}

// counted is one offering in the catalogs of all classes together.
type counted struct {
	available bool
	price     float64
}

// Collect is part of prometheus.Collector.
func (s *metricsExporter) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, kind := range []string{price.OnDemand, price.Spot} {
		age, known := s.prices.Age(kind)
		if !known { // without the permission from the start, the age must still grow and be visible
			age = s.clock.Since(s.began)
		}
		if known || s.prices.Told(kind) {
			gauge(s.age, age.Seconds(), kind)
		}
	}
	types, offerings := s.merge()
	for name, t := range types {
		gauge(s.cores, t.Capacity.Cpu().AsApproximateFloat64(), name)
		if values := t.Labels[awsv1.MemoryLabelKey]; len(values) == 1 {
			gauge(s.memory, mebibytes(values[0]), name)
		}
	}
	for id, c := range offerings {
		value := 0.0
		if c.available {
			value = 1
		}
		gauge(s.available, value, id.InstanceType, id.CapacityType, id.Zone)
		gauge(s.estimate, c.price, id.InstanceType, id.CapacityType, id.Zone)
	}
}

// merge merges the catalogs. Each offering gets a series of reserved capacity, even if no class has a reservation there, so that dashboards
// have a value.
func (s *metricsExporter) merge() (map[string]*engine.InstanceType, map[engine.OfferingID]counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	types, offerings := map[string]*engine.InstanceType{}, map[engine.OfferingID]counted{}
	seen := map[*engine.InstanceType]bool{} // catalogs that classes share
	for class, c := range s.catalogs {
		if s.clock.Since(c.at) > shownFor {
			delete(s.catalogs, class)
			continue
		}
		if len(c.types) == 0 || seen[&c.types[0]] {
			continue
		}
		seen[&c.types[0]] = true
		for i := range c.types {
			t := &c.types[i]
			types[t.Name] = t
			for _, o := range t.Offerings {
				id := engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}
				have := offerings[id]
				have.available = have.available || !o.SoldOut && (o.Reservation == "" || o.Slots > 0)
				have.price = o.Price
				offerings[id] = have
				id.CapacityType = v1.CapacityTypeReserved
				if _, known := offerings[id]; !known {
					offerings[id] = counted{}
				}
			}
		}
	}
	return types, offerings
}

// mebibytes converts a text with a number of MiB to bytes.
func mebibytes(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n * (1 << 20)
}
