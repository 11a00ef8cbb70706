package dra

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
)

// Codes for claims of a pod that cannot be used. kube-scheduler lets such a pod wait.
const (
	ClaimMissing    device.Code = "ClaimMissing"    // What names a claim that does not exist yet; the pod is no reason to buy anything
	ClaimForeign    device.Code = "ClaimForeign"    // What names a claim that was made for another pod
	ClaimLeaving    device.Code = "ClaimLeaving"    // What names a claim that is being deleted
	ClaimFull       device.Code = "ClaimFull"       // What names a claim that is used by the largest allowed number of pods
	TemplateMissing device.Code = "TemplateMissing" // What names a ResourceClaimTemplate that does not exist
)

// PodClaims holds the claims of a pod.
type PodClaims struct {
	// Open lists the claims to allocate for the pod.
	Open []*resourcev1.ResourceClaim
	// Within lists the places of allocated claims: the pod's node must match all of them.
	Within []*corev1.NodeSelector
}

// ClaimIndex finds claims and templates by namespace and name.
type ClaimIndex struct {
	claims map[[2]string]*resourcev1.ResourceClaim
	drafts map[[2]string]*resourcev1.ResourceClaim // by template
}

// draftPrefix starts the names of drafts; no claim's name can begin with it.
const draftPrefix = "of template "

// Claims returns the index of the claims, and of a draft for each template.
func Claims(list []*resourcev1.ResourceClaim, templates []*resourcev1.ResourceClaimTemplate) *ClaimIndex {
	out := &ClaimIndex{make(map[[2]string]*resourcev1.ResourceClaim, len(list)), make(map[[2]string]*resourcev1.ResourceClaim, len(templates))}
	for _, c := range list {
		out.claims[[2]string{c.Namespace, c.Name}] = c
	}
	for _, t := range templates {
		out.drafts[[2]string{t.Namespace, t.Name}] = &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: draftPrefix + t.Name}, Spec: t.Spec.Spec}
	}
	return out
}

// IsDraft reports whether the claim represents future claims of a template: each pod gets its own.
func IsDraft(c *resourcev1.ResourceClaim) bool { return strings.HasPrefix(c.Name, draftPrefix) }

// ClaimsOf returns the claims that count for the pod's new place, or why the pod must wait. For a running pod, drafts replace the claims that
// were made for it from templates, because its successor gets new claims from the current templates. A pod whose claims are not made yet is no
// reason to buy anything, because a quota may forbid them.
func ClaimsOf(pod *corev1.Pod, index *ClaimIndex) (PodClaims, *device.Reason) {
	var out PodClaims
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		refuse := func(code device.Code, what string) (PodClaims, *device.Reason) {
			return PodClaims{}, &device.Reason{Code: code, Claim: ref.Name, Selector: -1, What: what}
		}
		name, known, owned := claimName(pod, ref)
		if known && name == "" {
			continue
		}
		c := index.claims[[2]string{pod.Namespace, name}]
		switch template := text(ref.ResourceClaimTemplateName); {
		case template != "" && (c == nil || pod.Spec.NodeName != ""):
			draft := index.drafts[[2]string{pod.Namespace, template}]
			if draft == nil {
				return refuse(TemplateMissing, template)
			}
			if pod.Spec.NodeName == "" {
				return refuse(ClaimMissing, cmp.Or(name, template))
			}
			out.Open = append(out.Open, draft)
			continue
		case c == nil:
			return refuse(ClaimMissing, name)
		case c.DeletionTimestamp != nil:
			return refuse(ClaimLeaving, name)
		case owned && !metav1.IsControlledBy(c, pod):
			return refuse(ClaimForeign, name)
		case c.Status.Allocation == nil:
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

// Unallocated returns the claims as if these running pods had just been created: claims made for them from templates are replaced by unallocated
// claims from the current templates, or are left out if the template is gone.
func Unallocated(list []*resourcev1.ResourceClaim, templates []*resourcev1.ResourceClaimTemplate, pods []*corev1.Pod) []*resourcev1.ResourceClaim {
	index, successors := Claims(list, templates), map[*resourcev1.ResourceClaim]*resourcev1.ResourceClaim{}
	for _, pod := range pods {
		for i := range pod.Spec.ResourceClaims {
			ref := &pod.Spec.ResourceClaims[i]
			name, _, owned := claimName(pod, ref)
			c := index.claims[[2]string{pod.Namespace, name}]
			if !owned || c == nil {
				continue
			}
			successors[c] = nil
			if draft := index.drafts[[2]string{pod.Namespace, text(ref.ResourceClaimTemplateName)}]; draft != nil {
				successors[c] = &resourcev1.ResourceClaim{Spec: draft.Spec, ObjectMeta: metav1.ObjectMeta{
					Namespace: c.Namespace, Name: c.Name, UID: c.UID, OwnerReferences: c.OwnerReferences}}
			}
		}
	}
	out := make([]*resourcev1.ResourceClaim, 0, len(list))
	for _, c := range list {
		successor, replaced := successors[c]
		if !replaced {
			successor = c
		}
		if successor != nil {
			out = append(out, successor)
		}
	}
	return out
}

// claimName returns the name of a claim that a pod refers to: empty if the pod needs none, not known if the claim is still to be made from a
// template. owned means that the claim is for the pod alone.
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
