// Package stamp writes the fingerprints of node classes on them and on their claims, for every cloud whose machines drift by them.
package stamp

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// Keys are the annotations that hold a fingerprint of a kind of class, and the version of the way in which it is computed now.
type Keys struct{ Hash, HashVersion, Version string }

// Class writes the hash of a class on it, and on those of its claims that carry one of another version: a fingerprint that was
// computed in another way says nothing. A claim that has drifted keeps its own, or it would stop being drifted. claims lists those of
// the class; they may belong to a cache, and are not changed. kind is for errors, "EC2NodeClass".
func Class(ctx context.Context, c client.Client, kind string, class client.Object, keys Keys, hash string, claims func() ([]v1.NodeClaim, error)) error {
	stamped := class.GetAnnotations()[keys.HashVersion]
	if stamped == keys.Version && class.GetAnnotations()[keys.Hash] == hash {
		return nil
	}
	if stamped != keys.Version {
		list, err := claims()
		if err != nil {
			return err
		}
		if err := stampClaims(ctx, c, list, keys, hash); err != nil {
			return fmt.Errorf("write the fingerprint of %s %s on %w", kind, class.GetName(), err)
		}
	}
	changed := class.DeepCopyObject().(client.Object)
	Annotate(changed, map[string]string{keys.Hash: hash, keys.HashVersion: keys.Version})
	if err := c.Patch(ctx, changed, client.MergeFrom(class)); err != nil {
		return fmt.Errorf("write the fingerprint of %s %s: %w", kind, class.GetName(), err)
	}
	class.SetAnnotations(changed.GetAnnotations())
	class.SetResourceVersion(changed.GetResourceVersion())
	return nil
}

func stampClaims(ctx context.Context, c client.Client, claims []v1.NodeClaim, keys Keys, hash string) error {
	for i := range claims {
		claim := &claims[i]
		if claim.Annotations[keys.HashVersion] == keys.Version {
			continue
		}
		changed := claim.DeepCopy()
		Annotate(changed, map[string]string{keys.HashVersion: keys.Version})
		if v1.GetCondition(claim, v1.ConditionDrifted) == nil {
			Annotate(changed, map[string]string{keys.Hash: hash})
		}
		if err := c.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("NodeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// Annotate gives an object more annotations. What others hold of the old ones does not change.
func Annotate(o metav1.Object, with map[string]string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, with)
	o.SetAnnotations(annotations)
}
