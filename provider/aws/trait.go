package aws

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// Reasons of the condition Drifted.
const (
	NodeClassDrift           = "NodeClassDrift"
	AMIDrift                 = "AMIDrift"
	SecurityGroupDrift       = "SecurityGroupDrift"
	SubnetDrift              = "SubnetDrift"
	CapacityReservationDrift = "CapacityReservationDrift"
	PlacementGroupDrift      = "PlacementGroupDrift"
)

// SecurityGroups writes the security groups of a machine as the annotation SecurityGroupsAnnotationKey has them.
func SecurityGroups(ids []string) string { return strings.Join(slices.Sorted(slices.Values(ids)), ",") }

// Traits are what the class wants its machines to be, in the order in which drift is looked for. What the class does not
// know of itself yet is no reason for a machine to go.
func (p *Provider) Traits(ctx context.Context, class provider.Class) ([]engine.Trait, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	var out []engine.Trait
	hashes, err := p.foreignHashes(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	add := func(key, reason string, accepts []string) {
		if len(accepts) > 0 {
			out = append(out, engine.Trait{Key: key, Accepts: slices.Compact(slices.Sorted(slices.Values(accepts))), Reason: reason})
		}
	}
	add(awsv1.HashAnnotationKey, NodeClassDrift, append(hashes, c.Hash(p.cluster.CABundle)))
	var images, groups, subnets []string
	for _, a := range c.Status.AMIs {
		images = append(images, a.ID)
	}
	for _, g := range c.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	for _, s := range c.Status.Subnets {
		subnets = append(subnets, s.ID)
	}
	add(engine.ImageTrait, AMIDrift, images)
	if len(groups) > 0 {
		add(awsv1.SecurityGroupsAnnotationKey, SecurityGroupDrift, []string{SecurityGroups(groups)})
	}
	add(awsv1.SubnetAnnotationKey, SubnetDrift, subnets)
	// "" is accepted where there is no reservation, and no group, any more: a machine that names one has drifted.
	reservations := []string{""}
	for _, r := range c.Status.CapacityReservations {
		reservations = append(reservations, r.ID)
	}
	add(awsv1.ReservationIDLabelKey, CapacityReservationDrift, reservations)
	if group, err := p.finder.PlacementGroup(ctx, c.Spec.PlacementGroupSelector); err == nil && (group != nil || c.Spec.PlacementGroupSelector == nil) {
		id := ""
		if group != nil {
			id = group.ID
		}
		add(awsv1.PlacementGroupIDLabelKey, PlacementGroupDrift, []string{id})
	}
	return out, nil
}

// foreignHashes are the fingerprints on claims of the class that are of another version: nobody knows here what they say,
// so that they are as good as the right one until the claims are stamped anew.
func (p *Provider) foreignHashes(ctx context.Context, class string) (out []string, err error) {
	claims, err := p.claimsOf(ctx, class)
	for i := range claims {
		if a := claims[i].Annotations; a[awsv1.HashAnnotationKey] != "" && a[awsv1.HashVersionAnnotationKey] != awsv1.HashVersion {
			out = append(out, a[awsv1.HashAnnotationKey])
		}
	}
	return out, err
}

// Repairs are the conditions of a Node that mean that its machine is broken.
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
