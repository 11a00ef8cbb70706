package simulated

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// bootTime draws the time until a new machine's node registers, and the time from then until the node is ready.
func (c *Cloud) bootTime(r *Record, now time.Time) (toRegister, toReady time.Duration) {
	b := c.cfg.Profile.Boot
	stages := b.stages(c.types[r.Offering.InstanceType], r.Machine.Labels)
	factor := b.Factor
	if factor == 0 {
		factor = 1
	}
	d := c.draws("boot", token(r.Machine.Claim, r.Machine.ClaimUID))
	waiting := float64(d.stage(stages.Accept) + d.stage(stages.Run))
	booting := float64(d.stage(stages.Register))
	ready := float64(d.stage(stages.Ready))
	if d.uniform() < b.SlowTail {
		booting *= 2 + 4*d.uniform()
	}
	queued := c.queued(r.Offering.Zone, now)
	return b.Fixed + queued + clamp(factor*(waiting+booting)), clamp(factor * ready)
}

// stages returns the boot stages for an instance type with these labels.
func (b BootModel) stages(t *engine.InstanceType, labels map[string]string) BootStages {
	_, size, _ := strings.Cut(t.Name, ".")
	switch {
	case labels[corev1.LabelOSStable] == "windows":
		return b.Windows
	case strings.HasPrefix(size, "metal"):
		return b.Metal
	case hasDevice(t):
		return b.GPU
	case labels[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot:
		return b.Spot
	}
	return b.Linux
}

// hasDevice reports whether the machine has a GPU or another accelerator, whose driver starts slowly.
func hasDevice(t *engine.InstanceType) bool {
	for name, count := range t.Capacity {
		device := strings.HasSuffix(string(name), ".com/gpu") || slices.Contains([]corev1.ResourceName{"aws.amazon.com/neuron", "habana.ai/gaudi"}, name)
		if device && !count.IsZero() {
			return true
		}
	}
	return false
}

// queueInSecond counts the launches of one zone in one second.
type queueInSecond struct {
	Second int64
	Count  int
}

// queued returns the delay of a launch whose zone starts more than QueueAbove machines in this second.
func (c *Cloud) queued(zone string, now time.Time) time.Duration {
	limit := c.cfg.Profile.Boot.QueueAbove
	if limit == 0 {
		return 0
	}
	q := c.queue[zone]
	if q.Second != now.Unix() {
		q = queueInSecond{Second: now.Unix()}
	}
	q.Count++
	c.queue[zone] = q
	return time.Duration(max(0, q.Count-limit)) * time.Second / 10
}
