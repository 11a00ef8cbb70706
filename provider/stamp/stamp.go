// Package stamp writes the hashes of node classes on the classes and on their claims, for every cloud that detects drift by them.
package stamp

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// Keys are the annotations with the hash of a class and the version of its algorithm. Version is the current version.
type Keys struct{ Hash, HashVersion, Version string }

// Class writes the hash of a class on the class. If the algorithm's version has changed, it writes the hash on the class's claims with an old
// version as well, because hashes of different versions cannot be compared. A claim that has drifted keeps its own hash, because it would
// stop being drifted. claims returns the class's claims; they may belong to a cache, so Class does not change them. kind is for errors,
// "EC2NodeClass".
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

// Annotate adds annotations to an object. It replaces the map, so other holders of the old map see no change.
func Annotate(o metav1.Object, with map[string]string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, with)
	o.SetAnnotations(annotations)
}
