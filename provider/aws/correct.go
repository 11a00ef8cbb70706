package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/stamp"
)

// correct updates claims and their nodes after changes of their machines: a machine whose reservation has ended runs on as an on-demand
// machine; EC2 has chosen the partition of a placement group; a user changed the security groups. It also writes properties from the launch
// that are missing on the claim. It skips a machine that has just begun to boot, because EC2 may not report all of its properties yet.
func (p *Provider) correct(ctx context.Context, claims []v1.NodeClaim) error {
	l, err := p.list(ctx)
	if err != nil {
		return err
	}
	known := map[engine.MachineID]*machine.Machine{}
	for i := range l.machines {
		known[l.machines[i].ProviderID()] = &l.machines[i]
	}
	var errs []error
	for i := range claims {
		c := &claims[i]
		m := known[engine.MachineID(c.Status.ProviderID)]
		if ref := c.Spec.NodeClassRef; ref == nil || ref.Group != awsv1.Group || m == nil || c.Status.NodeName == "" || c.DeletionTimestamp != nil {
			continue
		}
		errs = append(errs, p.correctClaim(ctx, c, m))
	}
	return errors.Join(errs...)
}

func (p *Provider) correctClaim(ctx context.Context, c *v1.NodeClaim, m *machine.Machine) error {
	changed := c.DeepCopy()
	changed.Labels = correctLabels(c.Labels, m)
	actual := map[string]string{}
	if m.Subnet != "" {
		actual[awsv1.SubnetAnnotationKey] = m.Subnet
	}
	if len(m.Groups) > 0 {
		actual[awsv1.SecurityGroupsAnnotationKey] = assortment.SecurityGroups(m.Groups)
	}
	stamp.Annotate(changed, actual)
	relabelled := !maps.Equal(changed.Labels, c.Labels)
	if relabelled { // the node first, because a correct claim would not be looked at again
		if err := p.correctNode(ctx, c.Status.NodeName, m); err != nil {
			return err
		}
		log.FromContext(ctx).Info("machine is not what its claim said", "NodeClaim", c.Name, "machine", m.ID,
			"changed", labels.Set(changed.Labels).String())
	}
	if !relabelled && maps.Equal(changed.Annotations, c.Annotations) {
		return nil
	}
	if err := p.client.Patch(ctx, changed, client.MergeFrom(c)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the changes of its machine to NodeClaim %s: %w", c.Name, err)
	}
	return nil
}

func (p *Provider) correctNode(ctx context.Context, name string, m *machine.Machine) error {
	if name == "" {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := p.client.Get(ctx, client.ObjectKeyFromObject(node), node)
	if err == nil {
		changed := node.DeepCopy()
		changed.Labels = correctLabels(node.Labels, m)
		err = p.client.Patch(ctx, changed, client.MergeFrom(node))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the changes of its machine to node %s: %w", name, err)
	}
	return nil
}

// correctLabels returns the labels of a claim or node, corrected by its machine's state.
func correctLabels(have map[string]string, m *machine.Machine) map[string]string {
	if have[v1.CapacityTypeLabelKey] == v1.CapacityTypeReserved && m.CapacityType == v1.CapacityTypeOnDemand {
		have = maps.Clone(have)
		have[v1.CapacityTypeLabelKey] = v1.CapacityTypeOnDemand
		for _, key := range []string{awsv1.ReservationIDLabelKey, awsv1.ReservationTypeLabelKey, awsv1.ReservationInterruptibleLabelKey} {
			delete(have, key)
		}
	}
	if have[awsv1.PlacementGroupIDLabelKey] != "" && have[awsv1.PlacementGroupPartitionLabelKey] == "" && m.Partition > 0 {
		have = maps.Clone(have)
		have[awsv1.PlacementGroupPartitionLabelKey] = strconv.Itoa(m.Partition)
	}
	return have
}
