package lifecycle

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Refresh returns the snapshot as a running controller would leave it: with template hashes on pools, with the drift of claims, and with claims
// marked as being deleted if they have expired or are deleted with their pool. It is for snapshots that were written or edited by hand, and does not
// change s. The notes name the deleted claims, with reasons.
func Refresh(s *engine.Snapshot) (fresh *engine.Snapshot, notes []string) {
	out := *s
	out.NodePools, out.NodeClaims = slices.Clone(s.NodePools), slices.Clone(s.NodeClaims)
	pools := map[string]*v1.NodePool{}
	for i, p := range out.NodePools {
		p = p.DeepCopy()
		p.Annotations = kube.With(kube.With(p.Annotations, v1.NodePoolHashAnnotationKey, p.Hash()), v1.NodePoolHashVersionAnnotationKey, v1.HashVersion)
		out.NodePools[i], pools[p.Name] = p, p
	}
	for i, claim := range out.NodeClaims {
		if claim.DeletionTimestamp != nil {
			continue
		}
		claim = claim.DeepCopy()
		out.NodeClaims[i] = claim
		pool := pools[claim.Labels[v1.NodePoolLabelKey]]
		if pool != nil && claim.Status.ProviderID != "" {
			refreshDrift(s, claim, pool)
		}
		if why := endOf(s, claim, pool); why != "" {
			at := metav1.NewTime(s.Now)
			claim.DeletionTimestamp = &at
			notes = append(notes, fmt.Sprintf("NodeClaim %s is being deleted: %s", claim.Name, why))
		}
	}
	return &out, notes
}

// refreshDrift updates the claim's drift. It keeps a recorded drift that cannot be checked here.
func refreshDrift(s *engine.Snapshot, claim *v1.NodeClaim, pool *v1.NodePool) {
	reason, message := DriftOf(claim, pool, kube.FindClass(s, pool.Spec.Template.Spec.NodeClassRef), s.Now)
	if reason != "" {
		kube.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, reason, message, s.Now)
		return
	}
	c := v1.GetCondition(claim, v1.ConditionDrifted)
	if c != nil && (c.Reason == RequirementsDrifted || c.Reason == PoolDrifted && HashComparable(claim, pool)) {
		v1.RemoveCondition(claim, v1.ConditionDrifted, s.Now)
	}
}

// endOf returns why the claim is deleted now, regardless of its pods. It returns "" if the claim is not deleted.
func endOf(s *engine.Snapshot, claim *v1.NodeClaim, pool *v1.NodePool) string {
	switch {
	case claim.Spec.ExpireAfter.Duration != nil && !claim.CreationTimestamp.IsZero() && !s.Now.Before(kube.ExpiresAt(claim)):
		return "it expired at " + engine.ClockText(kube.ExpiresAt(claim))
	case pool == nil && ownedByOtherPool(s, claim):
		return "its NodePool " + claim.Labels[v1.NodePoolLabelKey] + " is gone"
	case pool != nil && pool.DeletionTimestamp != nil && slices.Contains(pool.Finalizers, metav1.FinalizerDeleteDependents):
		return "its NodePool " + pool.Name + " is, with all that it has made"
	}
	return ""
}

// ownedByOtherPool reports whether the claim's NodePool is missing in the snapshot, which has other pools with the same kind of class.
func ownedByOtherPool(s *engine.Snapshot, claim *v1.NodeClaim) bool {
	owned := slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	return owned && claim.Spec.NodeClassRef != nil && slices.ContainsFunc(s.NodePools, func(p *v1.NodePool) bool {
		return p.Spec.Template.Spec.NodeClassRef.GroupKind() == claim.Spec.NodeClassRef.GroupKind()
	})
}
