package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/fresh"
)

const (
	// listedFor is the time for which callers that wait for machines share one list.
	listedFor = 4 * time.Second
	// shownWithin is the longest time that Azure's lists may lag behind.
	shownWithin = 2 * time.Minute
	// deletedAgain is the time after which the deletion of a machine that still exists is requested once more.
	deletedAgain = 10 * time.Minute
)

// Machines lists and deletes the machines of one cluster in one resource group. It may be used from several goroutines.
type Machines struct {
	cloud   *cloud.Cloud
	clock   clock.PassiveClock
	group   string
	cluster string // the value of the tag that distinguishes the machines of clusters in one group
	where   AgentPool
	listed  *fresh.Cache[string, map[string]Machine]

	mu      sync.Mutex           // guards the fields below
	asked   map[string]time.Time // when a machine was requested, by name
	deleted map[string]time.Time // when a machine's deletion was requested
}

// AgentPool returns the ID of the agent pool of a machine that AKS has made, and its name there.
type AgentPool func(context.Context, *Machine) (pool, name string, err error)

// New makes Machines. It calls no service.
func New(c *cloud.Cloud, clock clock.PassiveClock, group, cluster string, where AgentPool) *Machines {
	return &Machines{
		cloud: c, clock: clock, group: group, cluster: cluster, where: where,
		listed: fresh.New[string, map[string]Machine](clock, listedFor), asked: map[string]time.Time{}, deleted: map[string]time.Time{},
	}
}

// ErrOthers is the reason why a machine is left alone.
var ErrOthers = errors.New("belongs to another cluster, by its tag")

// Ours reports whether a machine, or another object with tags, belongs to the cluster.
func (m *Machines) Ours(machine *Machine) bool {
	return machine.Tag(azurev1beta1.ClusterTagKey) == m.cluster
}

// List lists the cluster's machines, in order of name. It looks up recently requested machines one by one if Azure's list does not show them
// yet.
func (m *Machines) List(ctx context.Context) ([]Machine, error) {
	m.listed.Forget("")
	known, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []Machine
	for _, machine := range known {
		out = append(out, m.overlaid(machine))
	}
	for _, name := range m.unshown(known) {
		machine, err := m.Get(ctx, name)
		if errors.Is(err, provider.ErrGone) || errors.Is(err, ErrOthers) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, machine)
	}
	slices.SortFunc(out, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (m *Machines) list(ctx context.Context) (map[string]Machine, error) {
	return m.listed.Get(ctx, "", func(ctx context.Context) (map[string]Machine, error) {
		vms, err := m.cloud.VMs(ctx, m.group)
		if err != nil {
			return nil, fmt.Errorf("list the machines in resource group %s: %w", m.group, err)
		}
		out := map[string]Machine{}
		for _, vm := range vms {
			if machine := Read(vm); m.Ours(&machine) {
				out[machine.Name] = machine
			}
		}
		return out, nil
	})
}

// overlaid returns a machine with corrections from this process's own knowledge.
func (m *Machines) overlaid(machine Machine) Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, told := m.deleted[machine.Name]; told && m.clock.Since(at) < deletedAgain {
		machine.Phase = Leaving
	}
	return machine
}

// unshown returns the recently requested machines that a list does not show, in order of name.
func (m *Machines) unshown(known map[string]Machine) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, at := range m.asked {
		switch _, shown := known[name]; {
		case shown || m.clock.Since(at) > shownWithin:
			delete(m.asked, name)
		default:
			out = append(out, name)
		}
	}
	for name, at := range m.deleted {
		if m.clock.Since(at) > 2*deletedAgain {
			delete(m.deleted, name)
		}
	}
	slices.Sort(out)
	return out
}

// Asked records that a machine was requested, so that List includes it.
func (m *Machines) Asked(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[name] = m.clock.Now()
	delete(m.deleted, name)
}

// Get returns one machine with its state. The error is provider.ErrGone if there is none. If the machine belongs to another cluster, the
// error wraps ErrOthers.
func (m *Machines) Get(ctx context.Context, name string) (Machine, error) {
	vm, err := m.cloud.VM(ctx, m.group, name)
	if cloud.NotFound(err) {
		m.forget(name)
		return Machine{}, provider.ErrGone
	}
	if err != nil {
		return Machine{}, fmt.Errorf("look for machine %s in resource group %s: %w", name, m.group, err)
	}
	machine := Read(vm)
	if !m.Ours(&machine) {
		m.forget(name)
		return Machine{}, fmt.Errorf("machine %s in resource group %s %w: to %q, not to %q: it is left alone", name, m.group, ErrOthers, machine.Tag(azurev1beta1.ClusterTagKey), m.cluster)
	}
	return m.overlaid(machine), nil
}

// Seen returns one machine from the last list. If the list does not have it, Seen asks Azure, because only Azure's own answer proves that a
// machine is gone. So many callers that wait for their machines share a call.
func (m *Machines) Seen(ctx context.Context, name string) (Machine, error) {
	known, err := m.list(ctx)
	if err != nil {
		return Machine{}, err
	}
	if machine, shown := known[name]; shown && machine.Phase != Failed {
		return m.overlaid(machine), nil
	}
	return m.Get(ctx, name)
}

func (m *Machines) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asked, name)
	delete(m.deleted, name)
}

// For returns the machine that AKS has made for a claim, from the last list; false if there is none. The machine's name does not follow from
// the claim.
func (m *Machines) For(ctx context.Context, claim string) (Machine, bool, error) {
	known, err := m.list(ctx)
	if err != nil {
		return Machine{}, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if machine := known[name]; machine.MadeByAKS() && machine.Tag(azurev1beta1.AKSMachineClaimTagKey) == claim {
			found, err := m.Seen(ctx, name)
			if errors.Is(err, provider.ErrGone) {
				continue
			}
			return found, err == nil, err
		}
	}
	return Machine{}, false, nil
}

// Delete requests the deletion of a machine once, from Azure, or from AKS if AKS has made it. The error is provider.ErrGone if there is none.
func (m *Machines) Delete(ctx context.Context, name string) error {
	m.mu.Lock()
	at, told := m.deleted[name]
	m.mu.Unlock()
	if told && m.clock.Since(at) < deletedAgain {
		_, err := m.Seen(ctx, name)
		return err
	}
	machine, err := m.Seen(ctx, name)
	if err != nil { // it may be another cluster's
		return err
	}
	begin := m.deleteOwn
	if machine.MadeByAKS() {
		begin = m.deleteOfAKS
	}
	if err := begin(ctx, &machine); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted[name] = m.clock.Now()
	return nil
}

func (m *Machines) deleteOwn(ctx context.Context, machine *Machine) error {
	_, err := m.cloud.BeginDeleteVM(ctx, m.group, machine.Name)
	if cloud.NotFound(err) {
		return provider.ErrGone
	}
	if err != nil {
		return fmt.Errorf("delete machine %s in resource group %s: %w", machine.Name, m.group, err)
	}
	return nil
}

// deleteOfAKS makes AKS delete a machine that it has made. A missing pool or cluster does not mean that the machine is gone.
func (m *Machines) deleteOfAKS(ctx context.Context, machine *Machine) error {
	pool, name, err := m.where(ctx, machine)
	if err != nil {
		return err
	}
	if _, err := m.cloud.BeginDeleteMachines(ctx, pool, name); err != nil {
		if cloud.NotFound(err) {
			err = fmt.Errorf("%w: see that CLUSTER_NAME and ARM_RESOURCE_GROUP are those of the cluster of AKS", err)
		}
		return fmt.Errorf("have AKS delete machine %s (virtual machine %s) of agent pool %s: %w", name, machine.Name, pool, err)
	}
	return nil
}
