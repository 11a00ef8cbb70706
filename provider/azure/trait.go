package azure

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// Reasons of the condition Drifted.
const (
	NodeClassDrift       = "NodeClassDrift"
	VersionDrift         = "K8sVersionDrift"
	KubeletIdentityDrift = "KubeletIdentityDrift"
	ImageDrift           = "ImageDrift"
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
	claims, err := p.claimsOf(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	hashes := []string{c.Hash()}
	for i := range claims {
		if a := claims[i].Annotations; a[azurev1beta1.HashAnnotationKey] != "" && a[azurev1beta1.HashVersionAnnotationKey] != azurev1beta1.HashVersion {
			hashes = append(hashes, a[azurev1beta1.HashAnnotationKey])
		}
	}
	out := []engine.Trait{{Key: azurev1beta1.HashAnnotationKey, Accepts: slices.Compact(slices.Sorted(slices.Values(hashes))), Reason: NodeClassDrift}}
	if !p.selfManaged() { // in other clusters, images have kubelets of their own
		if version := ptr.Deref(c.Status.KubernetesVersion, ""); version != "" && v1.IsTrue(c, azurev1beta1.ConditionKubernetesVersionReady) {
			out = append(out, engine.Trait{Key: v1.KubeletVersionAnnotationKey, Accepts: []string{version}, Reason: VersionDrift})
		}
		out = append(out, engine.Trait{Key: v1.KubeletIdentityAnnotationKey, Accepts: []string{p.config.KubeletIdentity}, Reason: KubeletIdentityDrift})
	}
	var images []string
	for _, image := range c.Status.Images {
		images = append(images, image.ID)
	}
	for i := range claims { // Azure's answers use different spellings of names
		id := claims[i].Status.ImageID
		if slices.ContainsFunc(c.Status.Images, func(image azurev1beta1.NodeImage) bool { return strings.EqualFold(image.ID, id) }) {
			images = append(images, id)
		}
	}
	if len(images) > 0 {
		slices.Sort(images)
		out = append(out, engine.Trait{Key: engine.ImageTrait, Accepts: slices.Compact(images), Reason: ImageDrift})
	}
	return out, nil
}

// Repairs returns the conditions of a Node that mean that its machine is broken.
func (p *Provider) Repairs() []engine.RepairPolicy {
	policy := func(condition, status string, toleration time.Duration) engine.RepairPolicy {
		return engine.RepairPolicy{Condition: condition, Status: status, Toleration: toleration}
	}
	return []engine.RepairPolicy{
		policy(string(corev1.NodeReady), string(corev1.ConditionFalse), 10*time.Minute),
		policy(string(corev1.NodeReady), string(corev1.ConditionUnknown), 10*time.Minute),
		policy("kubernetes.azure.com/NodeHealthy", string(corev1.ConditionFalse), 0),
	}
}
