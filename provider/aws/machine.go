package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/offer"
)

// dealt records the owner of a machine as soon as EC2 names the machine.
func (p *Provider) dealt(claim fleet.Claim, s fleet.Started) {
	p.ledger.own(s.ID, claim.Name, types.UID(claim.UID))
	p.ledger.reserve(s.ID, s.Offer.Reservation)
	p.machines.Started(machine.Machine{
		ID: s.ID, Zone: s.Offer.Zone, ZoneID: s.ZoneID, Type: s.Offer.InstanceType, CapacityType: s.Offer.CapacityType, Reservation: s.Offer.Reservation,
		Image: s.Offer.Image, Subnet: s.Subnet, Tenancy: "default", Created: p.clock.Now(), Tags: map[string]string{v1.LaunchTokenAnnotationKey: s.Token},
	})
}

// launched returns the claim's machine with all properties that follow from its type and its class.
func (p *Provider) launched(claim *v1.NodeClaim, c *awsv1.EC2NodeClass, list []offer.Offer, s fleet.Started) engine.Machine {
	labels := map[string]string{}
	m := engine.Machine{
		ID: machine.ProviderID(s.Offer.Zone, s.ID), Claim: claim.Name, ClaimUID: string(claim.UID), ImageID: s.Offer.Image, Created: p.clock.Now(),
		Annotations: map[string]string{
			awsv1.HashAnnotationKey: c.Hash(p.cluster.CABundle), awsv1.HashVersionAnnotationKey: awsv1.HashVersion,
			awsv1.InstanceProfileAnnotationKey: c.Status.InstanceProfile, awsv1.SubnetAnnotationKey: s.Subnet,
		},
	}
	var groups []string
	for _, g := range c.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	m.Annotations[awsv1.SecurityGroupsAnnotationKey] = assortment.SecurityGroups(groups)
	i := slices.IndexFunc(list, func(o offer.Offer) bool { return o.OfferingID == s.Offer.OfferingID })
	if i < 0 { // the offering is not in the catalog any more; use the type's first one
		i = slices.IndexFunc(list, func(o offer.Offer) bool { return o.InstanceType == s.Offer.InstanceType })
	}
	if i >= 0 {
		maps.Copy(labels, list[i].Labels)
		m.Capacity, m.Allocatable = capacityOf(list[i].Type, claim, c)
		m.ImageID = s.Offer.Image
	}
	if partitionOf(claim) == "" {
		delete(labels, awsv1.PlacementGroupPartitionLabelKey) // EC2 chooses
	}
	maps.Copy(labels, placeLabels(s.Offer.OfferingID, s.ZoneID))
	m.Labels = labels
	return m
}

func placeLabels(id engine.OfferingID, zoneID string) map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: id.InstanceType, corev1.LabelTopologyZone: id.Zone, v1.CapacityTypeLabelKey: id.CapacityType,
	}
	if zoneID != "" {
		labels[awsv1.ZoneIDLabelKey] = zoneID
	}
	return labels
}

// capacityOf returns the resources of the claim's node. It has EFA interfaces only if the claim or the class asks for them.
func capacityOf(t *engine.InstanceType, claim *v1.NodeClaim, c *awsv1.EC2NodeClass) (capacity, allocatable corev1.ResourceList) {
	capacity, allocatable = t.Capacity.DeepCopy(), t.Allocatable()
	asked := claim.Spec.Resources.Requests[awsv1.ResourceEFA]
	if asked.IsZero() && len(c.Spec.NetworkInterfaces) == 0 {
		delete(capacity, awsv1.ResourceEFA)
		delete(allocatable, awsv1.ResourceEFA)
	}
	for name, q := range capacity {
		if q.IsZero() {
			delete(capacity, name)
			delete(allocatable, name)
		}
	}
	return capacity, allocatable
}

// offersOf returns the offers of a machine's type that the claim still allows.
func offersOf(list []engine.InstanceType, d *machine.Machine, claim *v1.NodeClaim) []offer.Offer {
	only := slices.DeleteFunc(slices.Clone(list), func(t engine.InstanceType) bool { return t.Name != d.Type })
	offers, err := offer.For(only, withoutSwitches(claim))
	if err != nil { // the catalog has changed, but the machine exists
		return nil
	}
	return offers
}

// machineOf converts a machine from EC2's description to the engine's.
func machineOf(m *machine.Machine, o owner) engine.Machine {
	labels := placeLabels(engine.OfferingID{InstanceType: m.Type, Zone: m.Zone, CapacityType: m.CapacityType}, m.ZoneID)
	labels[awsv1.TenancyLabelKey] = m.Tenancy
	set := func(key, value string) {
		if value != "" {
			labels[key] = value
		}
	}
	set(v1.NodePoolLabelKey, m.Tags[v1.NodePoolLabelKey])
	set(awsv1.NodeClassLabelKey, m.Tags[awsv1.NodeClassLabelKey])
	if m.Reservation != "" {
		set(awsv1.ReservationIDLabelKey, m.Reservation)
		set(awsv1.ReservationTypeLabelKey, m.ReservationType)
		set(awsv1.ReservationInterruptibleLabelKey, strconv.FormatBool(m.Interruptible))
	}
	set(awsv1.PlacementGroupIDLabelKey, m.PlacementGroup)
	if m.Partition > 0 {
		set(awsv1.PlacementGroupPartitionLabelKey, strconv.Itoa(m.Partition))
	}
	return engine.Machine{
		ID: m.ProviderID(), Claim: o.name, ClaimUID: string(o.uid), Labels: labels, ImageID: m.Image, Created: m.Created, Leaving: m.Stopping,
		Annotations: map[string]string{awsv1.SubnetAnnotationKey: m.Subnet, awsv1.SecurityGroupsAnnotationKey: assortment.SecurityGroups(m.Groups)},
	}
}

// listing holds all machines of the cluster, and their owners.
type listing struct {
	machines []machine.Machine
	owners   map[string]owner
}

// list lists the machines, and deals machines without an owner to claims. Calls within moments share one list.
func (p *Provider) list(ctx context.Context) (listing, error) {
	return p.listed.Get(ctx, "", p.listNow)
}

func (p *Provider) listNow(ctx context.Context) (listing, error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims); err != nil {
		return listing{}, fmt.Errorf("list NodeClaims, to see whose machines are whose: %w", err)
	}
	all, err := p.machines.List(ctx)
	if err != nil {
		return listing{}, err
	}
	p.deal(all, claims.Items)
	all = slices.DeleteFunc(all, func(m machine.Machine) bool { // its owner will be known in a moment
		_, owned := p.ledger.ownerOf(m.ID)
		return !owned && p.fleet.Tokens.Runs(m.Tags[v1.LaunchTokenAnnotationKey])
	})
	return listing{all, p.whose(all, claims.Items)}, nil
}

// Machines lists every machine of the cluster that is not terminated.
func (p *Provider) Machines(ctx context.Context) ([]engine.Machine, error) {
	l, err := p.listNow(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Machine, 0, len(l.machines))
	for i := range l.machines {
		out = append(out, machineOf(&l.machines[i], l.owners[l.machines[i].ID]))
	}
	return out, nil
}

// Machine returns one machine, or provider.ErrGone.
func (p *Provider) Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error) {
	zone, name, ok := machine.ParseID(id)
	if !ok {
		return engine.Machine{}, provider.ErrGone
	}
	if err := p.elsewhere(zone); err != nil {
		return engine.Machine{}, err
	}
	m, err := p.machines.Get(ctx, name)
	if errors.Is(err, provider.ErrGone) {
		p.gone(name)
	}
	if err != nil {
		return engine.Machine{}, asThrottled(err, "ec2:DescribeInstances")
	}
	o, owned := p.ledger.ownerOf(name)
	if !owned {
		var claims v1.NodeClaimList
		if err := p.client.List(ctx, &claims); err != nil {
			return engine.Machine{}, fmt.Errorf("list NodeClaims, to see whose machine %s is: %w", id, err)
		}
		o = p.whose([]machine.Machine{m}, claims.Items)[name]
	}
	return machineOf(&m, o), nil
}

// Terminate tells a machine to stop. During a zonal shift away from a zone, it stops no machines there, because their state is unknown.
func (p *Provider) Terminate(ctx context.Context, id engine.MachineID) error {
	zone, name, ok := machine.ParseID(id)
	if !ok {
		return provider.ErrGone
	}
	if err := p.elsewhere(zone); err != nil {
		return err
	}
	if p.shifts.left(zone) {
		return fmt.Errorf("terminate machine %s: zone %s is being moved out of (zonal shift); it is stopped when that is over", id, zone)
	}
	err := p.machines.Stop(ctx, name)
	switch {
	case errors.Is(err, provider.ErrGone):
		p.gone(name)
	case err != nil:
		p.metrics.terminationFailed(zone, p.shifts.idOf(zone))
	}
	return asThrottled(err, "ec2:TerminateInstances")
}

// elsewhere returns an error if a zone is not in this provider's region. EC2 finds only machines of its own region, so a machine of another
// region must not count as gone when it is not found.
func (p *Provider) elsewhere(zone string) error {
	if strings.HasPrefix(zone, p.cloud.Region) {
		return nil
	}
	return fmt.Errorf("a machine is in zone %s, and AWS is asked in region %s: set AWS_REGION", zone, p.cloud.Region)
}

// gone gives the place of a machine back to its reservation.
func (p *Provider) gone(name string) {
	if reservation := p.ledger.release(name); reservation != "" {
		p.finder.Slots.Returned(reservation)
	}
}

// asThrottled turns the error of a throttled call into one with a time to wait.
func asThrottled(err error, call string) error {
	if cloud.Throttled(err) {
		return throttled(call)
	}
	return err
}
