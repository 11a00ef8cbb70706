package dra

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
)

// Why a pod's claims cannot be used. kube-scheduler lets such a pod wait.
const (
	ClaimMissing device.Code = "ClaimMissing" // What names a claim that is not there yet; the pod is no reason to buy anything
	ClaimForeign device.Code = "ClaimForeign" // What names a claim that was made for another pod
	ClaimLeaving device.Code = "ClaimLeaving" // What names a claim that is being deleted
	ClaimFull    device.Code = "ClaimFull"    // What names a claim that as many pods use as may
)

// PodClaims is what a pod claims.
type PodClaims struct {
	// Open lists the claims that are to be allocated for the pod.
	Open []*resourcev1.ResourceClaim
	// Within lists where allocated claims can be used: the pod has to go to a node that all of them match.
	Within []*corev1.NodeSelector
}

// Claims finds claims by namespace and name.
func Claims(list []*resourcev1.ResourceClaim) map[[2]string]*resourcev1.ResourceClaim {
	out := make(map[[2]string]*resourcev1.ResourceClaim, len(list))
	for _, c := range list {
		out[[2]string{c.Namespace, c.Name}] = c
	}
	return out
}

// ClaimsOf finds the pod's claims, or why it has to wait. Those that were made for a pod that runs are open: where it lands they are
// allocated anew.
func ClaimsOf(pod *corev1.Pod, claims map[[2]string]*resourcev1.ResourceClaim) (PodClaims, *device.Reason) {
	var out PodClaims
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		refuse := func(code device.Code, what string) (PodClaims, *device.Reason) {
			return PodClaims{}, &device.Reason{Code: code, Claim: ref.Name, Selector: -1, What: what}
		}
		name, known, owned := claimName(pod, ref)
		if !known {
			return refuse(ClaimMissing, text(ref.ResourceClaimTemplateName))
		}
		if name == "" {
			continue
		}
		c := claims[[2]string{pod.Namespace, name}]
		switch {
		case c == nil:
			return refuse(ClaimMissing, name)
		case c.DeletionTimestamp != nil:
			return refuse(ClaimLeaving, name)
		case owned && !metav1.IsControlledBy(c, pod):
			return refuse(ClaimForeign, name)
		case c.Status.Allocation == nil || owned && pod.Spec.NodeName != "":
			if !slices.Contains(out.Open, c) {
				out.Open = append(out.Open, c)
			}
			continue
		case len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize && !reservedFor(c, pod):
			return refuse(ClaimFull, name)
		}
		if selector := c.Status.Allocation.NodeSelector; selector != nil {
			out.Within = append(out.Within, selector)
		}
	}
	return out, nil
}

// claimName is the name of a claim that a pod refers to: empty if it was decided that it needs none, unknown if it is yet to be made
// from a template. Owned says that the claim is for the pod alone.
func claimName(pod *corev1.Pod, ref *corev1.PodResourceClaim) (name string, known, owned bool) {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName, true, false
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == ref.Name {
			return text(s.ResourceClaimName), true, true
		}
	}
	return "", false, false
}

func reservedFor(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.Resource == "pods" && r.APIGroup == "" && r.UID == pod.UID
	})
}
