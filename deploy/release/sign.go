package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

const inToto = "application/vnd.in-toto+json"

// loadSigner reads a private key. The message says how to make one, because a wrong file is the usual mistake.
func loadSigner(file string) (signature.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(text, password)
	if err != nil {
		return nil, fmt.Errorf("%s is no private key in PEM that can be read: %w; `openssl genpkey -algorithm ed25519 -out KEY.pem` makes one", file, err)
	}
	switch key.(type) {
	case ed25519.PrivateKey, *ecdsa.PrivateKey:
		return signature.LoadSigner(key, crypto.SHA256)
	}
	return nil, fmt.Errorf("%s is a private key of type %T: want ed25519 or ECDSA", file, key)
}

// password opens a key that cosign has made, with the variable that cosign reads.
func password(bool) ([]byte, error) {
	value, set := os.LookupEnv("COSIGN_PASSWORD")
	if !set {
		return nil, errors.New("the key is encrypted, and COSIGN_PASSWORD is not set")
	}
	return []byte(value), nil
}

func loadVerifier(file string) (signature.Verifier, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no public key in PEM: %w; `openssl pkey -in KEY.pem -pubout` prints the public key of a private one", file, err)
	}
	return signature.LoadVerifier(key, crypto.SHA256)
}

// signBlob signs bytes as `cosign sign-blob` does: the signature in base64.
func signBlob(by signature.Signer, content []byte) ([]byte, error) {
	raw, err := by.SignMessage(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return []byte(base64.StdEncoding.EncodeToString(raw) + "\n"), nil
}

func verifyBlob(by signature.Verifier, content, text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		return fmt.Errorf("the signature is not base64: %w", err)
	}
	return by.VerifySignature(bytes.NewReader(raw), bytes.NewReader(content))
}

// signStatement puts a statement into a signed envelope (DSSE).
func signStatement(by signature.Signer, statement []byte) ([]byte, error) {
	envelope, err := dsse.WrapSigner(by, inToto).SignMessage(bytes.NewReader(statement))
	return append(envelope, '\n'), err
}
