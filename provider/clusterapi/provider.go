// Package clusterapi takes machines from MachineDeployments of Cluster API. A NodeClaim adds one replica, and its end removes exactly its Machine.
//
// What is true stands on the Machines, in the management cluster: an annotation says which NodeClaim a Machine belongs to. How
// many replicas a MachineDeployment is to have is counted anew from its Machines and the claims that wait for one, each time,
// and never added up, so that neither repeated calls nor restarts double or lose a machine.
package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/batch"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

var (
	_ provider.Provider    = &Provider{}
	_ provider.Foreteller  = &Provider{}
	_ provider.Inspector   = &Provider{}
	_ provider.Housekeeper = &Provider{}
	_ provider.Releaser    = &Provider{}
	_ provider.Repairer    = &Provider{}

	_ provider.HealthChecker = &Provider{}
	_ provider.Examiner      = &Provider{}
	_ provider.Examiner      = Examiner{}
)

// Management reaches the API server that holds Cluster API's objects.
type Management struct {
	// Live reads and writes past any cache, Cached reads from one.
	Live   client.Client
	Cached client.Reader
}

// Config is what a Provider is made from.
type Config struct {
	// Client reads the workload cluster, from a cache.
	Client client.Reader
	// Management is the way to the management cluster as it is now, or says why there is none.
	Management func() (*Management, error)
	Clock      clock.Clock
	// May, unless it is nil, says before anything is written what speaks against it.
	May func(what string) error
	// Wait is how long a launch waits for a machine before it says that it is pending; 0 means 5 seconds.
	Wait time.Duration
	// Grace is how long a Machine that belongs to no claim is left for one; 0 means 2 minutes.
	Grace time.Duration
	// Settle is how long a Machine has been marked before its replica is taken away; 0 means 3 seconds. Cluster API sees Machines and
	// replicas by watches of their own: fewer replicas that it sees before the mark would take another Machine.
	Settle time.Duration
}

// Provider is the provider for Cluster API. All its methods may be called from several goroutines.
type Provider struct {
	cfg    Config
	scales *batch.Batcher[order, *contract.Machine]

	mu sync.Mutex // guards what follows
	// cluster is the UID of the workload cluster, "" until it is known.
	cluster string
	// waiting holds the claims that are being launched, by MachineDeployment, and since when.
	waiting map[string]map[types.UID]time.Time
	// held says why no machines are asked of a MachineDeployment for now.
	held map[string]hold
	// names holds where Machines with a provider ID are, for when they are gone from the cache.
	names map[engine.MachineID]types.NamespacedName
	// templates are those that were read lately.
	templates map[string]readAt
}

// hold is a MachineDeployment that makes no machines although it could.
type hold struct {
	why   string
	until time.Time
}

// New makes a provider. It reads and writes nothing yet.
func New(cfg Config) (*Provider, error) {
	if cfg.Client == nil || cfg.Management == nil || cfg.Clock == nil {
		return nil, errors.New("make the provider for Cluster API: it needs both clusters and a clock")
	}
	cfg.Wait, cfg.Grace, cfg.Settle = cmp.Or(cfg.Wait, 5*time.Second), cmp.Or(cfg.Grace, 2*time.Minute), cmp.Or(cfg.Settle, 3*time.Second)
	if cfg.May == nil {
		cfg.May = func(string) error { return nil }
	}
	p := &Provider{cfg: cfg, waiting: map[string]map[types.UID]time.Time{}, held: map[string]hold{}, names: map[engine.MachineID]types.NamespacedName{}, templates: map[string]readAt{}}
	p.scales = batch.New(batch.Config[order, *contract.Machine]{
		Window: batch.Window{Idle: 100 * time.Millisecond, Most: time.Second, Items: 1000}, Call: p.scale,
	})
	return p, nil
}

// Name is "clusterapi".
func (p *Provider) Name() string { return "clusterapi" }

// Kinds is ClusterAPINodeClass.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{clusterapiv1alpha1.GroupVersion.WithKind("ClusterAPINodeClass")}
}

// repairAfter is how long a node may be not ready: MachineHealthChecks, which act after 5 to 10 minutes, go first. What they have
// found broken by then is theirs: see Tended.
const repairAfter = 30 * time.Minute

// Repairs are nodes that have not been ready for long.
func (p *Provider) Repairs() []engine.RepairPolicy {
	return []engine.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Toleration: repairAfter},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Toleration: repairAfter},
	}
}

// Tended are the claims whose Machines a MachineHealthCheck has found broken. It may have its reasons to leave them for now: too
// many are broken, or its replacements take their turn. Of Machines that are well by it, or that none looks at, nothing is said.
func (p *Provider) Tended(ctx context.Context, class provider.Class) (out []string, err error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	var list contract.MachineDeploymentList
	if err := m.Cached.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	selected, _, err := assortment.Selected(c, pointers(list.Items))
	if err != nil {
		return nil, err
	}
	machines, err := p.machinesByDeployment(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, d := range selected {
		for _, machine := range machines[assortment.Key(d)] {
			if claim := machine.Annotations[v1.MachineClaimAnnotationKey]; claim != "" && machine.Tended() {
				out = append(out, claim)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// classOf is the class as a type of Go.
func classOf(class provider.Class) (*clusterapiv1alpha1.ClusterAPINodeClass, error) {
	c, ok := class.Object.(*clusterapiv1alpha1.ClusterAPINodeClass)
	if !ok {
		return nil, fmt.Errorf("node class %s is a %T, not a ClusterAPINodeClass", class.Ref.Name, class.Object)
	}
	return c, nil
}

// errOutOfReach begins every error that there is no way to the management cluster.
var errOutOfReach = errors.New("reach the management cluster")

// management is the way to the management cluster.
func (p *Provider) management() (*Management, error) {
	m, err := p.cfg.Management()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOutOfReach, err)
	}
	return m, nil
}

// clusterUID is the UID of the workload cluster's namespace kube-system. By it the Machines of this cluster are told from those
// that other clusters have in the same management cluster.
func (p *Provider) clusterUID(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster != "" {
		return p.cluster, nil
	}
	ns := &corev1.Namespace{}
	if err := p.cfg.Client.Get(ctx, client.ObjectKey{Name: "kube-system"}, ns); err != nil {
		return "", fmt.Errorf("find out which cluster this is: read namespace kube-system: %w", err)
	}
	p.cluster = string(ns.UID)
	return p.cluster, nil
}
