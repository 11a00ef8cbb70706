package aws

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/machine"
)

// Reasons of the condition Drifted.
const (
	NodeClassDrift           = "NodeClassDrift"
	CapacityReservationDrift = "CapacityReservationDrift"
	PlacementGroupDrift      = "PlacementGroupDrift"
)

// Traits returns the properties that the class's machines should have, in the order in which drift is looked for. A property that the class
// does not know yet is left out, so that no machine drifts by it.
//
// Only hashes of the same version are compared: a machine with a hash of another version has not drifted.
func (p *Provider) Traits(ctx context.Context, class provider.Class) ([]engine.Trait, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	var out []engine.Trait
	claims, err := p.claimsOf(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	add := func(key, reason string, accepts []string) {
		if len(accepts) > 0 {
			out = append(out, engine.Trait{Key: key, Accepts: slices.Compact(slices.Sorted(slices.Values(accepts))), Reason: reason})
		}
	}
	add(awsv1.HashAnnotationKey, NodeClassDrift, append(foreignHashes(claims), c.Hash(p.cluster.CABundle)))
	found, err := p.foundTraits(ctx, class, c, claims)
	if err != nil {
		return nil, err
	}
	out = append(out, found...)
	// "" is accepted for machines without a reservation or group. A machine whose reservation or group the class does not have any more has
	// drifted.
	reservations, err := p.ended(ctx, c, claims)
	if err != nil {
		return nil, err
	}
	for _, r := range c.Status.CapacityReservations {
		reservations = append(reservations, r.ID)
	}
	add(awsv1.ReservationIDLabelKey, CapacityReservationDrift, append(reservations, ""))
	if group, err := p.finder.PlacementGroup(ctx, c.Spec.PlacementGroupSelector); err == nil && (group != nil || c.Spec.PlacementGroupSelector == nil) {
		id := ""
		if group != nil {
			id = group.ID
		}
		add(awsv1.PlacementGroupIDLabelKey, PlacementGroupDrift, []string{id})
	}
	return out, nil
}

// foreignHashes returns the hashes of another version on claims of the class. They cannot be compared, so they are accepted until the claims
// get new hashes.
func foreignHashes(claims []v1.NodeClaim) (out []string) {
	for i := range claims {
		if a := claims[i].Annotations; a[awsv1.HashAnnotationKey] != "" && a[awsv1.HashVersionAnnotationKey] != awsv1.HashVersion {
			out = append(out, a[awsv1.HashAnnotationKey])
		}
	}
	return out
}

// foundTraits returns the traits that follow from the class's status.
func (p *Provider) foundTraits(ctx context.Context, class provider.Class, c *awsv1.EC2NodeClass, claims []v1.NodeClaim) ([]engine.Trait, error) {
	var types []engine.InstanceType
	if len(c.Status.AMIs) > 0 && len(claims) > 0 {
		var err error
		if types, err = p.Catalog(ctx, class); err != nil {
			return nil, err
		}
	}
	started := map[string]bool{}
	for i := range claims {
		started[claims[i].Labels[corev1.LabelInstanceTypeStable]] = true
	}
	return assortment.Traits(c, types, started), nil
}

// ended returns the reservations that claims name and that the class does not have any more, if their machines run on as on-demand machines.
// The labels of these claims will be corrected soon.
func (p *Provider) ended(ctx context.Context, c *awsv1.EC2NodeClass, claims []v1.NodeClaim) (out []string, err error) {
	var onDemand map[string]bool // machines, listed at the first use
	for i := range claims {
		id := claims[i].Labels[awsv1.ReservationIDLabelKey]
		known := func(r awsv1.CapacityReservation) bool { return r.ID == id }
		_, name, ok := machine.ParseID(engine.MachineID(claims[i].Status.ProviderID))
		if id == "" || !ok || slices.ContainsFunc(c.Status.CapacityReservations, known) || slices.Contains(out, id) {
			continue
		}
		if onDemand == nil {
			l, err := p.list(ctx)
			if err != nil {
				return nil, err
			}
			onDemand = map[string]bool{}
			for j := range l.machines {
				onDemand[l.machines[j].ID] = l.machines[j].CapacityType == v1.CapacityTypeOnDemand
			}
		}
		if onDemand[name] {
			out = append(out, id)
		}
	}
	return out, nil
}

// Repairs returns the conditions of a Node that mean that its machine is broken.
func (p *Provider) Repairs() []engine.RepairPolicy {
	policy := func(condition, status string, toleration time.Duration) engine.RepairPolicy {
		return engine.RepairPolicy{Condition: condition, Status: status, Toleration: toleration}
	}
	return []engine.RepairPolicy{
		policy(string(corev1.NodeReady), string(corev1.ConditionFalse), 30*time.Minute),
		policy(string(corev1.NodeReady), string(corev1.ConditionUnknown), 30*time.Minute),
		policy("AcceleratedHardwareReady", string(corev1.ConditionFalse), 10*time.Minute),
		policy("StorageReady", string(corev1.ConditionFalse), 30*time.Minute),
		policy("NetworkingReady", string(corev1.ConditionFalse), 30*time.Minute),
		policy("KernelReady", string(corev1.ConditionFalse), 30*time.Minute),
		policy("ContainerRuntimeReady", string(corev1.ConditionFalse), 30*time.Minute),
	}
}
