package awstest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// nodeConfig holds the settings that a machine reads from its user data.
type nodeConfig struct {
	endpoint    string
	authorities []byte
	labels      map[string]string
	taints      []corev1.Taint
	maxPods     int64
}

// readNodeConfig reads user data like nodeadm, which sets up machines of AL2023: it looks for a NodeConfig among the parts.
func readNodeConfig(text []byte) (nodeConfig, error) {
	message, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return nodeConfig{}, fmt.Errorf("read the user data: %w", err)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nodeConfig{}, fmt.Errorf("read the user data: %w", err)
	}
	for parts := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nodeConfig{}, errors.New("the user data holds no NodeConfig: machines of AL2023 alone boot here")
		}
		if err != nil {
			return nodeConfig{}, fmt.Errorf("read the user data: %w", err)
		}
		if part.Header.Get("Content-Type") != "application/node.eks.aws" {
			continue
		}
		config, err := io.ReadAll(part)
		if err != nil {
			return nodeConfig{}, fmt.Errorf("read the NodeConfig: %w", err)
		}
		return parseNodeConfig(config)
	}
}

func parseNodeConfig(text []byte) (nodeConfig, error) {
	var in struct {
		Kind string
		Spec struct {
			Cluster struct{ Name, APIServerEndpoint, CertificateAuthority, CIDR string }
			Kubelet struct {
				Config struct {
					MaxPods            int64
					RegisterWithTaints []corev1.Taint
				}
				Flags []string
			}
		}
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return nodeConfig{}, fmt.Errorf("read the NodeConfig: %w", err)
	}
	cluster, kubelet := in.Spec.Cluster, in.Spec.Kubelet
	out := nodeConfig{endpoint: cluster.APIServerEndpoint, labels: labelsOf(kubelet.Flags), taints: kubelet.Config.RegisterWithTaints, maxPods: kubelet.Config.MaxPods}
	authorities, err := base64.StdEncoding.DecodeString(cluster.CertificateAuthority)
	if err != nil || in.Kind != "NodeConfig" || cluster.Name == "" || cluster.CIDR == "" || out.endpoint == "" || out.maxPods == 0 {
		return nodeConfig{}, fmt.Errorf("the NodeConfig is not complete:\n%s", text)
	}
	out.authorities = authorities
	return out, nil
}

// labelsOf reads the labels from a kubelet's flags.
func labelsOf(flags []string) map[string]string {
	out := map[string]string{}
	for _, flag := range flags {
		list, _ := strings.CutPrefix(flag, "--node-labels=")
		for pair := range strings.SplitSeq(strings.Trim(list, `"`), ",") {
			if key, value, found := strings.Cut(pair, "="); found && list != flag {
				out[key] = value
			}
		}
	}
	return out
}
