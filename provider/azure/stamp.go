package azure

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/stamp"
)

// stamp writes the hash of the class on the class, and on its claims with a hash of another version.
func (p *Provider) stamp(ctx context.Context, c *azurev1beta1.AKSNodeClass) error {
	keys := stamp.Keys{Hash: azurev1beta1.HashAnnotationKey, HashVersion: azurev1beta1.HashVersionAnnotationKey, Version: azurev1beta1.HashVersion}
	return stamp.Class(ctx, p.client, "AKSNodeClass", c, keys, c.Hash(), func() ([]v1.NodeClaim, error) { return p.claimsOf(ctx, c.Name) })
}

// claimsOf returns the claims that refer to a class. They belong to the cache and must not be changed.
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

// claims returns the claims of all AKSNodeClasses. They belong to the cache and must not be changed.
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
