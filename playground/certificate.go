package playground

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	clockSkew       = time.Hour // the start of validity is this far in the past
)

// An authority signs certificates. Its files stay in the folder, so that its certificates stay valid after a restart.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	certFile    string
	keyFile     string
	certPEM     []byte
}

// An identity is a signed certificate and its key, both PEM.
type identity struct {
	certPEM, keyPEM []byte
}

// openAuthority reads base.crt and base.key, or creates them.
func openAuthority(base, name string) (*authority, error) {
	a := &authority{certFile: base + ".crt", keyFile: base + ".key"}
	_, err := os.Stat(a.certFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = a.create(name)
	} else if err == nil {
		err = a.read()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", a.certFile, err)
	}
	return a, nil
}

func (a *authority) create(name string) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name},
		IsCA:    true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, key.Public(), key, authorityLife)
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key, a.certPEM = key, encodePEM("CERTIFICATE", der)
	// The certificate is written last, so that its key is complete if it exists.
	if err := os.WriteFile(a.keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(a.certFile, a.certPEM, 0o600)
}

func (a *authority) read() (err error) {
	if a.certPEM, err = os.ReadFile(a.certFile); err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(a.keyFile)
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(a.certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("the file is not PEM: remove the folder to start anew")
	}
	if a.certificate, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

// client signs a client certificate for a user and its groups in Kubernetes.
func (a *authority) client(user string, groups ...string) (identity, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server signs a certificate for a server on the loopback interface. It is valid for clients too, because members of etcd are clients of each
// other.
func (a *authority) server(name string) (identity, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(firstServiceIP)},
	})
}

func (a *authority) issue(template *x509.Certificate) (identity, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return identity{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(template, a.certificate, key.Public(), a.key, certificateLife)
	if err != nil {
		return identity{}, fmt.Errorf("sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return identity{certPEM: encodePEM("CERTIFICATE", der), keyPEM: keyPEM}, nil
}

// write writes the identity to base.crt and base.key.
func (i identity) write(base string) error {
	if err := os.WriteFile(base+".crt", i.certPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(base+".key", i.keyPEM, 0o600)
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer, life time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-clockSkew)
	template.NotAfter = time.Now().Add(life)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

// ensureKey creates the key for the tokens of service accounts unless it exists.
func ensureKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	_, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	return os.WriteFile(path, keyPEM, 0o600)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
