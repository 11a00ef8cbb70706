package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/client-go/util/cert"
)

// certificateName is the name in every controller's certificate, whatever the controller's host.
const certificateName = "controller.tenon.sh"

// newCertificate makes the certificate of this process. It is signed by its own key, which stays in memory. Clients get it from the leader's
// Lease.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key for the catalog's certificate: %w", err)
	}
	leaf, err := cert.NewSelfSignedCACert(cert.Config{CommonName: certificateName}, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the catalog's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// certificateText returns a certificate in the form of an annotation.
func certificateText(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw}))
}

// trustOnly returns a TLS configuration that trusts only the server with this certificate.
func trustOnly(certificate string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(certificate)) {
		return nil, errors.New("it is no certificate")
	}
	return &tls.Config{RootCAs: roots, ServerName: certificateName, MinVersion: tls.VersionTLS13}, nil
}
