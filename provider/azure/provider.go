// Package azure starts and stops virtual machines of Azure: it serves the node class AKSNodeClass, and speaks to Azure through the
// SDK.
//
// This package holds the pieces together and says what a class lacks. The pieces are beside it: cloud (the connection and its
// errors), image (what machines are started from), market (what there is to buy, from size, price, sku and soldout), userdata (what
// a machine is told), machine (what one is made of, and those that run). Which machine to start, and when one should go, is
// decided in package engine.
//
// A claim's machine has a name that follows from the claim's. What Azure says of the machine of that name is what is true: nothing
// of a launch is kept anywhere else, so that whoever comes after a crash goes on where the one before was.
package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/aks"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/azure/market"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/soldout"
	"tenon.sh/provider/fresh"
	"tenon.sh/provider/jointoken"
)

var (
	_ provider.Provider    = &Provider{}
	_ provider.Foreteller  = &Provider{}
	_ provider.Inspector   = &Provider{}
	_ provider.Housekeeper = &Provider{}
	_ provider.Rationer    = &Provider{}
	_ provider.Repairer    = &Provider{}
	_ provider.Releaser    = &Provider{}
	_ provider.Hearer      = &Provider{}
)

// Provider is the resource group that the cluster's machines live in.
type Provider struct {
	config Config
	clock  clock.Clock
	client client.Client
	cloud  *cloud.Cloud

	images   *image.Finder
	market   *market.Market
	marks    *soldout.Marks
	machines *machine.Machines
	launches *launches
	tokens   *jointoken.Minter // nil if no tokens are made
	aks      *aks.Cluster      // nil in clusters that are not AKS
	metrics  *metrics
	// strangersKey lets nobody in: Azure wants a key where no password is allowed.
	strangersKey string

	looked   *fresh.Cache[string, struct{}] // when nodes were looked at
	versions *fresh.Cache[string, string]
	strays   strayNICs

	unclaimed unclaimed
	bills     bills
}

// New makes a provider. It asks Azure for nothing yet.
func New(cfg Config) (*Provider, error) {
	cfg.Mode = cmp.Or(cfg.Mode, ModeScriptless)
	cfg.AdminUsername = cmp.Or(cfg.AdminUsername, DefaultAdminUsername)
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Cloud == nil || cfg.Client == nil || cfg.Version == nil {
		return nil, errors.New("make the azure provider: it needs a connection to Azure, a Kubernetes client and the API server's version")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Tell == nil {
		cfg.Tell = func(provider.Event) {}
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry() // nobody reads it
	}
	p := &Provider{config: cfg, clock: cfg.Clock, client: cfg.Client, cloud: cfg.Cloud, metrics: newMetrics(cfg.Registry)}
	var err error
	if p.strangersKey, err = newStrangersKey(); err != nil {
		return nil, err
	}
	p.marks = soldout.New(cfg.Clock)
	p.market = market.New(market.Config{Cloud: cfg.Cloud, Clock: cfg.Clock, Marks: p.marks, NoRetailPrices: !cfg.Cloud.HasRetailPrices()})
	images := image.Config{Cloud: cfg.Cloud, Clock: cfg.Clock, UseSIG: cfg.UseSIG, SIGSubscription: cfg.SIGSubscription}
	if !p.selfManaged() { // elsewhere nobody says when nodes may be updated
		images.Window = p.maintenanceWindow
	}
	p.images = image.New(images)
	if !p.selfManaged() {
		p.aks = aks.New(aks.Config{
			Cloud: cfg.Cloud, Clock: cfg.Clock, Reader: cfg.reader(), NodeResourceGroup: cfg.ResourceGroup, NetworkGUID: cfg.NetworkGUID, DNSServiceIP: cfg.DNSServiceIP,
		})
	}
	p.machines = machine.New(cfg.Cloud, cfg.Clock, cfg.ResourceGroup, cfg.ClusterName, p.agentPool)
	p.launches = newLaunches(cfg.Clock)
	p.looked = fresh.New[string, struct{}](cfg.Clock, lookedFor)
	p.versions = fresh.New[string, string](cfg.Clock, versionFor)
	if cfg.JoinTokens {
		secrets := cfg.Secrets
		if secrets == nil {
			secrets = cfg.Client
		}
		p.tokens = jointoken.New(jointoken.Config{Client: secrets, Clock: cfg.Clock, Cluster: cfg.ClusterName})
	}
	return p, nil
}

// Name is "azure".
func (p *Provider) Name() string { return "azure" }

// Kinds is AKSNodeClass alone.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{azurev1beta1.GroupVersion.WithKind("AKSNodeClass")}
}

// selfManaged reports whether the cluster is not AKS.
func (p *Provider) selfManaged() bool { return p.config.Mode == ModeUserData }

// classOf is the node class as what it is.
func classOf(class provider.Class) (*azurev1beta1.AKSNodeClass, error) {
	c, ok := class.Object.(*azurev1beta1.AKSNodeClass)
	if !ok {
		return nil, fmt.Errorf("node class %s: the azure provider serves AKSNodeClass, not %T", class.Ref.Name, class.Object)
	}
	return c, nil
}

// Catalog lists every size that machines of the class can have. Classes that ask for the same get the same list.
func (p *Provider) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	p.learn(ctx)
	s := p.settings(c)
	if s.Regional, err = p.asksForRegional(ctx, c.Name); err != nil {
		return nil, err
	}
	types, err := p.market.Catalog(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("node class %s: %w", c.Name, err)
	}
	return types, nil
}

// Quotas are those of cores that the subscription has in the region, as Azure was last asked. Catalog asks.
func (p *Provider) Quotas(context.Context, provider.Class) ([]engine.Quota, error) {
	return p.market.Quotas(), nil
}

// settings are what the class asks for in this installation.
func (p *Provider) settings(c *azurev1beta1.AKSNodeClass) size.Settings {
	s := size.Defaults(p.cloud.Location)
	s.Plugin, s.Mode, s.SelfManaged = p.config.NetworkPlugin, p.config.NetworkPluginMode, p.selfManaged()
	if p.config.MemoryOverhead != nil {
		s.MemoryOverhead = *p.config.MemoryOverhead
	}
	if !p.selfManaged() {
		s.Cluster = size.ClusterLabel(p.config.ResourceGroup)
	}
	return size.SettingsOf(c, s)
}

// asksForRegional reports whether a pool of the class asks for machines that are in no zone in particular. Where sizes are sold in
// zones, they are offered in none only then: such machines are one more zone to pods that spread over zones.
func (p *Provider) asksForRegional(ctx context.Context, class string) (bool, error) {
	var pools v1.NodePoolList
	if err := p.client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list NodePools, to see whether one asks for machines in no zone: %w", err)
	}
	for i := range pools.Items {
		spec := &pools.Items[i].Spec.Template.Spec
		if ref := spec.NodeClassRef; ref == nil || ref.Group != azurev1beta1.Group || ref.Name != class {
			continue
		}
		for _, r := range spec.Requirements {
			switch v1.NormalizeLabel(r.Key) {
			case azurev1beta1.PlacementScopeLabelKey:
				if r.Operator == v1.In && slices.Contains(r.Values, azurev1beta1.PlacementRegional) {
					return true, nil
				}
			case corev1.LabelTopologyZone:
				if r.Operator == v1.In && (slices.Contains(r.Values, assortment.RegionalZone) || slices.Contains(r.Values, "")) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
