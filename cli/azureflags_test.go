package cli

import (
	"reflect"
	"strings"
	"testing"

	"tenon.sh/provider/azure"
)

const (
	aSubnet   = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n"
	anAzureID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
	aDiskSet  = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/diskEncryptionSets/d"
)

func TestWhatTheAzureProviderIsTold(t *testing.T) {
	for variable, value := range map[string]string{"SYSTEM_NAMESPACE": "kube-system", "AZURE_TENANT_ID": "", "ARM_TENANT_ID": "tenant", "ARM_RESOURCE_GROUP": "cluster", "ARM_CLOUD": "AzurePublicCloud"} {
		t.Setenv(variable, value)
	}
	needed := map[string]string{"TENON_CLOUD_PROVIDER": "azure", "CLUSTER_NAME": "demo", "AZURE_NODE_RESOURCE_GROUP": "nodes", "VNET_SUBNET_ID": aSubnet, "PROVISION_MODE": "userdata"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, variables := range []map[string]string{needed, more} {
			for key, value := range variables {
				out[key] = value
			}
		}
		return out
	}
	overhead, usual := 0.02, 0.075
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want azure.Config
	}{
		"what is needed": {nil, with(nil), azure.Config{
			ClusterName: "demo", ResourceGroup: "nodes", ClusterGroup: "cluster", SubnetID: aSubnet, Mode: "userdata", MemoryOverhead: &usual, AdminUsername: "azureuser", SystemNamespace: "kube-system", NetworkDataplane: "cilium", Tenant: "tenant", CloudName: "AzurePublicCloud",
		}},
		"every variable": {nil, with(map[string]string{
			"CLUSTER_ENDPOINT": "https://api.example.com", "CLUSTER_CA_BUNDLE": "Y2E=", "VM_MEMORY_OVERHEAD_PERCENT": "0.02", "NETWORK_PLUGIN": "azure", "NODE_IDENTITIES": anAzureID + "," + anAzureID + "2",
			"LINUX_ADMIN_USERNAME": "me", "SSH_PUBLIC_KEY": "ssh-ed25519 A", "NODE_OSDISK_DISKENCRYPTIONSET_ID": aDiskSet, "ADDITIONAL_TAGS": "a=1,b=2", "JOIN_TOKENS": "true",
			"USE_SIG": "true", "SIG_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000001",
			"KUBELET_BOOTSTRAP_TOKEN": "a.b", "NETWORK_DATAPLANE": "azure", "NETWORK_POLICY": "calico", "DNS_SERVICE_IP": "10.0.0.9", "KUBELET_IDENTITY_CLIENT_ID": "00000000-0000-0000-0000-000000000002",
			"VNET_GUID": "00000000-0000-0000-0000-000000000003", "ENABLE_AZURE_SDK_LOGGING": "true", "PROVIDER_BATCH_MAX_SIZE": "50", // the last two have no effect
		}), azure.Config{
			ClusterName: "demo", ResourceGroup: "nodes", ClusterGroup: "cluster", SubnetID: aSubnet, Mode: "userdata", MemoryOverhead: &overhead, AdminUsername: "me", SystemNamespace: "kube-system",
			ClusterEndpoint: "https://api.example.com", ClusterCABundle: "Y2E=", NetworkPlugin: "azure", NetworkPluginMode: "overlay", NodeIdentities: []string{anAzureID, anAzureID + "2"},
			SSHPublicKey: "ssh-ed25519 A", DiskEncryptionSetID: aDiskSet, AdditionalTags: map[string]string{"a": "1", "b": "2"}, JoinTokens: true,
			UseSIG: true, SIGSubscription: "00000000-0000-0000-0000-000000000001", BootstrapToken: "a.b", NetworkDataplane: "azure", NetworkPolicy: "calico", DNSServiceIP: "10.0.0.9",
			KubeletIdentity: "00000000-0000-0000-0000-000000000002", NetworkGUID: "00000000-0000-0000-0000-000000000003", Tenant: "tenant", CloudName: "AzurePublicCloud",
		}},
		"addresses of the subnet": {[]string{"--network-plugin-mode="}, with(map[string]string{"NETWORK_PLUGIN": "azure"}), azure.Config{
			ClusterName: "demo", ResourceGroup: "nodes", ClusterGroup: "cluster", SubnetID: aSubnet, Mode: "userdata", MemoryOverhead: &usual, AdminUsername: "azureuser", SystemNamespace: "kube-system", NetworkPlugin: "azure", NetworkDataplane: "cilium", Tenant: "tenant", CloudName: "AzurePublicCloud",
		}},
	} {
		opt, err := read(test.args, test.env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := opt.azureConfig()
		if len(got.NodeIdentities) == 0 {
			got.NodeIdentities = nil
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, test.want)
		}
	}
	_, err := read(nil, map[string]string{"TENON_CLOUD_PROVIDER": "azure"})
	if err == nil || !strings.Contains(err.Error(), "CLUSTER_NAME") || !strings.Contains(err.Error(), "AZURE_NODE_RESOURCE_GROUP") || !strings.Contains(err.Error(), "KUBELET_BOOTSTRAP_TOKEN") {
		t.Errorf("nothing is told: %v", err)
	}
}
