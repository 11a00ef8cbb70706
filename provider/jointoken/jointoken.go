// Package jointoken mints the tokens with which machines join a cluster if their cloud does not vouch for them: one bootstrap token for each
// NodeClaim, in kubeadm's format. A token is removed after its machine has become a node. The provider passes the token to the machine, and
// calls Clean, which removes old tokens.
package jointoken

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

const (
	// Namespace is the namespace in which Kubernetes looks for bootstrap tokens.
	Namespace = "kube-system"
	// DefaultLifetime is the time after which a token expires, unless it is renewed.
	DefaultLifetime = 30 * time.Minute
	// DefaultGroup is the group whose members may become nodes by kubeadm's default rules.
	DefaultGroup = "system:bootstrappers:kubeadm:default-node-token"

	// ClaimLabelKey marks the Secrets that a Minter has made. Its value is the UID of the Secret's claim.
	ClaimLabelKey = "tenon.sh/join-token-of"
	// ClaimNameAnnotationKey is the name of that claim, for people.
	ClaimNameAnnotationKey = "tenon.sh/nodeclaim"
)

// attempts is the number of IDs that are tried for a claim. IDs are short, so another program's token may have the same ID.
const attempts = 8

// groupPattern matches the groups that Kubernetes accepts for a bootstrap token. Kubernetes refuses a token with one bad group.
var groupPattern = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)

// Config holds the settings of a Minter.
type Config struct {
	// Client writes Secrets in kube-system. It should read them from the API server, because a cache would hold all Secrets of that
	// namespace.
	Client client.Client
	Clock  clock.PassiveClock
	// Cluster is the cluster's name. It is in the token's description, for people.
	Cluster string
	// Lifetime is the lifetime of tokens; 0 means DefaultLifetime.
	Lifetime time.Duration
	// Groups are the groups of the token's bearer; none means DefaultGroup.
	Groups []string
}

// Minter mints tokens. It has no state, and may be used from several goroutines and processes.
type Minter struct{ config Config }

// New makes a minter.
func New(config Config) *Minter {
	if config.Lifetime <= 0 {
		config.Lifetime = DefaultLifetime
	}
	if len(config.Groups) == 0 {
		config.Groups = []string{DefaultGroup}
	}
	return &Minter{config}
}

// CheckGroup returns an error if tokens cannot have this group.
func CheckGroup(group string) error {
	if !groupPattern.MatchString(group) {
		return fmt.Errorf("group %q of join tokens: it must begin with system:bootstrappers: and go on in small letters, digits, : and -, as in %s", group, DefaultGroup)
	}
	return nil
}

// Token returns the token of a claim, "abcdef.0123456789abcdef". Every call for the claim returns the same token for as long as the token's
// Secret exists. A token that will expire soon is renewed.
func (m *Minter) Token(ctx context.Context, claim *v1.NodeClaim) (string, error) {
	token, err := m.token(ctx, claim)
	if err != nil {
		return "", fmt.Errorf("mint a join token for NodeClaim %s: %w", claim.Name, err)
	}
	return token, nil
}

func (m *Minter) token(ctx context.Context, claim *v1.NodeClaim) (string, error) {
	if claim.UID == "" {
		return "", errors.New("it has no UID yet")
	}
	for _, group := range m.config.Groups {
		if err := CheckGroup(group); err != nil {
			return "", err
		}
	}
	for i := range attempts {
		id := idOf(claim.UID, i)
		secret, made, err := m.getOrMake(ctx, claim, id)
		if err != nil {
			return "", fmt.Errorf("read or make Secret %s/%s: %w%s", Namespace, secretName(id), err, advice(err))
		}
		if !ours(secret) || secret.Labels[ClaimLabelKey] != string(claim.UID) {
			continue // the Secret of another claim or program
		}
		token, err := read(secret, id)
		if err != nil || made {
			return token, err
		}
		if err := m.renew(ctx, secret); err != nil {
			return "", fmt.Errorf("renew Secret %s/%s: %w%s", Namespace, secret.Name, err, advice(err))
		}
		return token, nil
	}
	return "", fmt.Errorf("no Secret is free for the join token: the %d Secrets from %s/%s on belong to others: delete the unused ones", attempts, Namespace, secretName(idOf(claim.UID, 0)))
}

// getOrMake gets the Secret of an ID, and makes it for the claim if there is none.
func (m *Minter) getOrMake(ctx context.Context, claim *v1.NodeClaim, id string) (secret *corev1.Secret, made bool, err error) {
	secret = &corev1.Secret{}
	key := client.ObjectKey{Namespace: Namespace, Name: secretName(id)}
	if err = m.config.Client.Get(ctx, key, secret); !apierrors.IsNotFound(err) {
		return secret, false, err
	}
	secret = m.secret(claim, id)
	if err = m.config.Client.Create(ctx, secret); !apierrors.IsAlreadyExists(err) {
		return secret, true, err
	}
	secret = &corev1.Secret{} // another process was faster
	return secret, false, m.config.Client.Get(ctx, key, secret)
}

// renew extends a token to a whole lifetime if less than half of it is left.
func (m *Minter) renew(ctx context.Context, secret *corev1.Secret) error {
	until, err := time.Parse(time.RFC3339, string(secret.Data[keyExpiration]))
	now := m.config.Clock.Now()
	if err == nil && until.Sub(now) >= m.config.Lifetime/2 {
		return nil
	}
	renewed := secret.DeepCopy()
	renewed.Data[keyExpiration] = m.expiration()
	return m.config.Client.Update(ctx, renewed)
}

func (m *Minter) expiration() []byte {
	return []byte(m.config.Clock.Now().Add(m.config.Lifetime).UTC().Format(time.RFC3339))
}

// advice returns the remedy for an error, "" if it is clear.
func advice(err error) string {
	if apierrors.IsForbidden(err) {
		return ": join tokens need a Role in " + Namespace + " that allows to get, list, create, update and delete Secrets"
	}
	return ""
}
