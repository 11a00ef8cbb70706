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

// Why a pod's claims cannot be used. kube-scheduler lets such a pod wait.
const (
	ClaimMissing    device.Code = "ClaimMissing"    // What names a claim that is not there yet; the pod is no reason to buy anything
	ClaimForeign    device.Code = "ClaimForeign"    // What names a claim that was made for another pod
	ClaimLeaving    device.Code = "ClaimLeaving"    // What names a claim that is being deleted
	ClaimFull       device.Code = "ClaimFull"       // What names a claim that as many pods use as may
	TemplateMissing device.Code = "TemplateMissing" // What names a ResourceClaimTemplate that there is not
)

// PodClaims is what a pod claims.
type PodClaims struct {
	// Open lists the claims that are to be allocated for the pod.
	Open []*resourcev1.ResourceClaim
	// Within lists where allocated claims can be used: the pod has to go to a node that all of them match.
	Within []*corev1.NodeSelector
}

// ClaimIndex finds claims and templates by namespace and name.
type ClaimIndex struct {
	claims map[[2]string]*resourcev1.ResourceClaim
	drafts map[[2]string]*resourcev1.ResourceClaim // by the template
}

// draftPrefix is what no name of a claim can begin with.
const draftPrefix = "of template "

// Claims finds these claims, and drafts of those that will be made from the templates.
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

// IsDraft reports whether the claim stands for those that are yet to be made from a template: each pod gets one of its own.
func IsDraft(c *resourcev1.ResourceClaim) bool { return strings.HasPrefix(c.Name, draftPrefix) }

// ClaimsOf finds the claims that are counted where the pod is to find a place, or why it has to wait. In the place of those that were
// made from a template for a pod that runs it is drafts: its successor gets claims of its own, of what the template says by then. A pod
// that waits for its claims to be made is no reason to buy anything: a quota may forbid them.
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

// Unallocated are the claims as they would be if these pods, which run, had just been made: in the place of those that were made for them from
// templates are claims of what the templates say now, with no devices yet, and none where the template is gone.
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
