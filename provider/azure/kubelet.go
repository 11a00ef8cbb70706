package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/stamp"
)

// kubeletWord returns the annotations about the kubelet for a claim of AKS. Without an identity, there is no annotation about it.
func kubeletWord(version, identity string) map[string]string {
	word := map[string]string{v1.KubeletVersionAnnotationKey: version}
	if identity != "" {
		word[v1.KubeletIdentityAnnotationKey] = identity
	}
	return word
}

// noteKubelets writes the kubelet's version and identity from a node on its claim, if the claim lacks them, because Karpenter does not write
// them. If the claim has the values from its launch, they stay. Otherwise, a node whose image has another kubelet version would be replaced
// again and again.
func (p *Provider) noteKubelets(ctx context.Context, claims []v1.NodeClaim) error {
	if p.selfManaged() {
		return nil
	}
	var errs []error
	for i := range claims {
		claim := &claims[i]
		if claim.Annotations[v1.KubeletVersionAnnotationKey] != "" || claim.Status.NodeName == "" || claim.DeletionTimestamp != nil || !v1.IsTrue(claim, v1.ConditionRegistered) {
			continue
		}
		node := &corev1.Node{}
		if err := p.client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node); err != nil {
			if client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("look at the kubelet of NodeClaim %s: %w", claim.Name, err))
			}
			continue
		}
		is := strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")
		if _, err := version.ParseGeneric(is); err != nil || node.DeletionTimestamp != nil {
			continue
		}
		changed := claim.DeepCopy()
		stamp.Annotate(changed, kubeletWord(is, node.Labels[azurev1beta1.AKSKubeletIdentityLabelKey]))
		if err := p.client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("write on NodeClaim %s which kubelet its node has: %w", claim.Name, err))
		}
	}
	return errors.Join(errs...)
}
