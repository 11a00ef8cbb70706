package azure

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/size"
)

// The ways in which machines join, by the values of option PROVISION_MODE.
const (
	// ModeUserData gives machines the user data of their class. It does not depend on AKS.
	ModeUserData = "userdata"
	// ModeScriptless uses images of AKS, which start the kubelet from their custom data.
	ModeScriptless = "aksscriptless"
)

// DefaultMemoryOverhead is the largest share of a machine's nominal memory that its hypervisor takes.
const DefaultMemoryOverhead = size.DefaultMemoryOverhead

// DefaultAdminUsername is the default user for logins to machines.
const DefaultAdminUsername = "azureuser"

// Config holds the settings of a Provider. The zero value of a setting is its default.
type Config struct {
	// ClusterName is required. It is in the tags of all objects that the provider makes, and identifies them.
	ClusterName string
	// ClusterEndpoint and ClusterCABundle (base64) are the API server's address and certificate authorities for machines.
	ClusterEndpoint, ClusterCABundle string
	// ResourceGroup is the resource group of the machines.
	ResourceGroup string
	// ClusterGroup is the resource group of the AKS cluster, "" if it is not known. It is needed to delete machines that AKS itself has made.
	ClusterGroup string
	// SubnetID is the subnet of machines whose class names none.
	SubnetID string
	// Mode is ModeUserData or ModeScriptless.
	Mode string
	// MemoryOverhead is the share of the nominal memory that the hypervisor takes; nil means DefaultMemoryOverhead.
	MemoryOverhead *float64
	// NetworkPlugin and NetworkPluginMode are the cluster's, "azure" and "overlay" for example. The number of pods of a node depends on them.
	NetworkPlugin, NetworkPluginMode string
	// NodeIdentities are user-assigned identities of all machines.
	NodeIdentities []string
	// AdminUsername may log in with SSHPublicKey. Without a key, no user can log in.
	AdminUsername, SSHPublicKey string
	// DiskEncryptionSetID is the disk encryption set of all disks.
	DiskEncryptionSetID string
	// AdditionalTags are set on all objects that the provider makes.
	AdditionalTags map[string]string
	// UseSIG takes images of AKS from its shared galleries, in SIGSubscription.
	UseSIG          bool
	SIGSubscription string
	// SystemNamespace is the controller's namespace, in which AKS writes the maintenance window of its nodes; "" for none.
	SystemNamespace string
	// Further settings for images of AKS: the kubelets' token for joining, the tenant, Azure's name of the cloud ("" for AzurePublicCloud),
	// the cluster's network, and the client ID of the identity that pulls images. NetworkGUID and DNSServiceIP are looked up if they are "".
	BootstrapToken, Tenant, CloudName string
	NetworkDataplane, NetworkPolicy   string
	NetworkGUID, DNSServiceIP         string
	KubeletIdentity                   string
	// OtherCloud means that the cloud is none of Microsoft's own clouds.
	OtherCloud bool
	// JoinTokens puts a join token into user data, which is made for the machine's claim alone.
	JoinTokens bool

	// Cloud is the connection to Azure.
	Cloud *cloud.Cloud
	// Client reads and writes Kubernetes objects.
	Client client.Client
	// Secrets reads and writes the Secrets of join tokens without a cache; nil means Client.
	Secrets client.Client
	// Reader reads objects that need no cache; nil means Client.
	Reader client.Reader
	// Version asks the API server for its version.
	Version discovery.ServerVersionInterface
	// Tell receives events for users; nil drops them.
	Tell provider.Tell
	// Registry registers the metrics; nil means that they are not registered.
	Registry prometheus.Registerer
	// Clock is the clock; nil means the machine's.
	Clock clock.Clock
}

var (
	adminPattern = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_]{0,31}$`)
	uuidPattern  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// Check returns an error that lists all mistakes in the settings, nil if there are none. It makes no calls.
func (c *Config) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	needed := func(value, variable string) {
		if value == "" {
			wrong("%s is not set", variable)
		}
	}
	needed(c.ClusterName, "CLUSTER_NAME")
	needed(c.ResourceGroup, "AZURE_NODE_RESOURCE_GROUP")
	needed(c.SubnetID, "VNET_SUBNET_ID")
	if c.SubnetID != "" && !isID(c.SubnetID, "Microsoft.Network/virtualNetworks/subnets") {
		wrong("VNET_SUBNET_ID is %q: want the resource ID of a subnet, /subscriptions/…/virtualNetworks/…/subnets/…", c.SubnetID)
	}
	switch c.Mode {
	case ModeUserData:
	case ModeScriptless:
		needed(c.ClusterEndpoint, "CLUSTER_ENDPOINT")
		needed(c.BootstrapToken, "KUBELET_BOOTSTRAP_TOKEN")
		needed(c.SSHPublicKey, "SSH_PUBLIC_KEY")
	default:
		wrong("PROVISION_MODE is %q: want %s or %s; machines that AKS makes itself are not started by this program", c.Mode, ModeUserData, ModeScriptless)
	}
	if u, err := url.Parse(c.ClusterEndpoint); c.ClusterEndpoint != "" && (err != nil || u.Host == "" || !u.IsAbs()) {
		wrong("CLUSTER_ENDPOINT is %q: want a URL such as https://example.com", c.ClusterEndpoint)
	}
	if o := c.MemoryOverhead; o != nil && !(*o >= 0 && *o < 1) {
		wrong("VM_MEMORY_OVERHEAD_PERCENT is %v: it must be a part of one, such as 0.075", *o)
	}
	if c.AdminUsername != "" && !adminPattern.MatchString(c.AdminUsername) {
		wrong("LINUX_ADMIN_USERNAME is %q: want a letter, then letters, digits, - and _, 32 in all at most", c.AdminUsername)
	}
	c.checkNetwork(wrong)
	for _, id := range c.NodeIdentities {
		if !isID(id, "Microsoft.ManagedIdentity/userAssignedIdentities") {
			wrong("NODE_IDENTITIES holds %q: want resource IDs of user-assigned identities", id)
		}
	}
	if c.DiskEncryptionSetID != "" && !isID(c.DiskEncryptionSetID, "Microsoft.Compute/diskEncryptionSets") {
		wrong("NODE_OSDISK_DISKENCRYPTIONSET_ID is %q: want the resource ID of a disk encryption set", c.DiskEncryptionSetID)
	}
	if c.UseSIG && !uuidPattern.MatchString(c.SIGSubscription) {
		wrong("USE_SIG needs SIG_SUBSCRIPTION_ID, the ID of the subscription with the galleries, not %q", c.SIGSubscription)
	}
	c.checkTags(wrong)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("settings of the azure provider: %w", errors.Join(errs...))
}

func (c *Config) checkNetwork(wrong func(string, ...any)) {
	if !slices.Contains([]string{"", "azure", "cilium"}, c.NetworkDataplane) {
		wrong("NETWORK_DATAPLANE is %q: want azure, cilium or nothing", c.NetworkDataplane)
	}
	for variable, value := range map[string]string{"VNET_GUID": c.NetworkGUID, "KUBELET_IDENTITY_CLIENT_ID": c.KubeletIdentity} {
		if value != "" && !uuidPattern.MatchString(value) {
			wrong("%s is %q: want a UUID", variable, value)
		}
	}
	if c.DNSServiceIP != "" && net.ParseIP(c.DNSServiceIP) == nil {
		wrong("DNS_SERVICE_IP is %q: want an IP address", c.DNSServiceIP)
	}
	if !slices.Contains([]string{"", size.PluginAzure, size.PluginNone}, c.NetworkPlugin) {
		wrong("NETWORK_PLUGIN is %q: want %s or %s", c.NetworkPlugin, size.PluginAzure, size.PluginNone)
	}
	if !slices.Contains([]string{"", size.ModeOverlay}, c.NetworkPluginMode) {
		wrong("NETWORK_PLUGIN_MODE is %q: want %s or nothing", c.NetworkPluginMode, size.ModeOverlay)
	}
	if c.NetworkPlugin == size.PluginNone && c.NetworkPluginMode != "" {
		wrong("NETWORK_PLUGIN_MODE is %q, and NETWORK_PLUGIN is %s, which has no modes", c.NetworkPluginMode, size.PluginNone)
	}
}

// checkTags checks the tags that are set on all objects. Azure ignores the case of their keys.
func (c *Config) checkTags(wrong func(string, ...any)) {
	seen := map[string]string{}
	for key, value := range c.AdditionalTags {
		switch other, again := seen[strings.ToLower(key)]; {
		case again:
			wrong("ADDITIONAL_TAGS holds %q and %q: Azure heeds no case in keys", min(key, other), max(key, other))
		case len(key) > 512 || strings.ContainsAny(key, `<>%&\?/`):
			wrong("ADDITIONAL_TAGS holds key %q: want at most 512 characters, and none of < > %% & \\ ? /", key)
		case len(value) > 256:
			wrong("ADDITIONAL_TAGS holds %d characters for %q: Azure takes 256", len(value), key)
		}
		seen[strings.ToLower(key)] = key
	}
}

func isID(id, kind string) bool {
	parsed, err := arm.ParseResourceID(id)
	return err == nil && strings.EqualFold(parsed.ResourceType.String(), kind)
}

func (c *Config) reader() client.Reader {
	if c.Reader == nil {
		return c.Client
	}
	return c.Reader
}
