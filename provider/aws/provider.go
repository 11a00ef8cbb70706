// Package aws starts and stops machines of EC2 through the AWS SDK. Its node class is EC2NodeClass.
//
// This package connects its subpackages and reports problems of a class. The subpackages are cloud (the connections and their errors), find
// (the objects to which a class refers), market (the catalog, from size, price and soldout), kubelet (a class's fields for the kubelet),
// userdata and template (a machine's settings), fleet (requests for machines), machine (running machines), and notice (interruptions).
// Package engine decides which machine to start, and when a machine should go.
package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/devicetable"
	"tenon.sh/provider/aws/expression"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/aws/market"
	"tenon.sh/provider/aws/notice"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/aws/soldout"
	"tenon.sh/provider/aws/template"
	"tenon.sh/provider/fresh"
)

// listedFor is the time for which callers share one list of the machines.
const listedFor = 2 * time.Second

// Provider is the provider for the cluster's account and region.
type Provider struct {
	config  Config
	clock   clock.Clock
	client  client.Client
	cloud   *cloud.Cloud
	cluster *Cluster
	finder  *find.Finder
	market  *market.Market
	marks   *soldout.Marks
	// expressions is nil if classes may have no expressions.
	expressions *expression.Calculator
	looked      *fresh.Cache[string, struct{}] // the last look at the nodes
	nearlyFull  *fresh.Cache[string, struct{}] // classes that noteUserData has warned of
	rehearsals  rehearsals

	templates *template.Templates
	fleet     *fleet.Fleet
	machines  *machine.Machines
	ledger    *launchLog
	dealing   sync.Mutex // held while machines are dealt to claims
	listed    *fresh.Cache[string, listing]
	shifts    shifts
	queue     *queueSource // nil without a queue
	health    *health
	metrics   *metrics
	showcase  *metricsExporter
	// profilesCleaned is the time of the last search for unused instance profiles. Only Clean uses it.
	profilesCleaned time.Time
}

// New makes a provider from the SDK's standard environment, or from cfg.SDK. It calls no service of AWS, except that it asks the metadata
// service for the region if none is configured.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Tell == nil {
		cfg.Tell = func(provider.Event) {}
	}
	if cfg.SDK == nil {
		sdk, err := cloud.Load(ctx, cfg.UserAgent)
		if err != nil {
			return nil, err
		}
		cfg.SDK = &sdk
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry() // not exported
	}
	counts := newMetrics(cfg.Registry)
	c, err := cloud.New(cloud.Bounded(cloud.Observed(cloud.Fenced(*cfg.SDK, cfg.May), counts), cfg.Clock))
	if err != nil {
		return nil, err
	}
	p := &Provider{config: cfg, clock: cfg.Clock, client: cfg.Client, cloud: c, metrics: counts}
	p.cluster = newCluster(&cfg, c, cfg.Clock)
	p.finder = find.New(find.Config{Cloud: c, Clock: cfg.Clock, Cluster: cfg.ClusterName, AMIRefresh: cfg.AMIRefresh, SubnetRefresh: cfg.SubnetRefresh})
	p.marks = soldout.New(cfg.Clock)
	if cfg.NodeClassCEL {
		p.expressions = expression.New()
	}
	p.market = market.New(market.Config{
		Cloud: c, Clock: cfg.Clock, Isolated: cfg.IsolatedVPC, Marks: p.marks, Slots: p.finder.Slots, Expressions: p.expressions, NoReserved: cfg.NoReserved,
	})
	p.looked = fresh.New[string, struct{}](cfg.Clock, time.Minute)
	p.nearlyFull = fresh.New[string, struct{}](cfg.Clock, time.Hour)
	p.rehearsals = rehearsals{fresh.New[string, verdict](cfg.Clock, rehearsalAge), fresh.New[string, verdict](cfg.Clock, refusedAge)}
	p.prepareLaunches()
	return p, nil
}

// prepareLaunches makes the parts that start, watch and stop machines.
func (p *Provider) prepareLaunches() {
	cfg := &p.config
	p.showcase = newMetricsExporter(p.clock, p.market.Prices)
	cfg.Registry.MustRegister(p.showcase)
	p.ledger = newLaunchLog(p.clock)
	p.listed = fresh.New[string, listing](p.clock, listedFor)
	p.templates = template.NewTemplates(p.cloud, p.clock, cfg.ClusterName)
	p.machines = machine.New(machine.Config{Cloud: p.cloud, Clock: p.clock, Cluster: cfg.ClusterName, Observe: p.metrics.batch})
	p.fleet = fleet.New(fleet.Config{
		Cloud: p.cloud, Clock: p.clock, Templates: p.templates, Addresses: p.finder.Addresses, Slots: p.finder.Slots, Marks: p.marks,
		Window:  cfg.LaunchWindow,
		Observe: func(open time.Duration, items int) { p.metrics.batch("create_fleet", open, items) },
		Refused: p.metrics.refused, Dealt: p.dealt,
	})
	if cfg.InterruptionQueue != "" {
		p.queue = newQueueSource(p, notice.NewQueue(p.cloud, p.clock, cfg.InterruptionQueue, cfg.QueueWait, p.metrics))
	}
	p.health = &health{Provider: p, ailing: map[notice.Ailment]bool{}}
	p.profilesCleaned = p.clock.Now()
}

// Name returns "aws".
func (p *Provider) Name() string { return "aws" }

// Kinds returns EC2NodeClass.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{awsv1.GroupVersion.WithKind("EC2NodeClass")}
}

// classOf returns the node class with its Go type.
func classOf(class provider.Class) (*awsv1.EC2NodeClass, error) {
	c, ok := class.Object.(*awsv1.EC2NodeClass)
	if !ok {
		return nil, fmt.Errorf("node class %s: the aws provider serves EC2NodeClass, not %T", class.Ref.Name, class.Object)
	}
	return c, nil
}

// Catalog lists every instance type that machines of the class can have, in the zones of its subnets. Equal classes get the same list.
func (p *Provider) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	managed, err := kubelet.Read(c.Spec.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("node class %s: %w", c.Name, err)
	}
	group, err := p.finder.PlacementGroup(ctx, c.Spec.PlacementGroupSelector)
	if err != nil && group == nil {
		return nil, fmt.Errorf("node class %s: %w", c.Name, err)
	}
	p.learn(ctx)
	strategy := ""
	if group != nil {
		strategy = group.Strategy
	}
	types, err := p.market.Catalog(ctx, market.Want{
		Settings:     p.settings(c, managed),
		Demands:      size.DemandsOf(c, strategy),
		Subnets:      c.Status.Subnets,
		Reservations: c.Status.CapacityReservations,
		Images:       c.Status.AMIs,
		Group:        group,
	})
	if err != nil {
		return nil, fmt.Errorf("node class %s: %w", c.Name, err)
	}
	p.shifts.saw(c.Status.Subnets)
	p.showcase.show(c.Name, types)
	return types, nil
}

func (p *Provider) settings(c *awsv1.EC2NodeClass, managed kubelet.Managed) size.Settings {
	s := size.SettingsOf(c, managed, p.config.memoryOverhead(), p.config.ReservedENIs)
	s.Claims = size.Claims{NVIDIA: p.config.DRANVIDIAGPU, EFA: p.config.DRAEFA}
	if p.config.DRANVIDIAGPU {
		s.Claims.Sharing = c.Annotations[devicetable.SharingAnnotation]
	}
	return s
}
