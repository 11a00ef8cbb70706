package aws

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/stamp"
)

// stamp writes the hash of the class on the class, and on its claims with a hash of another version.
func (p *Provider) stamp(ctx context.Context, c *awsv1.EC2NodeClass) error {
	keys := stamp.Keys{Hash: awsv1.HashAnnotationKey, HashVersion: awsv1.HashVersionAnnotationKey, Version: awsv1.HashVersion}
	return stamp.Class(ctx, p.client, "EC2NodeClass", c, keys, c.Hash(p.cluster.CABundle), func() ([]v1.NodeClaim, error) { return p.claimsOf(ctx, c.Name) })
}

// claimsOf returns the claims that refer to a class. They belong to the cache and must not be changed.
func (p *Provider) claimsOf(ctx context.Context, class string) (out []v1.NodeClaim, err error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the claims of EC2NodeClass %s: %w", class, err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Group == awsv1.Group && ref.Name == class {
			out = append(out, claims.Items[i])
		}
	}
	return out, nil
}
