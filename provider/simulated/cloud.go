// Package simulated is a cloud in memory, on an injected clock. Depending on a Profile, its machines boot slowly, its offerings sell out, its
// spot machines are reclaimed, its calls are throttled and its answers lag. One seed decides every random draw, so the same calls at the same
// times always have the same results.
//
// Cloud is the cloud itself, with calls like those of a real cloud; Provider makes a provider.Provider of it. Package kwok shows the machines
// as Node objects. The simulator has its own nodes and pods.
//
// The package starts no goroutine and never sleeps: each call first computes all events since the last call.
package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// Config holds the settings of a Cloud.
type Config struct {
	Seed uint64
	// Clock is the cloud's clock; it never goes back.
	Clock clock.PassiveClock
	// Catalog lists the instance types that the cloud sells, ordered by name. The Cloud does not copy it.
	Catalog []engine.InstanceType
	// Profile is the cloud's behaviour; the zero value is a perfect cloud.
	Profile Profile
	// Faults happen at set times, in addition to the faults of the profile.
	Faults []Fault
	// IDPrefix begins the ID of every machine, followed by the name of its claim; empty means "simulated://".
	IDPrefix string
	// Devices returns the pools of devices that drivers publish on a claim's machine of the type; nil means the pools of the catalog.
	Devices func(claim string, t *engine.InstanceType) []device.Template
}

// A Cloud runs machines that exist in memory only. Its methods may be called from several goroutines.
type Cloud struct {
	cfg   Config
	types map[string]*engine.InstanceType
	zones []string
	class map[string]shortageClass // by instance type; see shortage.go

	mu sync.Mutex // guards all below
	// epoch is the time at which the cloud was made. All draws for a time depend on the time since then.
	epoch      time.Time
	advanced   time.Time // all events up to this time have happened
	machines   map[engine.MachineID]*Record
	byToken    map[string]engine.MachineID
	coming     happenings
	ends       int
	walks      map[string]*walk
	taken      map[engine.OfferingID]takenInEpisode
	forced     map[engine.OfferingID]time.Time // sold out until then, after a reclaim
	reclaims   map[engine.OfferingID]*reclaimWalk
	prices     map[engine.OfferingID][]float64
	buckets    map[string]bucket
	queue      map[string]queueInSecond
	notices    map[string]Notice
	nodeFaults map[string]NodeFault
	faults     []Fault // in order of time
	done       int     // the number of faults that runFaults has passed
	silent     int     // the number of next machines that never register
	counters   Counters
	listed     listing
}

// NewCloud makes a cloud without machines.
func NewCloud(cfg Config) (*Cloud, error) {
	if cfg.Clock == nil {
		return nil, errors.New("make a simulated cloud: it needs a clock")
	}
	if len(cfg.Catalog) == 0 {
		return nil, errors.New("make a simulated cloud: its catalog is empty")
	}
	cfg.IDPrefix = cmp.Or(cfg.IDPrefix, "simulated://")
	c := &Cloud{cfg: cfg, types: map[string]*engine.InstanceType{}, epoch: cfg.Clock.Now()}
	c.cfg.Catalog = withoutMissing(cfg)
	for i := range c.cfg.Catalog {
		t := &c.cfg.Catalog[i]
		if c.types[t.Name] != nil {
			return nil, fmt.Errorf("make a simulated cloud: instance type %s is twice in its catalog", t.Name)
		}
		c.types[t.Name] = t
		for _, o := range t.Offerings {
			c.zones = append(c.zones, o.Zone)
		}
	}
	slices.Sort(c.zones)
	c.zones = slices.Compact(c.zones)
	c.class = shortageClasses(c.cfg.Catalog)
	c.faults = slices.Concat(cfg.Profile.Faults, cfg.Faults)
	for i, f := range cfg.Faults {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("make a simulated cloud: fault number %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int { return cmp.Compare(a.At.Duration, b.At.Duration) })
	c.clear()
	return c, nil
}

func (c *Cloud) clear() {
	c.advanced = c.epoch
	c.machines, c.coming = map[engine.MachineID]*Record{}, nil
	c.byToken = map[string]engine.MachineID{}
	c.walks = map[string]*walk{}
	c.taken = map[engine.OfferingID]takenInEpisode{}
	c.forced = map[engine.OfferingID]time.Time{}
	c.reclaims = map[engine.OfferingID]*reclaimWalk{}
	c.prices = map[engine.OfferingID][]float64{}
	c.buckets = map[string]bucket{}
	c.queue = map[string]queueInSecond{}
	c.notices, c.nodeFaults = map[string]Notice{}, map[string]NodeFault{}
	c.done, c.silent, c.counters, c.listed = 0, 0, Counters{}, listing{}
}

// Profile returns the cloud's behaviour.
func (c *Cloud) Profile() Profile { return c.cfg.Profile }

// Now returns the time on the cloud's clock.
func (c *Cloud) Now() time.Time { return c.cfg.Clock.Now() }

// lock locks the cloud and carries out all events that are due by now.
func (c *Cloud) lock() (now time.Time) {
	c.mu.Lock()
	now = c.cfg.Clock.Now()
	c.advance(now)
	c.pass(now)
	return now
}

// withoutMissing returns the catalog without the offerings that one zone lacks according to the profile.
func withoutMissing(cfg Config) []engine.InstanceType {
	if cfg.Profile.MissingInZone == 0 {
		return cfg.Catalog
	}
	types := slices.Clone(cfg.Catalog)
	for i, t := range types {
		draws := newDraws(cfg.Seed, "missing", t.Name)
		if draws.uniform() >= cfg.Profile.MissingInZone {
			continue
		}
		zones := []string{}
		for _, o := range t.Offerings {
			zones = append(zones, o.Zone)
		}
		slices.Sort(zones)
		if zones = slices.Compact(zones); len(zones) < 2 {
			continue
		}
		gone := zones[draws.below(len(zones))]
		types[i].Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o engine.Offering) bool { return o.Zone == gone })
	}
	return types
}

// IDPrefix returns the beginning of every machine's ID. The rest of the ID is the name of the machine's claim.
func (c *Cloud) IDPrefix() string { return c.cfg.IDPrefix }
