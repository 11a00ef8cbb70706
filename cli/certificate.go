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

// certificateName is whom a controller's certificate is for, wherever the controller runs.
const certificateName = "controller.tenon.sh"

// newCertificate makes the certificate of this process. Only its own key signs it, which never leaves the memory; clients know
// it from the leader's Lease.
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

// certificateText is a certificate as an annotation holds it.
func certificateText(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw}))
}

// trustOnly is how a client recognises the one server that has the certificate.
func trustOnly(certificate string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(certificate)) {
		return nil, errors.New("it is no certificate")
	}
	return &tls.Config{RootCAs: roots, ServerName: certificateName, MinVersion: tls.VersionTLS13}, nil
}
