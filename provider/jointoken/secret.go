package jointoken

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
)

// The parts of a bootstrap token's Secret that Kubernetes reads.
const (
	namePrefix        = "bootstrap-token-"
	keyID             = "token-id"
	keySecret         = "token-secret"
	keyExpiration     = "expiration"
	keyDescription    = "description"
	keyGroups         = "auth-extra-groups"
	keyAuthentication = "usage-bootstrap-authentication"
	keySigning        = "usage-bootstrap-signing" // kubeadm uses it to check that it talks to the right cluster
)

const idLength, secretLength = 6, 16

var tokenPattern = regexp.MustCompile(`\A[a-z0-9]{6}\.[a-z0-9]{16}\z`)

func secretName(id string) string { return namePrefix + id }

// idOf returns the n-th possible ID of a claim's token. The ID follows from the claim's UID, so that another call, after a restart or at the
// same time, does not make a second token. IDs are not secret: kubeadm shows them.
func idOf(claim types.UID, n int) string {
	sum := sha256.Sum256([]byte(string(claim) + "/" + strconv.Itoa(n)))
	text := "00000" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 36)
	return text[len(text)-idLength:]
}

// newSecret returns the secret part of a token: 80 random bits.
func newSecret() string { return strings.ToLower(rand.Text())[:secretLength] }

// secret returns a new Secret with a token for a claim.
func (m *Minter) secret(claim *v1.NodeClaim, id string) *corev1.Secret {
	description := "NodeClaim " + claim.Name
	if m.config.Cluster != "" {
		description += " of cluster " + m.config.Cluster
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: secretName(id),
			Labels:      map[string]string{ClaimLabelKey: string(claim.UID)},
			Annotations: map[string]string{ClaimNameAnnotationKey: claim.Name},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			keyID: []byte(id), keySecret: []byte(newSecret()), keyExpiration: m.expiration(),
			keyAuthentication: []byte("true"), keySigning: []byte("true"), keyGroups: []byte(strings.Join(m.config.Groups, ",")),
			keyDescription: []byte(description + ". It is deleted when the machine is a node."),
		},
	}
}

// read returns the token that a Secret holds. The error does not contain the token.
func read(secret *corev1.Secret, id string) (string, error) {
	token := id + "." + string(secret.Data[keySecret])
	if string(secret.Data[keyID]) != id || !tokenPattern.MatchString(token) {
		return "", fmt.Errorf("the token in Secret %s/%s cannot be read any more: delete it, and another is made", secret.Namespace, secret.Name)
	}
	return token, nil
}

// ours reports whether a Minter has made this Secret.
func ours(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeBootstrapToken && secret.Labels[ClaimLabelKey] != "" &&
		secret.Name == secretName(string(secret.Data[keyID]))
}
