package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// Machines lists the Machines that belong to claims of this cluster.
func (p *Provider) Machines(ctx context.Context) ([]engine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	if err := p.adopt(ctx, m); err != nil {
		return nil, err
	}
	ours, err := p.ours(ctx, m)
	if err != nil {
		return nil, err
	}
	describer := newDescriber(p, m)
	out := make([]engine.Machine, 0, len(ours))
	for _, machine := range ours {
		p.know(machine)
		d, err := describer.describe(ctx, machine)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b engine.Machine) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// ours lists the Machines in the cache that belong to claims of this cluster. They must not be changed.
func (p *Provider) ours(ctx context.Context, m *Management) ([]*contract.Machine, error) {
	cluster, err := p.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	var list contract.MachineList
	if err := m.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	var out []*contract.Machine
	for i := range list.Items {
		if list.Items[i].Annotations[v1.MachineClusterAnnotationKey] == cluster {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// adopt takes over the Machines that Karpenter bound to claims.
func (p *Provider) adopt(ctx context.Context, m *Management) error {
	var claims v1.NodeClaimList
	if err := p.cfg.Client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		namespace, name, ok := strings.Cut(claim.Annotations[contract.KarpenterMachineAnnotation], "/")
		if !ok {
			continue
		}
		machine := &contract.Machine{}
		err := m.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, machine)
		if apierrors.IsNotFound(err) || err == nil && machine.Annotations[v1.MachineClaimUIDAnnotationKey] != "" {
			continue
		}
		if err == nil {
			err = p.bind(ctx, m, machine, claim)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Machine returns one machine. It returns ErrGone only if the API server itself does not have the Machine.
func (p *Provider) Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error) {
	m, err := p.management()
	if err != nil {
		return engine.Machine{}, err
	}
	machine, err := p.machine(ctx, m, id, m.Cached)
	if err != nil {
		return engine.Machine{}, err
	}
	return newDescriber(p, m).describe(ctx, machine)
}

// machine finds a Machine of this cluster. If the reader does not have it, machine asks the API server.
func (p *Provider) machine(ctx context.Context, m *Management, id engine.MachineID, from client.Reader) (*contract.Machine, error) {
	if id == "" {
		return nil, provider.ErrGone
	}
	p.mu.Lock()
	at, known := p.names[id]
	p.mu.Unlock()
	if rest, ok := strings.CutPrefix(string(id), provisionalPrefix); ok {
		namespace, name, _ := strings.Cut(rest, "/")
		at, known = types.NamespacedName{Namespace: namespace, Name: name}, name != ""
		if !known {
			return nil, provider.ErrGone
		}
	}
	if !known {
		return p.search(ctx, m, id)
	}
	machine := &contract.Machine{}
	err := from.Get(ctx, at, machine)
	if apierrors.IsNotFound(err) {
		err = m.Live.Get(ctx, at, machine)
	}
	if apierrors.IsNotFound(err) {
		p.forget(id)
		return nil, provider.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("read Machine %s: %w", at, err)
	}
	if known, err := p.isOurs(ctx, machine); err != nil || !known {
		return nil, cmp.Or(err, provider.ErrGone)
	}
	return machine, nil
}

// search looks for a Machine by its provider ID, first in the cache, then at the API server.
func (p *Provider) search(ctx context.Context, m *Management, id engine.MachineID) (*contract.Machine, error) {
	for _, from := range []client.Reader{m.Cached, m.Live} {
		var list contract.MachineList
		if err := from.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list Machines: %w", err)
		}
		for i := range list.Items {
			machine := &list.Items[i]
			if machine.Spec.ProviderID != string(id) {
				continue
			}
			if ours, err := p.isOurs(ctx, machine); err != nil {
				return nil, err
			} else if ours {
				p.know(machine)
				return machine, nil
			}
		}
	}
	return nil, provider.ErrGone
}

func (p *Provider) isOurs(ctx context.Context, machine *contract.Machine) (bool, error) {
	cluster, err := p.clusterUID(ctx)
	return machine.Annotations[v1.MachineClusterAnnotationKey] == cluster, err
}

func (p *Provider) forget(id engine.MachineID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.names, id)
}

// describer describes Machines. It reads each MachineDeployment once.
type describer struct {
	p     *Provider
	m     *Management
	known map[string]*assortment.Machines
}

func newDescriber(p *Provider, m *Management) *describer {
	return &describer{p, m, map[string]*assortment.Machines{}}
}

func (d *describer) describe(ctx context.Context, machine *contract.Machine) (engine.Machine, error) {
	key := assortment.DeploymentOf(machine)
	made, known := d.known[key]
	if !known && key != "" {
		var err error
		if made, err = d.read(ctx, key); err != nil {
			return engine.Machine{}, err
		}
		d.known[key] = made
	}
	return describe(machine, made), nil
}

// read returns the machines of a MachineDeployment, nil if it is gone or cannot be read. Their prices are not used.
func (d *describer) read(ctx context.Context, key string) (*assortment.Machines, error) {
	namespace, name, _ := strings.Cut(key, "/")
	deployment := &contract.MachineDeployment{}
	if err := d.m.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read MachineDeployment %s: %w", key, err)
	}
	source, err := d.p.sourceOf(ctx, d.m, deployment, nil, nil)
	if err != nil {
		return nil, err
	}
	made, err := assortment.Read(source, &clusterapiv1alpha1.ClusterAPINodeClass{}, catalog.EC2Type)
	if err != nil {
		return nil, nil // its class has the error in a condition
	}
	return made, nil
}

// Terminate marks the Machine of a claim and removes its replica. It may be called again, because replicas are counted again each time.
func (p *Provider) Terminate(ctx context.Context, id engine.MachineID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := p.management()
	if err != nil {
		return err
	}
	machine, err := p.machine(ctx, m, id, m.Live)
	if err != nil {
		return err
	}
	return p.remove(ctx, machine)
}

// remove marks a Machine and removes its replica. Its pods have already been evicted, so Cluster API must not drain the node again.
func (p *Provider) remove(ctx context.Context, machine *contract.Machine) error {
	m, err := p.management()
	if err != nil {
		return err
	}
	if _, marked := machine.Annotations[contract.DeleteAnnotation]; !marked || machine.Annotations[contract.ExcludeDrainAnnotation] == "" {
		before := client.MergeFrom(machine.DeepCopy())
		annotate(machine, contract.ExcludeDrainAnnotation, "true")
		annotate(machine, contract.ExcludeVolumesAnnotation, "true")
		annotate(machine, contract.DeleteAnnotation, p.cfg.Clock.Now().UTC().Format(time.RFC3339))
		if err := p.patchMachine(ctx, m, machine, before); apierrors.IsNotFound(err) {
			return provider.ErrGone
		} else if err != nil {
			return fmt.Errorf("mark Machine %s/%s as the one to go: %w", machine.Namespace, machine.Name, err)
		}
	}
	key := assortment.DeploymentOf(machine)
	if key != "" {
		_, err := p.scales.Do(ctx, key, order{key: key}, nil)
		if err == nil || !apierrors.IsNotFound(err) {
			return err
		}
	}
	if machine.DeletionTimestamp != nil {
		return nil
	}
	if err := p.deleteMachine(ctx, m, machine); err != nil {
		return fmt.Errorf("delete Machine %s/%s, which has no MachineDeployment: %w", machine.Namespace, machine.Name, err)
	}
	return nil
}
