package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/aws/template"
	"tenon.sh/provider/stamp"
)

// tagsAtOnce is the number of machines that are tagged in parallel.
const tagsAtOnce = 8

// tagMachines tags machines with the names of their nodes and claims, which are not known at the launch. It does not change existing tags.
func (p *Provider) tagMachines(ctx context.Context, claims []v1.NodeClaim) error {
	var untagged []*v1.NodeClaim
	for i := range claims {
		c := &claims[i]
		ref := c.Spec.NodeClassRef
		if ref == nil || ref.Group != awsv1.Group || c.Status.NodeName == "" || c.DeletionTimestamp != nil ||
			c.Annotations[awsv1.TaggedAnnotationKey] == "true" && c.Annotations[awsv1.ClusterTaggedAnnotationKey] == "true" {
			continue
		}
		untagged = append(untagged, c)
	}
	if len(untagged) == 0 {
		return nil
	}
	l, err := p.list(ctx)
	if err != nil {
		return err
	}
	known := map[engine.MachineID]*machine.Machine{}
	for i := range l.machines {
		known[l.machines[i].ProviderID()] = &l.machines[i]
	}
	errs := make([]error, len(untagged))
	var group errgroup.Group
	group.SetLimit(tagsAtOnce)
	for i, c := range untagged {
		if m := known[engine.MachineID(c.Status.ProviderID)]; m != nil && !p.shifts.left(m.Zone) {
			group.Go(func() error {
				errs[i] = p.tag(ctx, c, m)
				return nil
			})
		}
	}
	_ = group.Wait() // every machine has its own error
	return errors.Join(errs...)
}

func (p *Provider) tag(ctx context.Context, c *v1.NodeClaim, m *machine.Machine) error {
	missing := map[string]string{}
	for key, value := range map[string]string{
		awsv1.NameTagKey: c.Status.NodeName, awsv1.NodeClaimTagKey: c.Name, awsv1.ClusterNameTagKey: p.config.ClusterName,
	} {
		if _, has := m.Tags[key]; !has {
			missing[key] = value
		}
	}
	if len(missing) > 0 {
		_, err := p.cloud.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: template.Tags(missing)})
		if cloud.NotFound(err) {
			return nil // the machine is gone, or not visible yet
		}
		if err != nil {
			return fmt.Errorf("tag machine %s of NodeClaim %s: %w", m.ID, c.Name, err)
		}
	}
	changed := c.DeepCopy()
	stamp.Annotate(changed, map[string]string{awsv1.TaggedAnnotationKey: "true", awsv1.ClusterTaggedAnnotationKey: "true"})
	if err := p.client.Patch(ctx, changed, client.MergeFrom(c)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note on NodeClaim %s that its machine is tagged: %w", c.Name, err)
	}
	return nil
}
