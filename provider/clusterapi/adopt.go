package clusterapi

import (
	"context"

	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/contract"
)

var _ provider.Adopter = &Provider{}

// Adoptable lists the Machines of the class's MachineDeployments that belong to no claim. Cluster API made them in a rollout, or to replace a
// Machine that was remediated or deleted. One free Machine is left out for each claim that waits.
func (p *Provider) Adoptable(ctx context.Context, class provider.Class) ([]engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	f, err := p.find(ctx, c)
	if err != nil || problemOf(c, f) != "" {
		return nil, err // the class may select MachineDeployments of another cluster
	}
	machines, err := p.machinesByDeployment(ctx, m)
	if err != nil {
		return nil, err
	}
	owners, err := p.karpenterOwners(ctx)
	if err != nil {
		return nil, err
	}
	var out []engine.Machine
	for _, made := range f.Machines {
		census := take(f.Deployments[made.Key], machines[made.Key], owners)
		waiting, err := p.waitingFor(ctx, made.Key, census)
		if err != nil {
			return nil, err
		}
		for _, machine := range census.free[min(len(census.free), len(waiting)):] {
			if machine.Spec.ProviderID == "" {
				continue
			}
			adoptable := describe(machine, made)
			adoptable.Annotations[contract.KarpenterMachineAnnotation] = machine.Namespace + "/" + machine.Name
			out = append(out, adoptable)
		}
	}
	return out, nil
}
