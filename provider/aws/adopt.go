package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/machine"
)

// showsWithin is the longest time that EC2 may take to show a machine that it has started.
const showsWithin = 30 * time.Second

// errStillLooking is the reason why a claim is not launched yet.
var errStillLooking = errors.New("an earlier call to EC2 may have started its machine, which is looked for")

// adopt looks for a machine that an earlier call may have started although no process has its answer: this process got none, or another
// process made the call. found is false without an error only if EC2 had enough time to show the machine.
func (p *Provider) adopt(ctx context.Context, claim *v1.NodeClaim, class provider.Class, token string) (m engine.Machine, found bool, err error) {
	wait := &provider.LaunchError{Reason: "LookingForMachine", Err: fmt.Errorf("launch %s: %w", claim.Name, errStillLooking)}
	if p.fleet.Tokens.Runs(token) {
		return m, false, wait
	}
	late := p.clock.Since(p.fleet.Tokens.Ended(token)) >= showsWithin
	if _, err := p.list(ctx); err != nil {
		return m, false, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	id := p.ledger.owned(claim.UID)
	switch {
	case id == "" && late:
		return m, false, nil
	case id == "":
		return m, false, wait
	}
	described, err := p.machines.Get(ctx, id)
	if errors.Is(err, provider.ErrGone) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	if m, err = p.adopted(ctx, claim, class, &described); err != nil {
		return m, false, err
	}
	p.ledger.settle(claim, m)
	return m, true, nil
}

// adopted returns the machine as its launch would have returned it.
func (p *Provider) adopted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, d *machine.Machine) (engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return engine.Machine{}, err
	}
	types, err := p.Catalog(ctx, class)
	if err != nil {
		return engine.Machine{}, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	offers := offersOf(class.Corrected(types), d, claim)
	p.ledger.reserve(d.ID, d.Reservation)
	m := p.launched(claim, c, offers, fleet.Started{
		ID: d.ID, Subnet: d.Subnet, ZoneID: d.ZoneID,
		Offer: fleet.Offer{Image: d.Image, OfferingID: engine.OfferingID{InstanceType: d.Type, Zone: d.Zone, CapacityType: d.CapacityType, Reservation: d.Reservation}},
	})
	m.Created = d.Created
	return m, nil
}

// deal assigns machines that carry a token and belong to no claim to claims with the same token and without a machine. Claims with one token
// asked for the same, so any machine fits. A machine that names its claim goes to that claim. Machines of a running call are left alone until
// the call has ended.
func (p *Provider) deal(list []machine.Machine, claims []v1.NodeClaim) {
	p.dealing.Lock()
	defer p.dealing.Unlock()
	taken := map[engine.MachineID]bool{}
	waiting := map[string][]*v1.NodeClaim{} // by token
	for i := range claims {
		c := &claims[i]
		taken[engine.MachineID(c.Status.ProviderID)] = true
		token := cmp.Or(p.ledger.token(c.UID), c.Annotations[v1.LaunchTokenAnnotationKey])
		if c.Status.ProviderID == "" && token != "" && !p.fleet.Tokens.Runs(token) && !p.fleet.Tokens.Settled(token) && p.ledger.owned(c.UID) == "" {
			waiting[token] = append(waiting[token], c)
		}
	}
	for token := range waiting {
		slices.SortFunc(waiting[token], func(a, b *v1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	}
	for i := range list {
		m := &list[i]
		token := m.Tags[v1.LaunchTokenAnnotationKey]
		_, owned := p.ledger.ownerOf(m.ID)
		if token == "" || owned || taken[m.ProviderID()] || m.Stopping || len(waiting[token]) == 0 {
			continue
		}
		n := max(0, slices.IndexFunc(waiting[token], func(c *v1.NodeClaim) bool { return c.Name == m.Tags[awsv1.NodeClaimTagKey] }))
		c := waiting[token][n]
		p.ledger.own(m.ID, c.Name, c.UID)
		waiting[token] = slices.Delete(waiting[token], n, n+1)
	}
}

// whose finds the claims of machines: first by the ledger, then by the machine's ID on the claim, then by the claim's name on the machine.
func (p *Provider) whose(list []machine.Machine, claims []v1.NodeClaim) map[string]owner {
	byID, byName := map[engine.MachineID]*v1.NodeClaim{}, map[string]*v1.NodeClaim{}
	for i := range claims {
		byName[claims[i].Name] = &claims[i]
		if id := claims[i].Status.ProviderID; id != "" {
			byID[engine.MachineID(id)] = &claims[i]
		}
	}
	out := map[string]owner{}
	for i := range list {
		m := &list[i]
		if o, found := p.ledger.ownerOf(m.ID); found {
			out[m.ID] = o
		} else if c := byID[m.ProviderID()]; c != nil {
			out[m.ID] = owner{name: c.Name, uid: c.UID}
		} else if name := m.Tags[awsv1.NodeClaimTagKey]; name != "" {
			uid := types.UID("")
			if c := byName[name]; c != nil && c.Status.ProviderID == "" {
				uid = c.UID
			}
			out[m.ID] = owner{name: name, uid: uid}
		}
	}
	return out
}
