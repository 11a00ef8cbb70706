package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/machine"
)

// agentPool returns the agent pool and the name of a machine that AKS has made for Karpenter. They come from its claim; without a claim, from
// the machine's name and the settings.
func (p *Provider) agentPool(ctx context.Context, m *machine.Machine) (pool, name string, err error) {
	claim, err := p.claimOfAKS(ctx, m)
	if err != nil {
		return "", "", err
	}
	if claim != nil {
		if pool, name, ok := agentPoolOf(claim, m); ok {
			return pool, name, nil
		}
	}
	pool, name, ok := m.InAgentPool()
	if ok && p.config.ClusterGroup != "" {
		return "/subscriptions/" + p.cloud.Subscription + "/resourceGroups/" + p.config.ClusterGroup + "/providers/Microsoft.ContainerService/managedClusters/" +
			p.config.ClusterName + "/agentPools/" + pool, name, nil
	}
	do := "set ARM_RESOURCE_GROUP to the resource group of the AKS cluster, or run: az aks nodepool delete-machines --name " + pool + " --machine-names " + name
	if !ok {
		do = "its name does not tell in which agent pool it is: look for it there, and run: az aks nodepool delete-machines"
	}
	err = fmt.Errorf("AKS itself has made virtual machine %s, and alone may delete it: %s", m.Name, do)
	if claim != nil {
		p.config.Tell(provider.Event{Object: claim, Warning: true, Reason: "AKSMachineNotDeleted", Message: err.Error()})
	}
	return "", "", err
}

// claimOfAKS returns the claim for which AKS has made a machine, nil if there is none.
func (p *Provider) claimOfAKS(ctx context.Context, m *machine.Machine) (*v1.NodeClaim, error) {
	claims, err := p.claims(ctx)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		if claims[i].Name == m.Tag(azurev1beta1.AKSMachineClaimTagKey) {
			return &claims[i], nil
		}
	}
	return nil, nil
}

// agentPoolOf reads the agent pool and the machine's name from a claim's annotation; false if the annotation names another machine.
func agentPoolOf(claim *v1.NodeClaim, m *machine.Machine) (pool, name string, ok bool) {
	id, err := arm.ParseResourceID(claim.Annotations[azurev1beta1.MachineResourceAnnotationKey])
	if err != nil || !strings.EqualFold(id.ResourceType.String(), "Microsoft.ContainerService/managedClusters/agentPools/machines") {
		return "", "", false
	}
	this := strings.HasPrefix(strings.ToLower(m.Name), strings.ToLower(aksPrefix+id.Parent.Name+"-"+id.Name+"-"))
	return id.Parent.String(), id.Name, this
}

// machineOf returns a claim's machine: the machine with its name, or the one that AKS has made for it.
func (p *Provider) machineOf(ctx context.Context, claim *v1.NodeClaim) (machine.Machine, error) {
	m, err := p.machines.Seen(ctx, p.nameOf(claim)) // it may belong to another cluster, and must not be touched then
	if !errors.Is(err, provider.ErrGone) {
		return m, err
	}
	if made, found, err := p.machines.For(ctx, claim.Name); found || err != nil {
		return made, err
	}
	return machine.Machine{}, err
}

// unclaimed holds the machines of AKS without a claim that the log has named.
type unclaimed struct {
	mu   sync.Mutex
	told map[string]bool
}

// noteUnclaimed logs each machine once that AKS has made and that has no claim. Such machines are left alone, because it is not known why AKS
// has made them.
func (p *Provider) noteUnclaimed(ctx context.Context, claims []v1.NodeClaim, list []machine.Machine) {
	names := map[string]bool{}
	for i := range claims {
		names[claims[i].Name] = true
	}
	p.unclaimed.mu.Lock()
	defer p.unclaimed.mu.Unlock()
	still := map[string]bool{}
	for i := range list {
		m := &list[i]
		if !m.MadeByAKS() || names[m.Tag(azurev1beta1.AKSMachineClaimTagKey)] {
			continue
		}
		still[m.Name] = true
		if p.unclaimed.told[m.Name] {
			continue
		}
		pool, name, _ := m.InAgentPool()
		log.FromContext(ctx).Info("a machine that AKS has made has no NodeClaim, and is left alone: if nobody wants it, run az aks nodepool delete-machines",
			"virtual-machine", m.Name, "agent-pool", pool, "machine", name, "claim", m.Tag(azurev1beta1.AKSMachineClaimTagKey), "created", m.Created)
	}
	p.unclaimed.told = still
}
