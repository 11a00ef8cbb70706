// Package kwok shows the machines of the simulated cloud as Node objects, for KWOK to play the kubelet of. It is the
// default provider, and compatible with the node class, labels and taints of Karpenter's KWOK provider.
//
// A machine exists in memory; its Node exists in the API server. When a machine has booted, its Node is created; when it
// is gone, its Node is deleted, as a cloud controller manager would. Draining, finalizers and everything else about
// Nodes are left to the controllers, and what a machine costs or when it fails to package simulated.
//
// A restart forgets the machines, and nothing is lost by it: they are found again from their Nodes, and from the claims
// whose machine has been started and has no Node yet. A claim without either is launched again; the machine gets the
// same name.
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

// IDPrefix begins the provider ID of every machine; the name of its Node follows.
const IDPrefix = "kwok://"

var (
	_ provider.Provider = &Provider{}
	_ provider.Notifier = &Provider{}
	_ provider.Repairer = &Provider{}
)

// usualRepair is how long a node is not ready, unless said otherwise, before its machine counts as broken.
const usualRepair = 10 * time.Minute

// Config is what a Provider is made from.
type Config struct {
	// Client writes Nodes and reads claims.
	Client client.Client
	// Reader reads past any cache what was there before a restart; nil means Client.
	Reader client.Reader
	// Clock is that of the cloud.
	Clock clock.Clock
	// Cloud runs the machines. Its IDPrefix is that of this package.
	Cloud *simulated.Cloud
	// RepairAfter is how long a node must have been not ready for its machine to count as broken; 0 means 10 minutes.
	RepairAfter time.Duration
}

// Provider shows the machines of a simulated cloud as Nodes. Tick does the work, Start calls it when it is due. Launch,
// Terminate, Machine, Machines and Tick are for the leader alone: the first of them takes in what is there.
type Provider struct {
	*simulated.Provider // serves the classes, the catalog and the notices

	cloud  *simulated.Cloud
	client client.Client
	reader client.Reader
	clock  clock.Clock
	wake   chan struct{}
	broken time.Duration // how long a node is not ready before its machine counts as broken

	mu    sync.Mutex // guards the five below
	known bool       // what was there before a restart has been taken in
	// booting holds the machines whose Node has not been created yet.
	booting map[engine.MachineID]bool
	// nodes holds the Node of every machine that has one, by UID.
	nodes map[engine.MachineID]types.UID
	// seconds holds the machines that have another Node besides, by a fault.
	seconds map[engine.MachineID]bool
	// released holds machines that were let go.
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

// Name is "kwok".
func (p *Provider) Name() string { return "kwok" }

// Launch starts a machine. Its Node appears once it has booted, if its claim still exists then.
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

// Terminate tells a machine to stop. When the machine is gone its Node is deleted, finalizers being respected, and only
// then is the answer ErrGone: otherwise a restart in between would take the Node for a running machine.
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

// Repairs are the two ways in which a node is not ready (its kubelet says so, or says nothing any more), and two conditions for
// whoever wants a machine of this cloud to be replaced, with some time for its pods.
func (p *Provider) Repairs() []engine.RepairPolicy {
	const asked = 30 * time.Second
	return []engine.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Toleration: p.broken},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Toleration: p.broken},
		{Condition: "KWOKUnhealthy", Status: string(corev1.ConditionTrue), Toleration: asked, Grace: 45 * time.Second},
		{Condition: "KWOKRebootRequired", Status: string(corev1.ConditionTrue), Toleration: asked, Grace: time.Minute},
	}
}

// nodeName is the name of a machine's Node: the part of its ID after the prefix.
func nodeName(id engine.MachineID) string { return strings.TrimPrefix(string(id), IDPrefix) }

func (p *Provider) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default: // it will be woken already
	}
}

// retryAfter is how long the runner waits after a failure to write or read, and retryAtMost how long after many in a row.
const (
	retryAfter  = time.Second
	retryAtMost = time.Minute
)
