// Package azure starts and stops virtual machines of Azure through Azure's SDK. Its node class is AKSNodeClass.
//
// This package connects its subpackages and reports problems of a class. The subpackages are cloud (the connection and its errors), image
// (the images of machines), market (the catalog, from size, price, sku and soldout), userdata (custom data of self-managed nodes), bootstrap
// and aks (custom data and network objects of AKS nodes), and machine (requests for machines, and running machines). Package engine decides
// which machine to start, and when a machine should go.
//
// The name of a claim's machine follows from the claim's name. Azure's machine of that name is the only state of a launch, so another process
// continues it after a crash.
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

// Provider is the provider for the resource group of the cluster's machines.
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
	// strangersKey is a key without a private half, because Azure demands a key if no password is allowed.
	strangersKey string

	looked   *fresh.Cache[string, struct{}] // the last look at the nodes
	versions *fresh.Cache[string, string]
	strays   strayNICs

	unclaimed unclaimed
	bills     bills
}

// New makes a provider. It calls no service of Azure yet.
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
		cfg.Registry = prometheus.NewRegistry() // not exported
	}
	p := &Provider{config: cfg, clock: cfg.Clock, client: cfg.Client, cloud: cfg.Cloud, metrics: newMetrics(cfg.Registry)}
	var err error
	if p.strangersKey, err = newStrangersKey(); err != nil {
		return nil, err
	}
	p.marks = soldout.New(cfg.Clock)
	p.market = market.New(market.Config{Cloud: cfg.Cloud, Clock: cfg.Clock, Marks: p.marks, NoRetailPrices: !cfg.Cloud.HasRetailPrices()})
	images := image.Config{Cloud: cfg.Cloud, Clock: cfg.Clock, UseSIG: cfg.UseSIG, SIGSubscription: cfg.SIGSubscription}
	if !p.selfManaged() { // clusters that are not AKS have no maintenance window
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

// Name returns "azure".
func (p *Provider) Name() string { return "azure" }

// Kinds returns AKSNodeClass.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{azurev1beta1.GroupVersion.WithKind("AKSNodeClass")}
}

// selfManaged reports whether the cluster is not AKS.
func (p *Provider) selfManaged() bool { return p.config.Mode == ModeUserData }

// classOf returns the node class with its Go type.
func classOf(class provider.Class) (*azurev1beta1.AKSNodeClass, error) {
	c, ok := class.Object.(*azurev1beta1.AKSNodeClass)
	if !ok {
		return nil, fmt.Errorf("node class %s: the azure provider serves AKSNodeClass, not %T", class.Ref.Name, class.Object)
	}
	return c, nil
}

// Catalog lists every size that machines of the class can have. Equal classes get the same list.
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

// Quotas returns the region's quotas of cores, from Azure's last answer. Catalog asks for them.
func (p *Provider) Quotas(context.Context, provider.Class) ([]engine.Quota, error) {
	return p.market.Quotas(), nil
}

// settings returns the settings of the class in this installation.
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

// asksForRegional reports whether a NodePool of the class asks for machines without a zone. Only then are sizes that are sold in zones
// offered without a zone as well, because such machines are one more zone for pods that spread over zones.
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
