package azure_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/jointoken"
)

const (
	nodeGroup = "MC_demo_demo_eastus" // the resource group of AKS's nodes
	// bootstrapToken is what all kubelets of a cluster of AKS join with.
	bootstrapToken = "abcdef.0123456789abcdef"
)

// bootstrapSecret is that of the token, as AKS has it.
const bootstrapSecret = `
apiVersion: v1
kind: Secret
metadata: {namespace: kube-system, name: bootstrap-token-%s}
type: bootstrap.kubernetes.io/token
stringData: {token-id: %q, token-secret: %q, usage-bootstrap-authentication: "true", auth-extra-groups: %q}
`

// group is the path of AKS's nodes.
func (w *world) group() string {
	return "/subscriptions/" + w.ID + "/resourceGroups/" + nodeGroup + "/providers"
}

// newAKS is a cluster of AKS, with what AKS makes in the resource group of its nodes.
func newAKS(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.AddGroup(nodeGroup)
	w.subnet = w.AddSubnet(nodeGroup, "aks-vnet-12345678", "aks-subnet", "10.224.0.0/16")
	w.Put(nodeGroup, "Microsoft.Network/networkSecurityGroups", "aks-agentpool-12345678-nsg", map[string]any{})
	w.AddBalancer(nodeGroup, "kubernetes", "kubernetes", "aksOutboundBackendPool")
	for definition, kind := range map[string]azuretest.Image{"2404gen2containerd": {}, "2404containerd": {Generation: "V1"}, "2404gen2arm64containerd": {Architecture: "Arm64"}} {
		kind.ID = "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/" + definition
		kind.Versions = []azuretest.Version{{Name: "202605.1.0", Published: time.Now().Add(-1000 * time.Hour)}, {Name: "202606.1.0", Published: time.Now().Add(-time.Hour)}}
		w.AddImage(kind)
	}
	id, secret, _ := strings.Cut(bootstrapToken, ".")
	w.apply(fmt.Sprintf(bootstrapSecret, id, id, secret, jointoken.DefaultGroup))
	w.flags = []string{
		"--provision-mode=aksscriptless", "--cluster-endpoint=https://demo.hcp.eastus.azmk8s.io:443", "--kubelet-bootstrap-token=" + bootstrapToken,
		"--ssh-public-key=ssh-ed25519 AAAA", "--network-plugin=azure", "--kubelet-identity-client-id=00000000-0000-0000-0000-0000000000aa",
		"--node-identities=" + w.group() + "/Microsoft.ManagedIdentity/userAssignedIdentities/demo-agentpool",
	}
	w.variables = []string{"AZURE_NODE_RESOURCE_GROUP=" + nodeGroup, "SYSTEM_NAMESPACE=kube-system"}
	w.joiner.mu.Lock()
	defer w.joiner.mu.Unlock()
	w.joiner.read = w.readScript
	return w
}

var exported = regexp.MustCompile(`(?m)^export (KUBELET_FLAGS|KUBELET_NODE_LABELS|KUBERNETES_VERSION|TLS_BOOTSTRAP_TOKEN)='(.*)'$`)

// readScript reads what the scripts of AKS's images are told.
func (w *world) readScript(m *azuretest.Machine) (told, error) {
	text, err := base64.StdEncoding.DecodeString(m.CustomData)
	if err != nil {
		return told{}, fmt.Errorf("read its custom data: %w", err)
	}
	values := map[string]string{}
	for _, match := range exported.FindAllStringSubmatch(string(text), -1) {
		values[match[1]] = match[2]
	}
	if values["KUBERNETES_VERSION"] != w.version || values["TLS_BOOTSTRAP_TOKEN"] != bootstrapToken {
		return told{}, errors.New("it is told another version or token: " + string(text))
	}
	t := told{name: m.Name, token: values["TLS_BOOTSTRAP_TOKEN"], labels: map[string]string{}, pods: 250, text: string(text), version: "v" + values["KUBERNETES_VERSION"]}
	for label := range strings.SplitSeq(values["KUBELET_NODE_LABELS"], ",") {
		key, value, _ := strings.Cut(label, "=")
		t.labels[key] = value
	}
	for flag := range strings.FieldsSeq(values["KUBELET_FLAGS"]) {
		list, is := strings.CutPrefix(flag, "--register-with-taints=")
		if !is {
			continue
		}
		for one := range strings.SplitSeq(list, ",") {
			rest, effect, _ := strings.Cut(one, ":")
			key, value, _ := strings.Cut(rest, "=")
			if !strings.HasPrefix(key, "node.cilium.io/") { // whose agent has done its work at once
				t.taints = append(t.taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
			}
		}
	}
	return t, nil
}
