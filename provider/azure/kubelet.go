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

// kubeletWord is what a claim of AKS says of its node's kubelet. One that was told no identity says nothing of that.
func kubeletWord(version, identity string) map[string]string {
	word := map[string]string{v1.KubeletVersionAnnotationKey: version}
	if identity != "" {
		word[v1.KubeletIdentityAnnotationKey] = identity
	}
	return word
}

// noteKubelets writes on claims what their nodes say of their kubelets, where that is not there: nobody has left word of it on those
// that Karpenter has made. What a machine was told when it was made is not looked at again, so that an image whose kubelet is another
// is not replaced for ever.
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
