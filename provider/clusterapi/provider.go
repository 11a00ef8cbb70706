// Package clusterapi takes machines from MachineDeployments of Cluster API. A NodeClaim adds one replica, and its end removes exactly its Machine.
//
// The Machines in the management cluster hold the truth: an annotation names the NodeClaim to which a Machine belongs. The number of replicas
// is counted again each time, from the Machines of a MachineDeployment and the claims that wait for one. It is never incremented, so neither
// repeated calls nor restarts double or lose a machine.
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

// Management holds clients for the API server with Cluster API's objects.
type Management struct {
	// Live reads and writes without a cache, Cached reads from one.
	Live   client.Client
	Cached client.Reader
}

// Config holds the settings of a Provider.
type Config struct {
	// Client reads the workload cluster, from a cache.
	Client client.Reader
	// Management returns the clients for the management cluster as it is now, or the reason why there are none.
	Management func() (*Management, error)
	Clock      clock.Clock
	// May, unless it is nil, is called before each write. Its error prevents the write.
	May func(what string) error
	// Wait is the time that a launch waits for a machine before it returns a PendingError; 0 means 5 seconds.
	Wait time.Duration
	// Grace is the time for which a Machine that belongs to no claim is kept for a claim; 0 means 2 minutes.
	Grace time.Duration
	// Settle is the time between the mark on a Machine and the removal of its replica; 0 means 3 seconds. Cluster API watches Machines and
	// replicas separately. If it saw fewer replicas before it saw the mark, it would delete another Machine.
	Settle time.Duration
}

// Provider is the provider for Cluster API. All its methods may be called from several goroutines.
type Provider struct {
	cfg    Config
	scales *batch.Batcher[order, *contract.Machine]

	mu sync.Mutex // guards the fields below
	// cluster is the UID of the workload cluster, "" until it is known.
	cluster string
	// waiting holds the claims that are being launched and the start of their waiting, by MachineDeployment.
	waiting map[string]map[types.UID]time.Time
	// held holds the MachineDeployments that are not asked for machines for now.
	held map[string]hold
	// names holds the names of Machines by provider ID, because the cache may not have a Machine any more.
	names map[engine.MachineID]types.NamespacedName
	// templates holds templates that were read lately.
	templates map[string]readAt
}

// hold describes why and until when a MachineDeployment is not asked for machines.
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

// Name returns "clusterapi".
func (p *Provider) Name() string { return "clusterapi" }

// Kinds returns ClusterAPINodeClass.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{clusterapiv1alpha1.GroupVersion.WithKind("ClusterAPINodeClass")}
}

// repairAfter is the time after which a node that is not ready is repaired. It is long because MachineHealthChecks, which act after 5 to 10
// minutes, go first. Machines that they have found broken are left to them: see Tended.
const repairAfter = 30 * time.Minute

// Repairs returns policies for nodes that have not been ready for a long time.
func (p *Provider) Repairs() []engine.RepairPolicy {
	return []engine.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Toleration: repairAfter},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Toleration: repairAfter},
	}
}

// Tended returns the claims whose Machines a MachineHealthCheck has found broken or may not replace. The MachineHealthCheck may leave a
// broken Machine for now, if too many are broken or if replacements are made one after another.
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

// classOf returns the class with its Go type.
func classOf(class provider.Class) (*clusterapiv1alpha1.ClusterAPINodeClass, error) {
	c, ok := class.Object.(*clusterapiv1alpha1.ClusterAPINodeClass)
	if !ok {
		return nil, fmt.Errorf("node class %s is a %T, not a ClusterAPINodeClass", class.Ref.Name, class.Object)
	}
	return c, nil
}

// errOutOfReach is wrapped by every error that means that the management cluster cannot be reached.
var errOutOfReach = errors.New("reach the management cluster")

// management returns the clients for the management cluster.
func (p *Provider) management() (*Management, error) {
	m, err := p.cfg.Management()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOutOfReach, err)
	}
	return m, nil
}

// clusterUID returns the UID of the workload cluster's namespace kube-system. It distinguishes the Machines of this cluster from those of
// other clusters in the same management cluster.
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
