package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/machine"
)

const (
	// billingExtension is the extension by which AKS counts machines with Linux.
	billingExtension = "computeAksLinuxBilling"
	// billedAgain is the time until a machine without the extension gets it once more. It is also the time without any request after Azure
	// has refused one.
	billedAgain = 10 * time.Minute
)

// bills records the machines that were given the extension. It only saves calls.
type bills struct {
	mu      sync.Mutex
	asked   map[string]time.Time // by the machine's name
	refused time.Time
}

// due returns the machines without the extension that need a request now. It records the requests, and forgets other machines.
func (b *bills) due(without []*machine.Machine, now time.Time) (out []*machine.Machine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	still := map[string]time.Time{}
	for _, m := range without {
		at, asked := b.asked[m.Name]
		switch {
		case asked && now.Sub(at) < billedAgain:
			still[m.Name] = at
		case now.Sub(b.refused) >= billedAgain:
			still[m.Name] = now
			out = append(out, m)
		}
	}
	b.asked = still
	return out
}

// refuse records that Azure refuses the extension.
func (b *bills) refuse(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = now
}

func (b *bills) refusedAt(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.refused) < billedAgain
}

func billed(m *machine.Machine) bool {
	return slices.ContainsFunc(m.Extensions, func(name string) bool { return strings.EqualFold(name, billingExtension) })
}

// bill adds the extension by which AKS counts machines to running machines. If Azure refuses the extension for a machine, it is requested
// again later. Clouds that are not Microsoft's do not have the extension.
func (p *Provider) bill(ctx context.Context, claims []v1.NodeClaim, list []machine.Machine) error {
	if p.selfManaged() || p.config.OtherCloud {
		return nil
	}
	started := map[string]bool{}
	for i := range claims {
		if name, err := p.named(engineID(&claims[i])); err == nil && claims[i].DeletionTimestamp == nil {
			started[name] = true
		}
	}
	var without []*machine.Machine
	for i := range list {
		if m := &list[i]; started[m.Name] && !m.MadeByAKS() && m.Phase == machine.Running && !billed(m) {
			without = append(without, m)
		}
	}
	now := p.clock.Now()
	without = p.bills.due(without, now)
	errs := make([]error, len(without))
	var group errgroup.Group
	group.SetLimit(updatesAtOnce)
	for i, m := range without {
		group.Go(func() error {
			if p.bills.refusedAt(now) { // the others would be refused as well
				return nil
			}
			tags := map[string]*string{}
			for key, value := range m.Tags {
				tags[key] = &value
			}
			if err := p.putBilling(ctx, m.Name, tags); err != nil {
				p.bills.refuse(now)
				errs[i] = fmt.Errorf("give machine %s extension %s, which AKS counts it by: %w", m.Name, billingExtension, err)
			}
			return nil
		})
	}
	_ = group.Wait() // every machine has its own error
	return errors.Join(errs...)
}

// rebill writes the machine's current tags on its extension. Errors are only logged.
func (p *Provider) rebill(ctx context.Context, m *machine.Machine, tags map[string]*string) {
	if p.selfManaged() || !billed(m) {
		return
	}
	if err := p.putBilling(ctx, m.Name, tags); err != nil {
		log.FromContext(ctx).Info("extension keeps the tags that it has", "machine", m.Name, "extension", billingExtension, "why", err.Error())
	}
}

// putBilling requests the extension. It ignores a machine that does not exist any more.
func (p *Provider) putBilling(ctx context.Context, name string, tags map[string]*string) error {
	err := p.cloud.BeginExtension(ctx, p.config.ResourceGroup, name, billingExtension, armcompute.VirtualMachineExtension{
		Location: &p.cloud.Location, Tags: tags, Properties: &armcompute.VirtualMachineExtensionProperties{
			Publisher: new("Microsoft.AKS"), Type: new("Compute.AKS.Linux.Billing"), TypeHandlerVersion: new("1.0"), AutoUpgradeMinorVersion: new(true),
		},
	})
	if cloud.NotFound(err) {
		return nil
	}
	return p.explained(err)
}
