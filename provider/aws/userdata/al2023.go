package userdata

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrNoServiceCIDR means that the address range of the cluster's Services is not known. Nodes of AL2023 need it.
var ErrNoServiceCIDR = errors.New("write user data: the cluster's service CIDR is not known yet, and AL2023 cannot join without it")

// renderAL2023 writes an archive for nodeadm. nodeadm merges NodeConfigs in their order, and the last one takes precedence, so Tenon's is last.
func renderAL2023(in Input, k Kubelet) (string, error) {
	if in.ServiceCIDR == "" {
		return "", ErrNoServiceCIDR
	}
	parts, err := ownPartsAL2023(in.Text)
	if err != nil {
		return "", err
	}
	config, err := nodeConfigYAML(in, k)
	if err != nil {
		return "", err
	}
	return writeArchive(append(parts, newPart(nodeConfig, config))), nil
}

// ownPartsAL2023 recognizes the form of the user's text: an archive, a NodeConfig or a shell script.
func ownPartsAL2023(text string) ([]part, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil
	case isArchive(text):
		return plainParts(text)
	case strings.HasPrefix(strings.TrimSpace(text), "#!"):
		// A script of echo lines may be valid YAML by chance.
		return []part{newPart(shellScript, text)}, nil
	}
	var mapping map[string]any
	err := yaml.Unmarshal([]byte(text), &mapping)
	if err == nil && mapping != nil {
		return []part{newPart(nodeConfig, text)}, nil
	}
	if err != nil && strings.Contains(text, "apiVersion: node.eks.aws/") {
		return nil, fmt.Errorf("read spec.userData as a NodeConfig: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return []part{newPart(shellScript, text)}, nil
}

// plainParts keeps only the content types of an archive's headers, because nodeadm's parser reads no others.
func plainParts(text string) ([]part, error) {
	encoded, err := readArchive(text)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, p := range encoded {
		plain, err := p.plain()
		if err != nil {
			return nil, err
		}
		parts = append(parts, plain)
	}
	return parts, nil
}

// nodeConfigYAML returns the NodeConfig that joins the machine to its cluster, with sorted keys.
func nodeConfigYAML(in Input, k Kubelet) (string, error) {
	ca, err := base64.StdEncoding.DecodeString(in.CABundle)
	if err != nil {
		return "", fmt.Errorf("write user data: the cluster's CA bundle is not base64: %w", err)
	}
	storage := map[string]any{}
	if in.RAID0 {
		storage["strategy"] = "RAID0"
	}
	kubelet := map[string]any{"config": kubeletConfig(in, k)}
	if labels := joined(in.Labels, "="); labels != "" {
		kubelet["flags"] = []string{`--node-labels="` + labels + `"`}
	}
	cluster := map[string]any{"name": in.ClusterName, "apiServerEndpoint": in.Endpoint, "cidr": in.ServiceCIDR}
	if len(ca) > 0 {
		cluster["certificateAuthority"] = ca
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "node.eks.aws/v1alpha1",
		"kind":       "NodeConfig",
		"metadata":   map[string]any{},
		"spec": map[string]any{
			"cluster":    cluster,
			"containerd": map[string]any{},
			"instance":   map[string]any{"localStorage": storage},
			"kubelet":    kubelet,
		},
	})
	if err != nil {
		return "", fmt.Errorf("write the NodeConfig: %w", err)
	}
	return "# Karpenter Generated NodeConfig\n" + string(text), nil
}

// kubeletConfig returns the user's spec.kubelet with the fields that the provider sets.
func kubeletConfig(in Input, k Kubelet) map[string]any {
	out := maps.Clone(in.Kubelet)
	if out == nil {
		out = map[string]any{}
	}
	if len(k.ClusterDNS) > 0 {
		out["clusterDNS"] = k.ClusterDNS
	}
	out["maxPods"] = in.MaxPods
	delete(out, "registerWithTaints")
	if len(in.Taints) > 0 {
		out["registerWithTaints"] = in.Taints
	}
	return out
}
