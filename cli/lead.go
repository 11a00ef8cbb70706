package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/controller/capacitybuffer"
	"tenon.sh/controller/deletioncost"
	"tenon.sh/controller/disrupt"
	"tenon.sh/controller/interruption"
	"tenon.sh/controller/nodeclass"
	"tenon.sh/controller/nodeoverlay"
	"tenon.sh/controller/nodepool"
	"tenon.sh/controller/provision"
	"tenon.sh/controller/provisioningrequest"
	"tenon.sh/controller/unsupported"
	"tenon.sh/engine"
	"tenon.sh/journal"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

// lasting holds the values that live longer than one term as leader.
type lasting struct {
	metrics *report.Metrics
	journal *journal.Journal // used if no folder keeps the journal
	sells   []engine.InstanceType
	faults  []simulated.Fault
}

func (c *autoscaler) newLasting() (lasting, error) {
	faults, err := c.faults()
	if err != nil {
		return lasting{}, err
	}
	sells, err := c.sells(faults)
	return lasting{metrics: report.NewMetrics(c.registry, buildVersion()), journal: journal.New(clock.RealClock{}), sells: sells, faults: faults}, err
}

// scaleUps returns the watch on Cluster Autoscaler's scale-ups. It returns nil if the watch is switched off.
func (c *autoscaler) scaleUps() (*cluster.ScaleUps, error) {
	if c.opt.ClusterAutoscalerGrace == 0 {
		return nil, nil
	}
	return cluster.NewScaleUps(c.config, c.opt.ClusterAutoscalerGrace)
}

// lead follows until it is elected, then leads until ctx ends or the lease is lost. It returns nil only if ctx has ended.
func (c *autoscaler) lead(ctx context.Context, lasting lasting) error {
	mgr, err := c.newManager(ctx)
	if err != nil {
		return err
	}
	real := clock.RealClock{}
	state := prometheus.NewRegistry()
	parts := &parts{
		state: state, pods: report.NewPodObserver(state, real),
		autoscaler: c, mgr: mgr, lasting: lasting,
		recorder: report.NewRecorder(mgr.GetClient(), real),
		journal:  lasting.journal,
	}
	if c.opt.Journal != "" {
		parts.journal = journal.New(real) // another process may have led since, and written to the folder
	}
	cloud, err := c.newCloud(ctx, parts)
	if err != nil {
		return err
	}
	if c.connected != nil {
		c.connected(cloud)
	}
	if parts.cluster, err = parts.newCluster(cloud); err != nil {
		return err
	}
	if err := cluster.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := parts.cluster.Watch(ctx); err != nil {
		return err
	}
	if !c.onlyEnds {
		parts.makeLoops()
		parts.listen(cloud)
	}
	parts.keepHouse(cloud)
	if err := parts.addNodeClaims(cloud); err != nil {
		return err
	}
	parts.tellUnsynced()
	page, err := parts.follower()
	if err != nil {
		return err
	}
	c.ports.pageHandler.Store(&page)
	err = errors.Join(mgr.Add(everywhere(parts.becomeReady)), mgr.Add(leading(parts.lead)))
	if err != nil {
		return err
	}
	c.setHealth(parts.loops)
	return mgr.Start(ctx)
}

// newCluster returns the cluster, with what the provider can do beside starting and ending machines.
func (p *parts) newCluster(cloud provider.Provider) (*cluster.Cluster, error) {
	inspector, _ := cloud.(provider.Inspector)
	rationer, _ := cloud.(provider.Rationer)
	var repairer provider.Repairer
	if p.opt.FeatureGates["NodeRepair"] {
		repairer, _ = cloud.(provider.Repairer)
	}
	var starts provider.Provider = fenced{report.Measured{Provider: cloud, Metrics: p.lasting.metrics, Clock: clock.RealClock{}}, p.mgr.term}
	if p.onlyEnds {
		starts = startsNothing{starts}
	}
	scaleUps, err := p.scaleUps()
	if err != nil {
		return nil, err
	}
	commitments := &commitmentsFile{path: p.opt.CommitmentsFile, refused: func(err error) {
		p.log.Error(err, "commitments")
		p.recorder.Publish(report.CommitmentsAreRefused(p.lease(), err))
	}}
	return cluster.New(cluster.Config{
		ScaleUps: scaleUps, NodeOverheadPrice: p.opt.NodeOverheadPrice, Commitments: commitments.now,
		Client: p.mgr.GetClient(), API: p.mgr.GetAPIReader(), Informers: p.mgr.GetCache(), Clock: clock.RealClock{},
		Overlays: p.opt.FeatureGates["NodeOverlay"], Buffers: p.opt.FeatureGates["CapacityBuffer"], Requests: p.opt.FeatureGates["ProvisioningRequest"], Selectors: p.opt.selectors(),
		Provider: starts, Inspector: inspector, Rationer: rationer, Repairer: repairer, Leader: p.mgr.identity(), Leads: p.mgr.term.Ask,
	}), nil
}

// lease returns a Lease object with the name and namespace of the leader's Lease.
func (c *autoscaler) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.leaseNamespace(), Name: c.opt.LeaderElectionName}}
}

// leaseNamespace returns the namespace of the Lease. If no flag gives one, it returns the controller's own namespace.
func (c *autoscaler) leaseNamespace() string {
	if c.opt.LeaderElectionNamespace != "" {
		return c.opt.LeaderElectionNamespace
	}
	return ownLeaseNamespace()
}

// ownLeaseNamespace returns this pod's namespace, or kube-system outside a pod.
func ownLeaseNamespace() string {
	if own, err := os.ReadFile(ownNamespace); err == nil {
		return string(own)
	}
	return cmp.Or(os.Getenv("SYSTEM_NAMESPACE"), "kube-system")
}

// ownNamespace is the file with the name of a pod's namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// parts are the parts of one term as leader.
type parts struct {
	*autoscaler
	mgr      *elected
	lasting  lasting
	cluster  *cluster.Cluster
	recorder *report.Recorder
	health   *nodepool.Health
	// provisioning is the loop that starts machines.
	provisioning *controller.Loop
	loops        []*controller.Loop
	watches      []func(context.Context) error
	state        *prometheus.Registry // for the metrics that only the leader exports
	unsynced     *report.Unsynced     // exports a metric until the caches are filled
	pods         *report.PodObserver
	journal      *journal.Journal
}

// loop adds a loop.
func (p *parts) loop(name string, pass func(context.Context) error, idle, most, every time.Duration) *controller.Loop {
	l := &controller.Loop{
		Name: name, Pass: pass, Idle: idle, Max: most, Every: every, Clock: clock.RealClock{},
		Slow: func() {
			p.lasting.metrics.SlowPass(name)
			p.recorder.Publish(report.PassIsSlow(p.lease(), name))
		},
	}
	p.loops = append(p.loops, l)
	return l
}

// makeLoops makes the loops and sets up their triggers.
func (p *parts) makeLoops() {
	real := clock.RealClock{}
	options := p.opt.engineOptions()
	options.Threads = runtime.GOMAXPROCS(0) // the plan does not depend on it, so only these options contain it
	provisions := provision.Config{
		Cluster: p.cluster, Recorder: p.recorder, Metrics: p.lasting.metrics, Pods: p.pods, Options: options, Begun: p.journal.Planned,
	}
	buffers := p.opt.FeatureGates["CapacityBuffer"]
	if buffers {
		provisions.Buffers = &capacitybuffer.Writer{Cluster: p.cluster, Recorder: p.recorder, Metrics: p.lasting.metrics}
	}
	requests := p.opt.FeatureGates["ProvisioningRequest"]
	if requests {
		provisions.Requests = &provisioningrequest.Writer{Cluster: p.cluster, Recorder: p.recorder}
	}
	provisioner := provision.New(provisions)
	disruption := disrupt.Config{Cluster: p.cluster, Recorder: p.recorder, Metrics: p.lasting.metrics, Options: options, Begun: p.journal.Passed}
	if dir := p.opt.RecordDisruptions; dir != "" {
		disruption.Record = (&disruptionRecord{dir, p.opt.engineOptions()}).add
	}
	disruptor := disrupt.New(disruption)
	provisioning := p.loop("provisioner", provisioner.Reconcile, p.opt.BatchIdleDuration, p.opt.BatchMaxDuration, 10*time.Second)
	p.provisioning = provisioning
	disrupting := p.loop("disruption", disruptor.Reconcile, time.Second, 5*time.Second, 10*time.Second)

	var pools *controller.Loop
	p.health = nodepool.NewHealth(func() { pools.Trigger("health") })
	pools = p.loop("nodepool", nodepool.New(nodepool.Config{Cluster: p.cluster, Health: p.health, Recorder: p.recorder, StaticCapacity: p.opt.FeatureGates["StaticCapacity"]}).Reconcile,
		200*time.Millisecond, time.Second, time.Minute)
	resize := func(string) {}
	if p.opt.FeatureGates["StaticCapacity"] {
		static := nodepool.NewStatic(nodepool.StaticConfig{Cluster: p.cluster, Metrics: p.lasting.metrics, Options: options})
		resize = p.loop("static", static.Reconcile, 200*time.Millisecond, time.Second, 30*time.Second).Trigger
	}
	classes := p.loop("nodeclass", (&nodeclass.Reconciler{Cluster: p.cluster}).Reconcile, 100*time.Millisecond, time.Second, 30*time.Second)
	noEffect := &unsupported.Reconciler{API: p.mgr.GetAPIReader(), Writer: p.mgr.GetClient(), Clock: real, Overlays: p.opt.FeatureGates["NodeOverlay"], Buffers: buffers}
	p.loop("unsupported", noEffect.Reconcile, time.Second, time.Second, time.Minute)

	if p.opt.FeatureGates["PodDeletionCostManagement"] {
		costs := &deletioncost.Reconciler{Cluster: p.cluster, Metrics: p.lasting.metrics, Options: options}
		p.loop("deletioncost", costs.Reconcile, time.Second, time.Second, time.Minute)
	}

	correct := func(string) {}
	if p.opt.FeatureGates["NodeOverlay"] {
		correct = p.correctCatalogs(provisioning, disrupting)
	}
	p.cluster.OnCatalogChange(func() {
		correct("catalog")
		provisioning.Trigger("catalog")
		disrupting.Trigger("catalog")
	})
	p.watch(provisioning, disrupting, disruptor, pools, classes, resize)
}

// watch adds the watches that trigger the loops.
func (p *parts) watch(provisioning, disrupting *controller.Loop, disruptor *disrupt.Reconciler, pools, classes *controller.Loop, resize func(cause string)) {
	informers := p.mgr.GetCache()
	if p.opt.FeatureGates["CapacityBuffer"] {
		p.watches = append(p.watches, func(ctx context.Context) error { return capacitybuffer.Watch(ctx, informers, provisioning.Trigger) })
	}
	if p.opt.FeatureGates["ProvisioningRequest"] {
		p.watches = append(p.watches, func(ctx context.Context) error {
			return provisioningrequest.Watch(ctx, informers, provisioning.Trigger)
		})
	}
	p.watches = append(p.watches,
		func(ctx context.Context) error {
			return provision.Watch(ctx, informers, provisioning.Trigger, provisioning.Join)
		},
		func(ctx context.Context) error {
			return disrupt.Watch(ctx, informers, disrupting.Trigger, func(node *corev1.Node) {
				disruptor.ReportFault(node)
				disrupting.Hurry(string(node.UID), nil)
			})
		},
		func(ctx context.Context) error {
			return nodepool.Watch(ctx, informers, func(cause string) {
				pools.Trigger(cause)
				resize(cause)
			})
		},
		func(ctx context.Context) error {
			return nodeclass.Watch(ctx, p.cluster, func(cause string) {
				classes.Trigger(cause)
				pools.Trigger(cause)
			})
		},
	)
}

// correctCatalogs adds the loop that writes the status of NodeOverlays. If a NodeOverlay changes, it triggers all buyers. correctCatalogs
// returns a function that triggers the loop.
func (p *parts) correctCatalogs(buyers ...*controller.Loop) func(cause string) {
	overlays := nodeoverlay.New(nodeoverlay.Config{Cluster: p.cluster, Recorder: p.recorder})
	loop := p.loop("nodeoverlay", overlays.Reconcile, 100*time.Millisecond, time.Second, time.Minute)
	p.watches = append(p.watches, func(ctx context.Context) error {
		return nodeoverlay.Watch(ctx, p.mgr.GetCache(), func(cause string) {
			loop.Trigger(cause)
			for _, buyer := range buyers {
				buyer.Trigger(cause)
			}
		})
	})
	return loop.Trigger
}

// listen adds two loops for each source of the cloud's notices, so that a source is read even while earlier machines are still being left.
func (p *parts) listen(cloud provider.Provider) {
	for _, source := range provider.Sources(cloud) {
		var leaving *controller.Loop
		listener := interruption.New(interruption.Config{
			Cluster: p.cluster, Notifier: source, Recorder: p.recorder, Metrics: p.lasting.metrics,
			Hurry: func(then func()) { p.provisioning.Hurry("notice", then) },
			Ready: func() { leaving.Trigger("notice") },
		})
		name := "interruption"
		if source.Name != "" {
			name += "." + source.Name
		}
		p.loop(name, listener.Reconcile, 0, 0, source.Every)
		leaving = p.loop(name+".leave", listener.Leave, 0, 0, time.Second)
	}
}

// `tell` publishes a Kubernetes event for an event of the provider.
func (p *parts) tell(e provider.Event) {
	p.recorder.Publish(report.Event{Object: e.Object, Warning: e.Warning, Reason: e.Reason, Message: e.Message, Key: e.Message})
}

// cleanEvery is the time between two cleanups in the cloud.
const cleanEvery = 30 * time.Second

// keepHouse adds the cleanup loop if the provider has one. Deletion of a class triggers the loop immediately.
func (p *parts) keepHouse(cloud provider.Provider) {
	housekeeper, ok := cloud.(provider.Housekeeper)
	if !ok {
		return
	}
	cleaning := p.loop("housekeeping", housekeeper.Clean, 200*time.Millisecond, time.Second, cleanEvery)
	p.watches = append(p.watches, func(ctx context.Context) error { return nodeclass.WatchEnds(ctx, p.cluster, cleaning.Trigger) })
}

// lead runs while this process is the leader.
func (p *parts) lead(ctx context.Context) error {
	p.log.Info("leading")
	defer p.ports.catalogHandler.Store(nil)
	handler := p.catalogEndpoint()
	p.ports.catalogHandler.Store(&handler)
	var group errgroup.Group
	p.keepJournal(ctx, &group)
	defer p.ports.journalHandler.Store(nil)
	defer p.ports.pageHandler.Store(p.ports.pageHandler.Load()) // restores the follower's page
	page := p.dashboardEndpoint(ctx)
	p.ports.pageHandler.Store(&page)
	group.Go(func() error {
		if err := p.announce(ctx); err != nil { // only one command lacks something, so the controller leads nevertheless
			p.log.Info("snapshots will not find the catalog by themselves, nor followers the dashboard", "cause", err.Error())
		}
		return nil
	})
	group.Go(func() error { return p.recorder.Start(ctx) })
	for _, watch := range p.watches {
		if err := watch(ctx); err != nil {
			return err
		}
	}
	for _, loop := range p.loops {
		group.Go(func() error { return loop.Start(ctx) })
	}
	group.Go(func() error { return p.observe(ctx) })
	return group.Wait()
}

// becomeReady marks the controller as ready once its caches are filled, and as unready while a kind is missing.
func (p *parts) becomeReady(ctx context.Context) error {
	if !p.mgr.GetCache().WaitForCacheSync(ctx) {
		return nil
	}
	p.unsynced.End()
	for ctx.Err() == nil {
		missing := p.missingKinds()
		ready := func() error { return missing }
		p.ports.ready.Store(&ready)
		pause(ctx, 30*time.Second)
	}
	return nil
}

func (c *autoscaler) setHealth(loops []*controller.Loop) {
	healthy := func() error {
		var errs []error
		for _, loop := range loops {
			errs = append(errs, loop.Healthy())
		}
		return errors.Join(errs...)
	}
	c.ports.healthy.Store(&healthy)
}

// everywhere is a runnable for followers and the leader.
type everywhere func(context.Context) error

// Start runs it.
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection returns false.
func (e everywhere) NeedLeaderElection() bool { return false }

// leading is a runnable for the leader only.
type leading func(context.Context) error

// Start runs it.
func (l leading) Start(ctx context.Context) error { return l(ctx) }

// NeedLeaderElection returns true.
func (l leading) NeedLeaderElection() bool { return true }
