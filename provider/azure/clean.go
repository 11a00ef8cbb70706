package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/stamp"
)

const (
	// nicAge is the time for which a network interface may be without a machine, because it is made right before its machine.
	nicAge = 5 * time.Minute
	// updatesAtOnce is the number of machines that are updated in parallel.
	updatesAtOnce = 8
)

// Clean removes unused objects, and updates tags and identities of machines. If one step fails, the other steps still run, and the next call
// repeats it.
func (p *Provider) Clean(ctx context.Context) error {
	p.launches.forget()
	var tokens error
	if p.tokens != nil { // first, because booting machines wait for their tokens; errors of Azure must not delay this
		tokens = p.tokens.Clean(ctx)
	}
	claims, err := p.claims(ctx)
	if err != nil {
		return errors.Join(tokens, err)
	}
	return errors.Join(tokens, p.finish(ctx, claims), p.noteKubelets(ctx, claims), p.cleanAzure(ctx))
}

func (p *Provider) cleanAzure(ctx context.Context) error {
	claims, err := p.claims(ctx) // read again, because time has passed
	if err != nil {
		return err
	}
	list, err := p.machines.List(ctx)
	if err != nil {
		return asThrottled(err)
	}
	nics, err := p.nics(ctx)
	if err != nil {
		return asThrottled(err)
	}
	p.noteUnclaimed(ctx, claims, list)
	return errors.Join(p.cleanNICs(ctx, claims, list, nics), p.bill(ctx, claims, list), p.update(ctx, claims, list, nics))
}

// strayNICs holds the time since which each network interface has had no machine.
type strayNICs struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// nic is a network interface of the cluster.
type nic struct {
	tags map[string]string
	used bool // by a machine
}

// nics returns the cluster's network interfaces by name.
func (p *Provider) nics(ctx context.Context) (map[string]nic, error) {
	list, err := p.cloud.NICs(ctx, p.config.ResourceGroup)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces in resource group %s: %w", p.config.ResourceGroup, p.explained(err))
	}
	out := map[string]nic{}
	for _, n := range list {
		if tagged := (&machine.Machine{Tags: n.Tags}); p.machines.Ours(tagged) && !tagged.MadeByAKS() {
			out[strings.ToLower(n.Name)] = nic{n.Tags, n.Properties.VirtualMachine != nil}
		}
	}
	return out, nil
}

// cleanNICs deletes network interfaces of the cluster that no machine has and no claim waits for.
func (p *Provider) cleanNICs(ctx context.Context, claims []v1.NodeClaim, list []machine.Machine, nics map[string]nic) error {
	used := map[string]bool{}
	for i := range list {
		used[list[i].Name] = true
	}
	for i := range claims {
		used[p.nameOf(&claims[i])] = true
	}
	p.strays.mu.Lock()
	defer p.strays.mu.Unlock()
	now, still := p.clock.Now(), map[string]time.Time{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(nics)) {
		if used[name] || nics[name].used {
			continue
		}
		since, known := p.strays.since[name]
		if !known {
			since = now
		}
		still[name] = since
		if now.Sub(since) < nicAge {
			continue
		}
		if err := p.cloud.DeleteNIC(ctx, p.config.ResourceGroup, name); err != nil {
			errs = append(errs, fmt.Errorf("delete network interface %s, which no machine has: %w", name, err))
			continue
		}
		delete(still, name)
		log.FromContext(ctx).Info("deleted network interface that no machine has", "name", name)
	}
	p.strays.since = still
	return errors.Join(errs...)
}

// inPlaceHash returns a hash of the class's fields that are updated on running machines.
func (p *Provider) inPlaceHash(c *azurev1beta1.AKSNodeClass) string {
	return c.InPlaceUpdateHash(p.config.NodeIdentities, p.config.AdditionalTags)
}

// update writes the current tags and identities of classes on their machines. Tags of others stay; identities are only added. Machines that
// AKS has made are not changed.
func (p *Provider) update(ctx context.Context, claims []v1.NodeClaim, list []machine.Machine, nics map[string]nic) error {
	var classes azurev1beta1.AKSNodeClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list AKSNodeClasses: %w", err)
	}
	byName, machines := map[string]*azurev1beta1.AKSNodeClass{}, map[string]*machine.Machine{}
	for i := range classes.Items {
		byName[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range list {
		machines[list[i].Name] = &list[i]
	}
	errs := make([]error, len(claims))
	var group errgroup.Group
	group.SetLimit(updatesAtOnce)
	for i := range claims {
		claim := &claims[i]
		c := byName[claim.Spec.NodeClassRef.Name]
		name, err := p.named(engineID(claim))
		if c == nil || err != nil || machines[name] == nil || machines[name].MadeByAKS() || machines[name].Phase != machine.Running || claim.DeletionTimestamp != nil ||
			!v1.IsTrue(claim, v1.ConditionRegistered) || claim.Annotations[azurev1beta1.InPlaceUpdateAnnotationKey] == p.inPlaceHash(c) {
			continue
		}
		group.Go(func() error {
			errs[i] = p.updateOne(ctx, claim, c, machines[name], nics[name].tags)
			return nil
		})
	}
	_ = group.Wait() // every machine has its own error
	return errors.Join(errs...)
}

func (p *Provider) updateOne(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, m *machine.Machine, nicTags map[string]string) error {
	want := p.tagsOf(claim, c)
	ours := append(strings.Split(claim.Annotations[v1.AppliedTagsAnnotationKey], ","), slices.Collect(maps.Keys(want))...)
	var missing []string
	for _, id := range p.identitiesOf(c) {
		if !slices.ContainsFunc(m.Identities, func(has string) bool { return strings.EqualFold(has, id) }) {
			missing = append(missing, id)
		}
	}
	tags := changedTags(m.Tags, ours, want)
	if err := p.tag(ctx, m.Name, tags, changedTags(nicTags, ours, want), m.Assign(missing)); err != nil {
		return fmt.Errorf("bring tags and identities of machine %s up to date: %w", m.Name, err)
	}
	p.rebill(ctx, m, tags)
	changed := claim.DeepCopy()
	stamp.Annotate(changed, map[string]string{
		azurev1beta1.InPlaceUpdateAnnotationKey: p.inPlaceHash(c), v1.AppliedTagsAnnotationKey: strings.Join(slices.Sorted(maps.Keys(want)), ","),
	})
	if err := p.client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write on NodeClaim %s that its machine is up to date: %w", claim.Name, err)
	}
	return nil
}

// changedTags returns the existing tags, with those of our keys replaced by the wanted ones; nil if the existing tags are not known. Azure
// ignores the case of keys.
func changedTags(have map[string]string, ours []string, want map[string]string) map[string]*string {
	if have == nil {
		return nil
	}
	out := map[string]*string{}
	for key, value := range have {
		if !slices.ContainsFunc(ours, func(own string) bool { return strings.EqualFold(own, key) }) {
			out[key] = &value
		}
	}
	for key, value := range want {
		out[key] = &value
	}
	return out
}

// tag replaces the tags of a machine and of its network interface, unless they are nil, and adds identities to the machine.
func (p *Provider) tag(ctx context.Context, name string, tags, nicTags map[string]*string, identities *armcompute.VirtualMachineIdentity) error {
	if nicTags != nil {
		if err := p.cloud.TagNIC(ctx, p.config.ResourceGroup, name, nicTags); err != nil && !cloud.NotFound(err) {
			return p.explained(err)
		}
	}
	update := armcompute.VirtualMachineUpdate{Tags: tags, Identity: identities}
	return p.explained(p.cloud.UpdateVM(ctx, p.config.ResourceGroup, name, update))
}
