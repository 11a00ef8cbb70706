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

// An offering is sold out while any of three processes is: its own, one that it shares with the sizes of its family in
// its zone, and one that it shares with its family in all zones. Each goes on and off for exponential times. The parts
// below make sizes of a family in one zone correlate at 0.5, and zones at 0.3.
const (
	ownPart       = 0.5
	zonePart      = 0.2
	everyZonePart = 0.3
)

// walk is how far one on-off process has been followed.
type walk struct {
	d       *draws
	share   float64
	mean    time.Duration
	off     bool // sold out
	since   time.Time
	until   time.Time
	started bool
}

// follow brings a process to now. It depends on the seed, its name and the cloud's epoch only, not on who looks when.
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

// takenInEpisode counts the machines that an offering gave since it began to be short.
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

// shortageClass is what decides how often a type is sold out.
type shortageClass struct{ gpu, newest bool }

// shortage is how often an offering is sold out, and the name of the row that says so.
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

// shortageClasses finds the types with accelerators, those of their category's newest generation, and those with more
// than 192 cores, which are as hard to get.
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

// familyOf is the part of a type's name before its first dot or dash.
func familyOf(instanceType string) string {
	if i := strings.IndexAny(instanceType, ".-"); i >= 0 {
		return instanceType[:i]
	}
	return instanceType
}

// overQuota is the code of the bound that one more machine of an offering would exceed, "" if none.
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

// devices is how many accelerators a type has.
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
