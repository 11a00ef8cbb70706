package azure_test

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

// newAKS returns a subscription with AKS's objects in a cluster's node resource group, and a provider for that cluster.
func newAKS(t *testing.T) (*world, *azurev1beta1.AKSNodeClass) {
	t.Helper()
	w := newWorld(t, func(c *azure.Config) {
		c.Mode, c.ClusterEndpoint, c.ClusterCABundle = azure.ModeScriptless, "https://demo.hcp.eastus.azmk8s.io:443", "Y2E="
		c.BootstrapToken, c.SSHPublicKey, c.Tenant = "abcdef.0123456789abcdef", "ssh-ed25519 AAAA", azuretest.Tenant
		c.NetworkPlugin, c.NetworkPluginMode, c.NetworkDataplane = "azure", "overlay", "cilium"
		c.KubeletIdentity = "00000000-0000-0000-0000-0000000000aa"
	})
	w.Put(azuretest.Group, "Microsoft.Network/networkSecurityGroups", "aks-agentpool-12345678-nsg", map[string]any{})
	for _, definition := range []string{"2404gen2containerd", "2404containerd", "2404gen2arm64containerd"} {
		image := azuretest.Image{ID: "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/" + definition, Versions: []azuretest.Version{{Name: "202606.1.0", Published: w.clock.Now()}}}
		if strings.Contains(definition, "arm64") {
			image.Architecture = "Arm64"
		}
		if definition == "2404containerd" {
			image.Generation = "V1"
		}
		w.AddImage(image)
	}
	c := w.class("general", func(c *azurev1beta1.AKSNodeClass) { c.Spec = azurev1beta1.AKSNodeClassSpec{} })
	return w, c
}

func TestMachinesOfAKSAreStartedWhereItKeepsItsNodes(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	pools := w.AddBalancer(azuretest.Group, "kubernetes", "kubernetes", "aksOutboundBackendPool")
	if problem := w.resolve(c); problem != "" {
		t.Fatal(problem)
	}
	m, err := w.launch(w.claim("general-x7k2p", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D4s_v5"), in(v1.CapacityTypeLabelKey, "on-demand")}, nil), c)
	w.must(err)
	w.wants(putVM, map[string]string{
		"properties.osProfile.computerName": "aks-general-x7k2p", "tags.compute.aks.billing": "linux", "tags.karpenter.azure.com_cluster": clusterName,
		"properties.storageProfile.imageReference.communityGalleryImageId": "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2404gen2containerd/versions/202606.1.0",
	})
	w.wants(putNIC, map[string]string{
		"properties.networkSecurityGroup.id":                                              "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Network/networkSecurityGroups/aks-agentpool-12345678-nsg",
		"properties.ipConfigurations[0].properties.loadBalancerBackendAddressPools[0].id": pools[1],
		"properties.ipConfigurations[0].properties.loadBalancerBackendAddressPools[1].id": pools[0],
		"properties.ipConfigurations[1].name":                                             "",
	})
	text, err := base64.StdEncoding.DecodeString(w.CustomData("aks-general-x7k2p"))
	w.must(err)
	for _, part := range []string{"provision_start.sh", "demo.hcp.eastus.azmk8s.io", "abcdef.0123456789abcdef", "karpenter.sh/nodepool=pool", "karpenter.sh/unregistered", "--max-pods=250", "cpu=140m", "12345678"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is not in what it is told:\n%s", part, text)
		}
	}
	if m.Capacity.Pods().Value() != 250 || m.Labels["kubernetes.azure.com/cluster"] != azuretest.Group {
		t.Errorf("machine %+v", m)
	}
	// AKS makes other pools when the cluster's outbound type changes.
	w.Remove("/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Network/loadBalancers/kubernetes")
	w.AddBalancer(azuretest.Group, "kubernetes", "kubernetes")
	_, err = w.launch(w.claim("another", nil, nil), c)
	w.must(err)
	w.wants(putNIC, map[string]string{
		"properties.ipConfigurations[0].properties.loadBalancerBackendAddressPools[0].id": pools[0],
		"properties.ipConfigurations[0].properties.loadBalancerBackendAddressPools[1].id": "",
	})
}

func TestWhatAClassOfAKSLacksIsSaid(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	c.Spec.LocalDNS = &azurev1beta1.LocalDNS{Mode: "Required"}
	if problem := w.resolve(c); problem != "" {
		t.Error(problem)
	}
	if is := v1.GetCondition(c, azurev1beta1.ConditionValidationSucceeded); !strings.Contains(is.Message, "spec.localDNS cannot act") {
		t.Errorf("condition %+v", is)
	}
	c.Spec.UserData = "join"
	if problem := w.resolve(c); !strings.Contains(problem, "spec.userData is for clusters that are not AKS") {
		t.Error(problem)
	}
	c.Spec.UserData = ""
	c.Spec.VNETSubnetID = w.AddSubnet(azuretest.Group, "elsewhere", "machines", "10.3.0.0/16")
	if problem := w.resolve(c); !strings.Contains(problem, "is not in the cluster's virtual network") {
		t.Error(problem)
	}
	c.Spec.VNETSubnetID = ""
	w.Remove("/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Network/networkSecurityGroups/aks-agentpool-12345678-nsg")
	w.restart()
	if problem := w.resolve(c); problem != "" {
		t.Fatal(problem)
	}
	_, err := w.launch(w.claim("a", nil, nil), c)
	if err == nil || !strings.Contains(err.Error(), "network security group of AKS") || len(w.Calls(putNIC)) != 0 {
		t.Errorf("got %v", err)
	}
}
