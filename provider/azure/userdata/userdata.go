// Package userdata writes the boot data of a machine of Azure in clusters other than AKS: the user's own text for cloud-init or another
// reader, with values filled in that only the autoscaler knows. It only converts values.
//
// A text without {{ is passed to the machine unchanged. In other texts, expressions between {{ and }} are replaced:
//
//	{{ .ClusterName }}       any of the variables that Values has, of which each is one word, or empty; .MaxPods is a number
//	{{ labels }}             the node's labels as kubelet --node-labels takes them, without those that kubelets may not set
//	{{ taints }}             its taints as kubelet --register-with-taints takes them, karpenter.sh/unregistered among them
//	{{ json .Labels }}       anything as JSON, which is YAML too: .Taints so are those of kubeadm's nodeRegistration
//	{{ host .ClusterEndpoint }}  host:port of a URL, as kubeadm's apiServerEndpoint takes it
//	{{ base64 .ClusterName }}    a text in base64
//	{{ .NodeName | indent 4 }}   a text with so many spaces before every line
//	{{ "{{" }}               two braces that are meant for the machine
//
// There are no conditions and no loops, because shells have them. An unknown name is an error before any machine is started. An example for a
// machine that joins by kubeadm:
//
//	apiVersion: kubeadm.k8s.io/v1beta4
//	kind: JoinConfiguration
//	discovery:
//	  bootstrapToken:
//	    token: {{ .JoinToken }}
//	    apiServerEndpoint: {{ host .ClusterEndpoint }}
//	    caCertHashes: [{{ .CACertHash }}]
//	nodeRegistration:
//	  name: {{ .NodeName }}
//	  taints: {{ json .Taints }}
//	  kubeletExtraArgs:
//	  - {name: cloud-provider, value: external}
//	  - {name: node-labels, value: "{{ labels }}"}
//	  - {name: max-pods, value: "{{ .MaxPods }}"}
package userdata

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// Limit is the largest size of user data in bytes that Azure accepts, before encoding.
const Limit = 65535

// Values are the values that can be filled in. An unknown value is empty.
type Values struct {
	ClusterName       string
	ClusterEndpoint   string // https://…
	ClusterCABundle   string // base64, as in kubeconfigs
	CACertHash        string // from the function CACertHash
	NodeClaim         string
	NodePool          string
	NodeName          string // also the name of the machine
	ProviderID        string
	KubernetesVersion string // 1.34.2
	JoinToken         string
	Region            string
	Zone              string // as in label topology.kubernetes.io/zone
	InstanceType      string
	CapacityType      string
	MaxPods           int
	Labels            map[string]string // all of the node's
	Taints            []corev1.Taint    // including startup taints; karpenter.sh/unregistered is added if it is missing
}

// Render fills in a text, and encodes it in base64, as Azure expects it. The error is one line about a mistake that the user can correct.
func Render(text string, values Values) (string, error) {
	values.Taints = taintsOf(values.Taints)
	filled, err := fill(text, values)
	if err != nil {
		return "", err
	}
	if len(filled) > Limit {
		return "", TooLargeError{Bytes: len(filled)}
	}
	return base64.StdEncoding.EncodeToString([]byte(filled)), nil
}

// Check returns the mistake in a text, nil if it can be filled in for every machine.
func Check(text string) error {
	filled, err := fill(text, Values{})
	if err == nil && len(filled) > Limit {
		return TooLargeError{Bytes: len(filled)}
	}
	return err
}

// Needs reports whether a text uses the join token. For a wrong text, it returns false.
func Needs(text string) (joinToken bool) {
	const mark = "\x00"
	with, err := fill(text, Values{JoinToken: mark})
	without, _ := fill(text, Values{})
	return err == nil && with != without
}

// TooLargeError means that Azure would refuse a text.
type TooLargeError struct{ Bytes int }

// Error returns one line.
func (e TooLargeError) Error() string {
	return fmt.Sprintf("spec.userData is %d bytes when it is filled in, and Azure takes %d at most: shorten it, for instance by fetching a script at boot", e.Bytes, Limit)
}

// CACertHash returns the hash by which kubeadm identifies a cluster: that of the public key of its certificate authority, "sha256:…". Of
// several authorities, it uses the first.
func CACertHash(bundle []byte) (string, error) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", fmt.Errorf("read the certificate of the cluster's authority: %w", err)
		}
		sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		return "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	return "", errors.New("read the certificate of the cluster's authority: there is none in PEM, between BEGIN CERTIFICATE and END CERTIFICATE")
}

// taintsOf returns the taints with which a node registers, each once and in order of name, and one that keeps pods away until the controller
// has completed the node. Kubernetes refuses nodes with the same taint twice.
func taintsOf(given []corev1.Taint) (out []corev1.Taint) {
	for _, t := range append(slices.Clone(given), v1.UnregisteredTaint()) {
		if !slices.ContainsFunc(out, func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
			out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	slices.SortFunc(out, func(a, b corev1.Taint) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect)) })
	return out
}
