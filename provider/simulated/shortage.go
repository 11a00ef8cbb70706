package simulated

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// An offering is sold out while any of three processes is: its own process, one that the sizes of its family in its zone share, and one that
// its family shares in all zones. Each process switches on and off after exponential times. With the parts below, sizes of a family in one
// zone correlate at 0.5, and zones at 0.3.
const (
	ownPart       = 0.5
	zonePart      = 0.2
	everyZonePart = 0.3
)

// walk is the state of one on-off process.
type walk struct {
	d       *draws
	share   float64
	mean    time.Duration
	off     bool // sold out
	since   time.Time
	until   time.Time
	started bool
}

// follow brings a process to now. The result depends only on the seed, the process's name and the cloud's epoch, not on the times of calls.
func (w *walk) follow(epoch, now time.Time) {
	if !w.started {
		w.started, w.since = true, epoch
		w.off = w.d.uniform() < w.share
		w.until = epoch.Add(w.stay())
	}
	for !now.Before(w.until) {
		w.off, w.since = !w.off, w.until
		w.until = w.until.Add(w.stay())
	}
}

func (w *walk) stay() time.Duration {
	mean := w.mean
	if !w.off {
		mean = clamp(float64(w.mean) * (1 - w.share) / w.share)
	}
	return max(time.Second, w.d.exponential(mean))
}

// takenInEpisode counts the machines that an offering gave since its shortage began.
type takenInEpisode struct {
	Since time.Time
	Count int
}

// hasRoom reports whether an offering can give one more machine now.
func (c *Cloud) hasRoom(id engine.OfferingID, now time.Time) bool {
	if c.inOutage(id, now) || now.Before(c.forced[id]) {
		return false
	}
	since, short := c.short(id, now)
	if !short {
		return true
	}
	left := c.draws("left", id.String(), strconv.FormatInt(since.Unix(), 10)).poisson(3)
	taken := c.taken[id]
	return !taken.Since.Equal(since) && left > 0 || taken.Since.Equal(since) && taken.Count < left
}

// take counts a machine that an offering gave.
func (c *Cloud) take(id engine.OfferingID, now time.Time) {
	since, short := c.short(id, now)
	if !short {
		return
	}
	taken := c.taken[id]
	if !taken.Since.Equal(since) {
		taken = takenInEpisode{Since: since}
	}
	taken.Count++
	c.taken[id] = taken
}

// short reports whether an offering is short of machines, and since when.
func (c *Cloud) short(id engine.OfferingID, now time.Time) (since time.Time, short bool) {
	name, s := c.shortage(id)
	if s.Share <= 0 || s.Mean <= 0 {
		return time.Time{}, false
	}
	family := familyOf(id.InstanceType) + "/" + name
	for _, part := range []struct {
		key  string
		part float64
	}{
		{"own/" + id.String(), ownPart},
		{"zone/" + family + "/" + id.Zone, zonePart},
		{"all/" + family, everyZonePart},
	} {
		w := c.walks[part.key]
		if w == nil {
			share := 1 - math.Pow(1-min(s.Share, 0.99), part.part)
			w = &walk{d: c.draws("shortage", part.key), share: share, mean: s.Mean}
			c.walks[part.key] = w
		}
		w.follow(c.epoch, now)
		if w.off {
			short = true
			if w.since.After(since) {
				since = w.since
			}
		}
	}
	return since, short
}

// shortageClass is the part of a type's properties that decides how often it is sold out.
type shortageClass struct{ gpu, newest bool }

// shortage returns the shortage model of an offering, and its name.
func (c *Cloud) shortage(id engine.OfferingID) (name string, s Shortage) {
	m, class, spot := c.cfg.Profile.Shortage, c.class[id.InstanceType], id.CapacityType == v1.CapacityTypeSpot
	switch {
	case spot && class.gpu:
		return "spot-gpu", m.SpotGPU
	case spot:
		return "spot", m.SpotCommon
	case class.gpu:
		return "gpu", m.GPU
	case class.newest:
		return "newest", m.Newest
	}
	return "common", m.Common
}

// shortageClasses finds the types with accelerators, and the types of their category's newest generation. Types with more than 192 cores
// count as newest, because they are as hard to get.
func shortageClasses(types []engine.InstanceType) map[string]shortageClass {
	newest := map[string]int{}
	of := func(t engine.InstanceType) (category string, generation int) {
		categories, generations := t.Labels["karpenter.k8s.aws/instance-category"], t.Labels["karpenter.k8s.aws/instance-generation"]
		if len(categories) != 1 || len(generations) != 1 {
			return "", 0
		}
		generation, _ = strconv.Atoi(generations[0])
		return categories[0], generation
	}
	for _, t := range types {
		category, generation := of(t)
		newest[category] = max(newest[category], generation)
	}
	classes := map[string]shortageClass{}
	for _, t := range types {
		category, generation := of(t)
		cpu := t.Capacity.Cpu().Value()
		classes[t.Name] = shortageClass{
			gpu:    hasDevice(&t),
			newest: category != "" && (generation == newest[category] || cpu > 192),
		}
	}
	return classes
}

// familyOf returns the part of a type's name before its first dot or dash.
func familyOf(instanceType string) string {
	if i := strings.IndexAny(instanceType, ".-"); i >= 0 {
		return instanceType[:i]
	}
	return instanceType
}

// overQuota returns the code of the quota that one more machine of an offering would exceed, "" if there is none.
func (c *Cloud) overQuota(id engine.OfferingID, now time.Time) string {
	q := c.cfg.Profile.Quota
	if q == (Quota{}) {
		return ""
	}
	bound, code := q.OnDemandCPU, CodeCPUQuota
	if id.CapacityType == v1.CapacityTypeSpot {
		bound, code = q.SpotCPU, CodeSpotQuota
	}
	t := c.types[id.InstanceType]
	cpu, gpus := t.Capacity.Cpu().Value(), devices(t)
	usedCPU, usedGPUs := int64(0), int64(0)
	for _, r := range c.machines {
		other := c.types[r.Offering.InstanceType]
		if r.gone(now) || other == nil {
			continue
		}
		if gpus > 0 {
			usedGPUs += devices(other)
		}
		if r.Offering.CapacityType == id.CapacityType {
			usedCPU += other.Capacity.Cpu().Value()
		}
	}
	if bound > 0 && usedCPU+cpu > bound || q.GPU > 0 && gpus > 0 && usedGPUs+gpus > q.GPU {
		return code
	}
	return ""
}

// devices returns the number of GPUs of a type.
func devices(t *engine.InstanceType) int64 {
	sum := int64(0)
	if hasDevice(t) {
		for _, name := range slices.Sorted(maps.Keys(t.Capacity)) {
			if q := t.Capacity[name]; strings.HasSuffix(string(name), ".com/gpu") {
				sum += q.Value()
			}
		}
	}
	return sum
}
