package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/simulated"
	"tenon.sh/scenario"
	"tenon.sh/trace"
)

// Config is the input of New.
type Config struct {
	// Snapshot is the cluster at the beginning, Course its events. The world changes neither.
	Snapshot *engine.Snapshot
	Course   scenario.Course
	// Trace holds other pods that are added and removed, nil for none. Measuring begins at its beginning.
	Trace   *trace.Trace
	Options engine.Options
	Seed    uint64
	// For is the measured time. Before it, the world runs for WarmUp.
	For, WarmUp time.Duration
	// Profile is the behavior of the cloud. Empty means the profile of the course, or UsualProfile if the course has none.
	Profile string
	// Policy is the consolidation policy of all pools, or Baseline; empty leaves each its own.
	Policy v1.ConsolidationPolicy
	// Payback and ConsolidateAfter are those of all pools (tenon.sh/payback, consolidateAfter); 0 and nil leave each its own.
	Payback          time.Duration
	ConsolidateAfter *time.Duration
	// DisruptEvery is the shortest time between two looks at the nodes. 0 means UsualDisruptEvery, or a minute while there are few nodes. It is three
	// times as long while few pods have left nodes and nodes are removed only because of their price.
	DisruptEvery time.Duration
	// BoundEvery is how often the least possible cost is computed, each time at a random instant; 0 means every hour.
	BoundEvery time.Duration
	// Audit checks the world's laws all the time, not only at its end.
	Audit bool
	// Setting is the name of the world in a comparison, if it is not named by the settings of all pools; the Result contains it.
	Setting string
	// Watched, unless nil, is called after each hour of For, and after the rest of one. Worlds that run at the same time call it concurrently.
	Watched func()
}

func (c *Config) profile() string {
	switch {
	case c.Profile != "":
		return c.Profile
	case c.Course.Cloud != "":
		return c.Course.Cloud
	}
	return UsualProfile
}

const (
	// UsualDisruptEvery is DisruptEvery unless a Config sets it.
	UsualDisruptEvery = 5 * time.Minute
	// UsualEffort is the effort for each plan that is enough for a world: more hardly changes its bill, and takes longer.
	UsualEffort = 10_000
	// UsualProfile is the profile of the cloud unless a Config or its Course names one.
	UsualProfile = "aws-typical"
)

func (c *Config) disruptEvery() time.Duration {
	if c.DisruptEvery > 0 {
		return c.DisruptEvery
	}
	return UsualDisruptEvery
}

func (c *Config) boundEvery() time.Duration {
	if c.BoundEvery > 0 {
		return c.BoundEvery
	}
	return time.Hour
}

// World is a cluster whose time passes in Run. Only one goroutine may use it. A World consists of parts. A part knows only
// parts above it in this list. For the others, a part leaves work in pending and timetable.
type World struct {
	cfg       Config
	agenda    *agenda
	laws      *laws
	pending   *pending
	timetable *timetable
	markets   *markets
	meter     *meter
	cluster   *cluster
	pods      *pods
	nodes     *nodes
	claims    *claims
	traced    *traced
	workloads *workloads
	machines  *machines
	steps     *steps
	orders    *orders
	scheduler *kubeScheduler
	audit     *audit
	passes    *passes
	sampler   *sampler
}

// New makes a world.
func New(cfg Config) (*World, error) {
	if cfg.Snapshot == nil || cfg.For <= 0 {
		return nil, errors.New("make a simulation: it needs a cluster and a time to watch it for")
	}
	if _, err := simulated.ProfileByName(cfg.profile()); err != nil {
		return nil, err
	}
	if cfg.Policy == Baseline {
		cfg.Options = baselineOptions(cfg.Options)
	}
	w := &World{cfg: cfg}
	if err := w.compose(); err != nil {
		return nil, err
	}
	for _, m := range w.markets.list {
		if m.cloud != nil {
			w.machines.watch(m)
		}
	}
	w.takeIn()
	for _, x := range cfg.Course.Workloads {
		l, err := newLoad(x)
		if err != nil {
			return nil, err
		}
		if w.workloads.byKey[l.key] != nil {
			return nil, fmt.Errorf("there are two workloads %s", l.key)
		}
		w.workloads.begin(l)
	}
	return w, nil
}

// compose makes the parts, from the lowest to the highest.
func (w *World) compose() error {
	base := *w.cfg.Snapshot
	w.agenda, w.laws, w.pending = newAgenda(base.Now), &laws{}, &pending{}
	w.timetable = &timetable{cfg: &w.cfg, agenda: w.agenda, pending: w.pending, buffers: len(base.CapacityBuffers) > 0}
	w.cluster = newCluster(&base, w.agenda, w.pending, w.timetable, w.laws)
	base.NodePools = poolsOf(&w.cfg)
	var err error
	if w.markets, err = openMarkets(&w.cfg, w.agenda.clock, &base, w.cluster.expectedDevices); err != nil {
		return err
	}
	w.cluster.markets = w.markets
	w.meter = newMeter(&w.cfg, w.agenda, w.markets)
	w.pods = &pods{cfg: &w.cfg, agenda: w.agenda, laws: w.laws, pending: w.pending, timetable: w.timetable, meter: w.meter, cluster: w.cluster}
	w.nodes = &nodes{agenda: w.agenda, pending: w.pending, timetable: w.timetable, cluster: w.cluster, pods: w.pods}
	w.claims = newClaims(&w.cfg, w.agenda, w.pending, w.timetable, w.meter, w.cluster)
	w.traced = &traced{cfg: &w.cfg, agenda: w.agenda, cluster: w.cluster, pods: w.pods, loads: map[tracedKey]*load{}, declared: map[string]int{}}
	w.workloads = &workloads{
		cfg: &w.cfg, agenda: w.agenda, pending: w.pending, cluster: w.cluster, pods: w.pods, traced: w.traced, byKey: map[string]*load{}, labels: map[string]map[string]string{},
	}
	w.machines = &machines{
		agenda: w.agenda, laws: w.laws, pending: w.pending, timetable: w.timetable, markets: w.markets, meter: w.meter, cluster: w.cluster, nodes: w.nodes, claims: w.claims,
		nodeNames: map[engine.MachineID]string{},
	}
	w.steps = &steps{
		cfg: &w.cfg, agenda: w.agenda, pending: w.pending, timetable: w.timetable, markets: w.markets, meter: w.meter,
		cluster: w.cluster, pods: w.pods, nodes: w.nodes, claims: w.claims, machines: w.machines, due: map[string]time.Time{},
	}
	w.orders = &orders{
		cfg: &w.cfg, agenda: w.agenda, laws: w.laws, pending: w.pending, meter: w.meter, cluster: w.cluster, nodes: w.nodes, claims: w.claims, inProgress: map[string]bool{},
	}
	cache := &inventory.Cache{}
	w.scheduler = &kubeScheduler{cfg: &w.cfg, timetable: w.timetable, cluster: w.cluster, pods: w.pods, cache: cache}
	w.audit = &audit{agenda: w.agenda, laws: w.laws, meter: w.meter, cluster: w.cluster}
	w.passes = &passes{
		cfg: &w.cfg, agenda: w.agenda, pending: w.pending, timetable: w.timetable, meter: w.meter, cluster: w.cluster,
		claims: w.claims, steps: w.steps, orders: w.orders, audit: w.audit, cache: cache, earlier: &engine.EarlierPasses{}, again: againFirst,
	}
	if w.cfg.Policy == Baseline {
		w.passes.baseline = &baseline{cfg: &w.cfg, agenda: w.agenda, markets: w.markets, cluster: w.cluster, orders: w.orders, cache: cache, triedAt: map[string]time.Time{}}
	}
	w.sampler = &sampler{cfg: &w.cfg, agenda: w.agenda, meter: w.meter, markets: w.markets, cluster: w.cluster, passes: w.passes}
	return nil
}

// poolsOf returns the NodePools of the snapshot with the settings of the configuration.
func poolsOf(cfg *Config) []*v1.NodePool {
	pools := slices.Clone(cfg.Snapshot.NodePools)
	for i, p := range pools {
		p = p.DeepCopy()
		if cfg.Policy != "" {
			p.Spec.Disruption.ConsolidationPolicy = cfg.Policy
			if cfg.Policy == Baseline {
				p.Spec.Disruption.ConsolidationPolicy = v1.WhenEmptyOrUnderutilized
			}
		}
		if cfg.Payback > 0 {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.PaybackAnnotationKey, cfg.Payback.String())
		}
		if cfg.ConsolidateAfter != nil {
			p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(*cfg.ConsolidateAfter)
		}
		pools[i] = p
	}
	return pools
}

// Run advances the time and returns the result. It fails if ctx ends, or if a law of the world is broken.
func (w *World) Run(ctx context.Context) (*Result, error) {
	defer w.sampler.planning.Wait() // no plan is computed after Run has returned
	begin := w.agenda.now.Add(w.cfg.WarmUp)
	end := begin.Add(w.cfg.For)
	w.agenda.after(collectEvery, func() { w.machines.collect(ctx) })
	w.agenda.exactly(begin, func() {
		w.meter.open(begin, end)
		w.sampler.open(ctx, begin, end)
	})
	w.traced.replay()
	w.timetable.wantMachines() // for pods that the scheduler has tried before
	w.settle(ctx)
	for {
		next, ok := w.agenda.next()
		if !ok || next.After(end) {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("simulate: %w", err)
		}
		w.meter.pass(next, len(w.cluster.unbound.list))
		w.agenda.now = next
		for t, ok := w.agenda.next(); ok && t.Equal(next); t, ok = w.agenda.next() {
			w.agenda.take().do()
		}
		w.settle(ctx)
		if len(w.laws.broken) > 0 {
			return nil, fmt.Errorf("seed %d, %s: %s", w.cfg.Seed, w.agenda.now.UTC().Format(time.RFC3339), w.laws.broken[0])
		}
	}
	w.meter.pass(end, len(w.cluster.unbound.list))
	w.agenda.now = end
	return w.result(ctx), nil
}

// settle does all work that is due in this instant.
func (w *World) settle(ctx context.Context) {
	for range 10_000 {
		switch {
		case len(w.pending.loads.list) > 0:
			for _, l := range w.pending.loads.take() {
				w.workloads.tend(l)
			}
		case len(w.pending.claims.list) > 0:
			for _, name := range w.pending.claims.take() {
				w.steps.take(ctx, name)
			}
		case w.pending.orders:
			w.orders.watch(ctx)
		case w.pending.pods:
			w.scheduler.run(ctx)
		case w.pending.provision:
			w.passes.provision(ctx)
		case w.pending.disrupt:
			w.passes.disrupt(ctx)
		default:
			return
		}
	}
	w.laws.violate("the world does not come to rest")
}

// takeIn adds the objects of the snapshot to the world.
func (w *World) takeIn() {
	for _, c := range w.cfg.Snapshot.NodeClaims {
		w.cluster.putClaim(c)
		w.pending.claims.add(c.Name)
		w.claims.awaitExpiry(c)
	}
	for _, n := range w.cfg.Snapshot.Nodes {
		s := w.cluster.newSeat(n)
		w.cluster.addSeat(s)
		w.machines.adopt(s)
		w.nodes.boot(s)
	}
	for _, c := range w.cfg.Snapshot.NodeClaims {
		w.machines.adoptStarting(c)
	}
	loads := w.workloads.adopt(w.cfg.Snapshot.Pods)
	for _, pod := range w.cfg.Snapshot.Pods {
		if kube.IsTerminal(pod) {
			continue
		}
		u := &unit{pod: pod, load: loads[pod], tried: kube.IsPending(pod)}
		if l := u.load; l != nil {
			u.index = l.units.next()
			u.version = l.newest
			l.units.put(u.key(), u)
			if !u.leaving() {
				l.note(u, 1)
			}
		}
		w.pods.add(u)
		switch {
		case pod.DeletionTimestamp != nil && u.seat != nil:
			w.agenda.after(pod.DeletionTimestamp.Sub(w.agenda.now), func() { w.pods.drop(u) })
		case u.seat != nil && !u.ready:
			w.pods.start(u)
		}
	}
}
