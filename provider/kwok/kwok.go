// Package kwok shows the machines of the simulated cloud as Node objects. KWOK plays their kubelets. It is the default provider, and
// compatible with the node class, labels and taints of Karpenter's KWOK provider.
//
// A machine exists in memory; its Node exists in the API server. Once a machine has booted, the provider creates its Node. Once the machine
// is gone, the provider deletes the Node, as a cloud controller manager would. The controllers drain Nodes and handle finalizers; package
// simulated decides the price of a machine and the time of its failure.
//
// A restart forgets the machines but loses none: the provider finds them again from their Nodes, and from the claims that were launched and
// have no Node yet. A claim without either is launched again; its machine gets the same name.
package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

// IDPrefix begins the provider ID of every machine. The rest of the ID is the name of its Node.
const IDPrefix = "kwok://"

var (
	_ provider.Provider = &Provider{}
	_ provider.Notifier = &Provider{}
	_ provider.Repairer = &Provider{}
)

// usualRepair is the default time after which the machine of a node that is not ready counts as broken.
const usualRepair = 10 * time.Minute

// Config holds the settings of a Provider.
type Config struct {
	// Client writes Nodes and reads claims.
	Client client.Client
	// Reader reads, without a cache, the objects that existed before a restart; nil means Client.
	Reader client.Reader
	// Clock is the cloud's clock.
	Clock clock.Clock
	// Cloud runs the machines. Its IDPrefix must be this package's.
	Cloud *simulated.Cloud
	// RepairAfter is the time after which the machine of a node that is not ready counts as broken; 0 means 10 minutes.
	RepairAfter time.Duration
}

// Provider shows the machines of a simulated cloud as Nodes. Tick does the work; Start calls Tick when work is due. Only the leader may call
// Launch, Terminate, Machine, Machines and Tick: the first of these calls finds the machines that already exist.
type Provider struct {
	*simulated.Provider // serves the classes, the catalog and the notices

	cloud  *simulated.Cloud
	client client.Client
	reader client.Reader
	clock  clock.Clock
	wake   chan struct{}
	broken time.Duration // the machine of a node that is not ready for so long counts as broken

	mu    sync.Mutex // guards the five below
	known bool       // the machines from before a restart have been found
	// booting holds the machines whose Node has not been created yet.
	booting map[engine.MachineID]bool
	// nodes holds the Node of every machine that has one, by UID.
	nodes map[engine.MachineID]types.UID
	// seconds holds the machines that have a second Node, because of a fault.
	seconds map[engine.MachineID]bool
	// released holds the machines that Release has released.
	released map[engine.MachineID]bool

	ticking sync.Mutex // one Tick at a time
}

// New makes a provider. It reads and writes nothing yet.
func New(cfg Config) (*Provider, error) {
	if cfg.Client == nil || cfg.Clock == nil || cfg.Cloud == nil {
		return nil, errors.New("make the kwok provider: it needs a client, a clock and a cloud")
	}
	if cfg.Cloud.IDPrefix() != IDPrefix {
		return nil, fmt.Errorf("make the kwok provider: the IDs of its cloud begin with %s instead of %s", cfg.Cloud.IDPrefix(), IDPrefix)
	}
	p := &Provider{
		Provider: simulated.New(cfg.Cloud),
		cloud:    cfg.Cloud,
		client:   cfg.Client,
		reader:   cfg.Reader,
		clock:    cfg.Clock,
		wake:     make(chan struct{}, 1),
		broken:   cmp.Or(cfg.RepairAfter, usualRepair),
		booting:  map[engine.MachineID]bool{},
		nodes:    map[engine.MachineID]types.UID{},
		seconds:  map[engine.MachineID]bool{},
		released: map[engine.MachineID]bool{},
	}
	if p.reader == nil {
		p.reader = cfg.Client
	}
	return p, nil
}

// Name returns "kwok".
func (p *Provider) Name() string { return "kwok" }

// Launch starts a machine. Its Node is created once it has booted, if its claim still exists then.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	if err := p.takeIn(ctx); err != nil {
		return engine.Machine{}, err
	}
	m, err := p.Provider.Launch(ctx, claim, class)
	if err != nil {
		return m, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, shown := p.nodes[m.ID]; !shown {
		p.booting[m.ID] = true
		p.wakeUp()
	}
	return m, nil
}

// Terminate tells a machine to stop. Once the machine is gone, Terminate deletes its Node, respects finalizers, and only then returns
// ErrGone. Otherwise, after a restart in between, the provider would take the Node for a running machine.
func (p *Provider) Terminate(ctx context.Context, id engine.MachineID) error {
	if err := p.takeIn(ctx); err != nil {
		return err
	}
	defer p.wakeUp()
	err := p.Provider.Terminate(ctx, id)
	if !errors.Is(err, provider.ErrGone) {
		return err
	}
	if uid, found := p.nodeOf(id); found {
		if err := p.hide(ctx, id, uid); err != nil {
			return err
		}
	}
	return err
}

// Machine returns one machine, whether it has a Node or not.
func (p *Provider) Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error) {
	if err := p.takeIn(ctx); err != nil {
		return engine.Machine{}, err
	}
	return p.Provider.Machine(ctx, id)
}

// Machines lists every machine, whether it has a Node or not.
func (p *Provider) Machines(ctx context.Context) ([]engine.Machine, error) {
	if err := p.takeIn(ctx); err != nil {
		return nil, err
	}
	list, err := p.Provider.Machines(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(list, func(m engine.Machine) bool { return p.released[m.ID] }), err
}

// Repairs returns four policies: two for nodes whose condition Ready is False or Unknown, and two for conditions that users set to have a
// machine of this cloud replaced. The latter give pods some time to move.
func (p *Provider) Repairs() []engine.RepairPolicy {
	const asked = 30 * time.Second
	return []engine.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Toleration: p.broken},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Toleration: p.broken},
		{Condition: "KWOKUnhealthy", Status: string(corev1.ConditionTrue), Toleration: asked, Grace: 45 * time.Second},
		{Condition: "KWOKRebootRequired", Status: string(corev1.ConditionTrue), Toleration: asked, Grace: time.Minute},
	}
}

// nodeName returns the name of a machine's Node: the part of its ID after the prefix.
func nodeName(id engine.MachineID) string { return strings.TrimPrefix(string(id), IDPrefix) }

func (p *Provider) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// retryAfter is the time that Start waits after a failed read or write, and retryAtMost the time after many failures in a row.
const (
	retryAfter  = time.Second
	retryAtMost = time.Minute
)
