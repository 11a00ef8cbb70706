package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/size"
)

// azureFlags are the options of the Azure provider. It shares further ones with the AWS provider: the cluster's name, endpoint and
// authorities, and the memory overhead. Names and defaults are those of Karpenter.
type azureFlags struct {
	NodeResourceGroup, VNETSubnetID          string
	ProvisionMode                            string
	NetworkPlugin, NetworkPluginMode         string
	NodeIdentities                           []string
	LinuxAdminUsername, SSHPublicKey         string
	DiskEncryptionSetID                      string
	AdditionalTags                           map[string]string
	UseSIG                                   bool
	SIGSubscriptionID                        string
	KubeletBootstrapToken                    string
	NetworkDataplane, NetworkPolicy          string
	DNSServiceIP, VNETGUID                   string
	KubeletIdentityClientID                  string
	JoinTokens                               bool
	azureUnused                              map[string]*string
	enableAzureSDKLogging, manageExistingAKS bool
}

func defaultAzureFlags() azureFlags {
	return azureFlags{ProvisionMode: azure.ModeScriptless, NetworkPluginMode: size.ModeOverlay, NetworkDataplane: "cilium", LinuxAdminUsername: azure.DefaultAdminUsername}
}

// azureFlagNames returns the flags of the Azure provider. Their environment variables have the same names, except the variable of the resource
// group.
func azureFlagNames() []string {
	return append(strings.Fields(`node-resource-group vnet-subnet-id provision-mode network-plugin network-plugin-mode node-identities
		linux-admin-username ssh-public-key kubelet-bootstrap-token network-dataplane network-policy dns-service-ip vnet-guid
		kubelet-identity-client-id node-osdisk-diskencryptionset-id additional-tags use-sig sig-subscription-id join-tokens
		enable-azure-sdk-logging manage-existing-aks-machines`), azureUnusedFlags()...)
}

// azureUnusedFlags returns flags that are accepted so that installations of Karpenter start. They have no effect, because they belong to
// unsupported ways to start machines, or because the provider finds their values itself.
func azureUnusedFlags() []string {
	return strings.Fields(`nodebootstrapping-server-url aks-machines-pool-name sig-access-token-server-url provider-batch-idle-duration provider-batch-max-duration
		provider-batch-max-size`)
}

func (o *azureFlags) addFlags(flags *pflag.FlagSet) {
	defer heading(flags, "Flags of Azure")()
	flags.StringVar(&o.NodeResourceGroup, "node-resource-group", o.NodeResourceGroup, "resource group of Azure that machines are made in")
	flags.StringVar(&o.VNETSubnetID, "vnet-subnet-id", o.VNETSubnetID, "resource ID of the subnet of machines whose class names none")
	flags.StringVar(&o.ProvisionMode, "provision-mode", o.ProvisionMode, "how machines of Azure are told what to do: "+azure.ModeScriptless+" as images of AKS want it; "+azure.ModeUserData+" as their class says, for clusters that are not AKS")
	flags.StringVar(&o.NetworkPlugin, "network-plugin", o.NetworkPlugin, "the cluster's network, azure or none, which says how many pods a node takes; empty for what the kubelet takes itself")
	flags.StringVar(&o.NetworkPluginMode, "network-plugin-mode", o.NetworkPluginMode, "mode of the network plugin azure: overlay, or empty where pods have addresses of the subnet")
	flags.StringSliceVar(&o.NodeIdentities, "node-identities", o.NodeIdentities, "resource IDs of user-assigned identities that all machines of Azure get")
	flags.StringVar(&o.LinuxAdminUsername, "linux-admin-username", o.LinuxAdminUsername, "who may log in to machines of Azure")
	flags.StringVar(&o.SSHPublicKey, "ssh-public-key", o.SSHPublicKey, "the key with which one may; nobody may if empty")
	flags.StringVar(&o.KubeletBootstrapToken, "kubelet-bootstrap-token", o.KubeletBootstrapToken, "the token that machines of AKS join with; better given by its variable")
	flags.StringVar(&o.NetworkDataplane, "network-dataplane", o.NetworkDataplane, "what forwards packets in a cluster of AKS: cilium, azure or empty")
	flags.StringVar(&o.NetworkPolicy, "network-policy", o.NetworkPolicy, "what enforces network policies in a cluster of AKS")
	flags.StringVar(&o.DNSServiceIP, "dns-service-ip", o.DNSServiceIP, "address of the DNS service of a cluster of AKS; found out if empty")
	flags.StringVar(&o.VNETGUID, "vnet-guid", o.VNETGUID, "GUID of the virtual network of a cluster of AKS; found out if empty")
	flags.StringVar(&o.KubeletIdentityClientID, "kubelet-identity-client-id", o.KubeletIdentityClientID, "client ID of the identity that nodes of AKS pull images with")
	flags.StringVar(&o.DiskEncryptionSetID, "node-osdisk-diskencryptionset-id", o.DiskEncryptionSetID, "resource ID of what disks of Azure are encrypted with")
	flags.StringToStringVar(&o.AdditionalTags, "additional-tags", o.AdditionalTags, "tags of everything that is made in Azure: key=value,other=value")
	flags.BoolVar(&o.UseSIG, "use-sig", o.UseSIG, "take AKS's images from its shared galleries")
	flags.StringVar(&o.SIGSubscriptionID, "sig-subscription-id", o.SIGSubscriptionID, "subscription of these galleries")
	flags.BoolVar(&o.JoinTokens, "join-tokens", o.JoinTokens, "make a token with which it may join the cluster for every NodeClaim whose user data asks for one; needs rights in kube-system")
	flags.BoolVar(&o.enableAzureSDKLogging, "enable-azure-sdk-logging", o.enableAzureSDKLogging, notNeeded+"bodies of requests are never logged")
	flags.BoolVar(&o.manageExistingAKS, "manage-existing-aks-machines", o.manageExistingAKS, notNeeded+"machines are virtual machines and none of AKS's own, so there are none to take over")
	o.azureUnused = map[string]*string{}
	for _, name := range azureUnusedFlags() {
		o.azureUnused[name] = flags.String(name, "", notNeeded+"it is of a way to start machines that is not this program's, or of what is found out")
	}
}

// azureConfig returns the Azure provider's configuration from the flags.
func (o *ControllerOptions) azureConfig() azure.Config {
	overhead, plugin, mode := o.VMMemoryOverhead, o.NetworkPlugin, o.NetworkPluginMode
	if plugin == "" && o.ProvisionMode != azure.ModeUserData {
		plugin = size.PluginAzure
	}
	if plugin != size.PluginAzure {
		mode = ""
	}
	return azure.Config{
		ClusterName: o.ClusterName, ClusterEndpoint: o.ClusterEndpoint, ClusterCABundle: o.ClusterCABundle, ResourceGroup: o.NodeResourceGroup,
		SubnetID: o.VNETSubnetID, Mode: o.ProvisionMode, MemoryOverhead: &overhead, NetworkPlugin: plugin, NetworkPluginMode: mode,
		NodeIdentities: o.NodeIdentities, AdminUsername: o.LinuxAdminUsername, SSHPublicKey: o.SSHPublicKey, DiskEncryptionSetID: o.DiskEncryptionSetID,
		AdditionalTags: o.AdditionalTags, UseSIG: o.UseSIG, SIGSubscription: o.SIGSubscriptionID, JoinTokens: o.JoinTokens,
		SystemNamespace: os.Getenv("SYSTEM_NAMESPACE"), ClusterGroup: os.Getenv("ARM_RESOURCE_GROUP"), BootstrapToken: o.KubeletBootstrapToken, NetworkDataplane: o.NetworkDataplane, NetworkPolicy: o.NetworkPolicy,
		NetworkGUID: o.VNETGUID, DNSServiceIP: o.DNSServiceIP, KubeletIdentity: o.KubeletIdentityClientID,
		Tenant: cmp.Or(os.Getenv("AZURE_TENANT_ID"), os.Getenv("ARM_TENANT_ID")), CloudName: os.Getenv("ARM_CLOUD"), OtherCloud: os.Getenv("AZURE_ENVIRONMENT_FILEPATH") != "",
	}
}

// newAzure makes the Azure provider.
func (c *autoscaler) newAzure(p *parts) (*azure.Provider, error) {
	version, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	connection, err := cloud.Load(clock.RealClock{})
	if err != nil {
		return nil, err
	}
	connection.May = p.mgr.term.Check
	cfg := c.opt.azureConfig()
	if cfg.ClusterCABundle, err = c.authorities(); err != nil {
		return nil, err
	}
	if cfg.Cloud, err = cloud.New(connection); err != nil {
		return nil, err
	}
	cfg.Client, cfg.Reader, cfg.Version, cfg.Clock = p.mgr.GetClient(), p.mgr.GetAPIReader(), version, clock.RealClock{}
	cfg.Registry, cfg.Tell = p.state, p.tell
	if cfg.Secrets, err = client.New(c.config, client.Options{Scheme: p.mgr.GetScheme()}); err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return azure.New(cfg)
}
