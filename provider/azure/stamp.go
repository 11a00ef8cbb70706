package azure

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
)

// stamp writes the fingerprint of the class on it, and on the claims that carry one of another version: a fingerprint that was
// computed in another way says nothing. A claim that has drifted keeps its own, or it would stop being drifted.
func (p *Provider) stamp(ctx context.Context, c *azurev1beta1.AKSNodeClass) error {
	hash, stamped := c.Hash(), c.Annotations[azurev1beta1.HashVersionAnnotationKey]
	if stamped == azurev1beta1.HashVersion && c.Annotations[azurev1beta1.HashAnnotationKey] == hash {
		return nil
	}
	if stamped != azurev1beta1.HashVersion {
		if err := p.stampClaims(ctx, c.Name, hash); err != nil {
			return err
		}
	}
	changed := c.DeepCopy()
	annotate(changed, map[string]string{azurev1beta1.HashAnnotationKey: hash, azurev1beta1.HashVersionAnnotationKey: azurev1beta1.HashVersion})
	if err := p.client.Patch(ctx, changed, client.MergeFrom(c.DeepCopy())); err != nil {
		return fmt.Errorf("write the fingerprint of AKSNodeClass %s: %w", c.Name, err)
	}
	c.ObjectMeta = changed.ObjectMeta
	return nil
}

func (p *Provider) stampClaims(ctx context.Context, class, hash string) error {
	claims, err := p.claimsOf(ctx, class)
	if err != nil {
		return err
	}
	for i := range claims {
		claim := &claims[i]
		if claim.Annotations[azurev1beta1.HashVersionAnnotationKey] == azurev1beta1.HashVersion {
			continue
		}
		changed := claim.DeepCopy()
		annotate(changed, map[string]string{azurev1beta1.HashVersionAnnotationKey: azurev1beta1.HashVersion})
		if v1.GetCondition(claim, v1.ConditionDrifted) == nil {
			annotate(changed, map[string]string{azurev1beta1.HashAnnotationKey: hash})
		}
		if err := p.client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write the fingerprint of AKSNodeClass %s on NodeClaim %s: %w", class, claim.Name, err)
		}
	}
	return nil
}

// claimsOf are the claims that refer to a class. They belong to the cache: nobody changes them.
func (p *Provider) claimsOf(ctx context.Context, class string) (out []v1.NodeClaim, err error) {
	claims, err := p.claims(ctx)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		if claims[i].Spec.NodeClassRef.Name == class {
			out = append(out, claims[i])
		}
	}
	return out, nil
}

// claims are those of all AKSNodeClasses. They belong to the cache: nobody changes them.
func (p *Provider) claims(ctx context.Context) (out []v1.NodeClaim, err error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Group == azurev1beta1.Group {
			out = append(out, claims.Items[i])
		}
	}
	return out, nil
}

func annotate(o metav1.Object, with map[string]string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, with)
	o.SetAnnotations(annotations)
}
