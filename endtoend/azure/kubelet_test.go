package azure_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate/csr"

	"tenon.sh/provider/jointoken"
)

// signedWithin is how long a kubelet waits for its certificate before it asks again.
const signedWithin = time.Minute

// kubeadmRights are what kubeadm gives whoever has a token: to ask for a kubelet's certificate, and to have it without anybody's
// approval. Where the API server knows nodes by RBAC alone, as here, they need their role as well.
const kubeadmRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kubeadm:kubelet-bootstrap}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:node-bootstrapper}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: ` + jointoken.DefaultGroup + `}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kubeadm:node-autoapprove-bootstrap}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:certificates.k8s.io:certificatesigningrequests:nodeclient}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: ` + jointoken.DefaultGroup + `}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:node}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}]
`

// bearer is the access to the API server of who has nothing but a token.
func (j *joiner) bearer(token string) *rest.Config {
	return &rest.Config{Host: j.config.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: j.config.CAData}}
}

// whoIs is what the API server takes the bearer of a token for. The error is Unauthorized if it lets it in no more.
func (j *joiner) whoIs(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	client, err := kubernetes.NewForConfig(j.bearer(token))
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// kubelet is the access to the API server that a node has: a certificate that its kubelet has asked for with a token, and that
// kube-controller-manager has approved and signed.
func (j *joiner) kubelet(ctx context.Context, node, token string) (*rest.Config, error) {
	ctx, stop := context.WithTimeout(ctx, signedWithin)
	defer stop()
	client, err := kubernetes.NewForConfig(j.bearer(token))
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + node}}, key)
	if err != nil {
		return nil, err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), "", certificatesv1.KubeAPIServerClientKubeletSignerName, nil, usages, key)
	if err != nil {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	certificate, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return nil, fmt.Errorf("wait for certificate %s: %w", name, err)
	}
	return &rest.Config{Host: j.config.Host, TLSClientConfig: rest.TLSClientConfig{
		CAData: j.config.CAData, CertData: certificate, KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}}, nil
}
