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

// showsWithin is how long EC2 may take to show a machine that it has started.
const showsWithin = 30 * time.Second

// errStillLooking is why a claim is not launched yet.
var errStillLooking = errors.New("an earlier call to EC2 may have started its machine, which is looked for")

// adopt looks for the machine that a call started whose answer nobody knows: this process did not get one, or another made
// the call. It finds none only if EC2 had enough time to show it.
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

// adopted is what a launch would have returned.
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

// deal gives machines that carry a token, and belong to nobody, to claims that carry it and have no machine: those claims
// asked for the same, so that any will do. Machines that name their claim go to that one. Whose machines of a running call
// are will be known when it has ended.
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

// whose finds the claims of machines: by what was started here, by the machine's name on the claim, by the claim's name on
// the machine.
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
