package jointoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// grace is the time for which a token stays after its claim has registered. It is also the age at which a token without a claim is deleted,
// because the list of claims may lag behind.
const grace = 5 * time.Minute

// Clean renews the tokens of claims that have not registered yet. It removes the tokens of claims that registered some minutes ago, that are
// being deleted or that are gone. It should run several times within a token's lifetime.
func (m *Minter) Clean(ctx context.Context) error {
	// Secrets are listed first, because the claim of each listed token is older than the token.
	secrets, claims := corev1.SecretList{}, v1.NodeClaimList{}
	if err := m.config.Client.List(ctx, &secrets, client.InNamespace(Namespace), client.HasLabels{ClaimLabelKey}); err != nil {
		return fmt.Errorf("list join tokens: %w%s", err, advice(err))
	}
	if len(secrets.Items) == 0 {
		return nil
	}
	if err := m.config.Client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims, for their join tokens: %w", err)
	}
	byUID := make(map[types.UID]*v1.NodeClaim, len(claims.Items))
	for i := range claims.Items {
		byUID[claims.Items[i].UID] = &claims.Items[i]
	}
	var failed []error
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !ours(secret) {
			continue
		}
		do, err := "delete", error(nil)
		switch m.fate(secret, byUID[types.UID(secret.Labels[ClaimLabelKey])]) {
		case ends:
			err = m.config.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		case lasts:
			do, err = "renew", m.renew(ctx, secret)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // if another process changed the Secret, the next call looks at it again
			failed = append(failed, fmt.Errorf("%s join token %s/%s: %w%s", do, Namespace, secret.Name, err, advice(err)))
		}
	}
	return errors.Join(failed...)
}

// fate is a decision about a token.
type fate int

const (
	stays fate = iota // unchanged, until it expires
	lasts             // renewed
	ends
)

// fate decides about the token of a claim. claim is nil if there is no such claim.
func (m *Minter) fate(secret *corev1.Secret, claim *v1.NodeClaim) fate {
	since := secret.CreationTimestamp.Time
	switch {
	case claim == nil:
	case !claim.DeletionTimestamp.IsZero():
		return ends
	case !v1.IsTrue(claim, v1.ConditionRegistered):
		return lasts
	default:
		since = v1.GetCondition(claim, v1.ConditionRegistered).LastTransitionTime.Time
	}
	if m.config.Clock.Since(since) >= grace {
		return ends
	}
	return stays
}
