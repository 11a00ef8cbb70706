package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/machine"
)

// describe converts a machine from Azure's description to the engine's.
func (p *Provider) describe(m *machine.Machine) engine.Machine {
	labels := placeLabels(p.offeringOf(m))
	for key, tag := range map[string]string{v1.NodePoolLabelKey: v1.NodePoolLabelKey, azurev1beta1.NodeClassLabelKey: azurev1beta1.NodeClassLabelKey} {
		if value := m.Tag(tag); value != "" {
			labels[key] = value
		}
	}
	out := engine.Machine{
		ID: machine.ID(p.cloud.Subscription, p.config.ResourceGroup, m.Name), Claim: m.Tag(v1.MachineClaimAnnotationKey), ClaimUID: m.Tag(v1.MachineClaimUIDAnnotationKey),
		Labels: labels, ImageID: image.ID(m.Image), Created: m.Created, Leaving: m.Phase == machine.Leaving,
	}
	switch {
	case m.MadeByAKS():
		out.Claim = m.Tag(azurev1beta1.AKSMachineClaimTagKey)
	case out.Claim == "": // the claim's name is only in the names of Karpenter's machines
		out.Claim = strings.TrimPrefix(m.Name, aksPrefix)
	}
	if out.Created.IsZero() || m.MadeByAKS() { // unknown, or AKS's: so young a machine does not count as forgotten
		out.Created = p.clock.Now()
	}
	return out
}

// Machines lists every machine of the cluster that is not gone.
func (p *Provider) Machines(ctx context.Context) ([]engine.Machine, error) {
	list, err := p.machines.List(ctx)
	if err != nil {
		return nil, asThrottled(err)
	}
	out := make([]engine.Machine, 0, len(list))
	for i := range list {
		out = append(out, p.describe(&list[i]))
	}
	slices.SortFunc(out, func(a, b engine.Machine) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Machine returns one machine, or provider.ErrGone.
func (p *Provider) Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error) {
	name, err := p.named(id)
	if err != nil {
		return engine.Machine{}, err
	}
	m, err := p.machines.Seen(ctx, name)
	if err != nil {
		return engine.Machine{}, asThrottled(err)
	}
	return p.describe(&m), nil
}

// Terminate deletes a machine with its disks and its network interface.
func (p *Provider) Terminate(ctx context.Context, id engine.MachineID) error {
	name, err := p.named(id)
	if err != nil {
		return err
	}
	return asThrottled(p.machines.Delete(ctx, name))
}

// named returns the name of a machine. A machine of another group or subscription gives an error, because it may not be gone.
func (p *Provider) named(id engine.MachineID) (string, error) {
	subscription, group, name, ok := machine.ParseID(id)
	switch {
	case !ok:
		return "", provider.ErrGone
	case !strings.EqualFold(subscription, p.cloud.Subscription) || !strings.EqualFold(group, p.config.ResourceGroup):
		return "", fmt.Errorf("machine %s is in resource group %s of subscription %s, and Azure is asked in %s of %s: set AZURE_NODE_RESOURCE_GROUP and AZURE_SUBSCRIPTION_ID",
			name, group, subscription, p.config.ResourceGroup, p.cloud.Subscription)
	}
	return name, nil
}

// Release removes the tags by which a machine belongs to a cluster.
func (p *Provider) Release(ctx context.Context, id engine.MachineID) error {
	name, err := p.named(id)
	if err != nil {
		return err
	}
	m, err := p.machines.Get(ctx, name)
	if errors.Is(err, machine.ErrOthers) {
		return nil // it was released before
	}
	if err != nil {
		return asThrottled(err)
	}
	if m.MadeByAKS() {
		return nil // AKS would restore its tags, and no autoscaler takes the machine for a forgotten one
	}
	nics, err := p.nics(ctx)
	if err != nil {
		return asThrottled(err)
	}
	var own []string
	for _, key := range ownTags() {
		own = append(own, machine.TagKey(key))
	}
	if err := p.tag(ctx, name, changedTags(m.Tags, own, nil), changedTags(nics[name].tags, own, nil), nil); err != nil {
		return asThrottled(fmt.Errorf("release machine %s: %w", name, err))
	}
	return nil
}

// ownTags returns the tags that name the owner of a machine.
func ownTags() []string {
	return []string{azurev1beta1.ClusterTagKey, azurev1beta1.NodeClassLabelKey, v1.MachineClaimAnnotationKey, v1.MachineClaimUIDAnnotationKey, v1.NodePoolLabelKey}
}

// ReleaseClass does nothing, because Azure has no resources of a class.
func (p *Provider) ReleaseClass(context.Context, provider.Class) ([]string, error) { return nil, nil }
