package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
)

// mostNames is the largest number of claims that an event names.
const mostNames = 5

// finish keeps a finalizer on classes, and removes it from deleted classes without claims, because machines of a deleted class could not be
// identified any more. Classes from Karpenter already have the finalizer.
func (p *Provider) finish(ctx context.Context, claims []v1.NodeClaim) error {
	var classes azurev1beta1.AKSNodeClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list AKSNodeClasses, to let go of those that were deleted: %w", err)
	}
	var errs []error
	for i := range classes.Items {
		errs = append(errs, p.finishOne(ctx, &classes.Items[i], claims))
	}
	return errors.Join(errs...)
}

func (p *Provider) finishOne(ctx context.Context, c *azurev1beta1.AKSNodeClass, claims []v1.NodeClaim) error {
	const finalizer = azurev1beta1.TerminationFinalizer
	held := slices.Contains(c.Finalizers, finalizer)
	if held == (c.DeletionTimestamp == nil) { // as it should be
		return nil
	}
	var left []string
	for i := range claims {
		if claims[i].Spec.NodeClassRef.Name == c.Name {
			left = append(left, claims[i].Name)
		}
	}
	if n := len(left); held && n > 0 {
		text := strings.Join(left[:min(n, mostNames)], ", ")
		if n > mostNames {
			text += fmt.Sprintf(" and %d more", n-mostNames)
		}
		p.config.Tell(provider.Event{Object: c, Reason: "WaitingOnNodeClaimTermination", Message: "the class is deleted once these NodeClaims have ended: " + text})
		return nil
	}
	changed := c.DeepCopy()
	if held {
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == finalizer })
	} else {
		changed.Finalizers = append(changed.Finalizers, finalizer)
	}
	err := p.client.Patch(ctx, changed, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the finalizers of AKSNodeClass %s: %w", c.Name, err)
	}
	return nil
}
