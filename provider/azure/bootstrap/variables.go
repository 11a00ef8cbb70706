package bootstrap

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tenon.sh/provider/azure/userdata"
)

// containers is the folder of the image's scripts.
const containers = "/opt/azure/containers/"

// variable is a variable that the image's scripts read.
type variable struct{ name, value string }

const yes, no = "true", "false"

// variables returns all variables, in order of name. It includes those of unused features, because the scripts expect them.
func variables(in Input) (out []variable) {
	for _, part := range [][]variable{
		in.clusterVariables(), in.networkVariables(), in.cloudVariables(), in.kubeletVariables(), in.downloadVariables(), in.gpuVariables(),
		in.systemVariables(), in.scriptVariables(), unusedVariables(),
	} {
		out = append(out, part...)
	}
	slices.SortFunc(out, func(a, b variable) int { return cmp.Compare(a.name, b.name) })
	return out
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func flag(is bool) string { return strconv.FormatBool(is) }

// clusterVariables returns the machine's cluster, and its credentials for joining.
func (in *Input) clusterVariables() []variable {
	host := ""
	if u, err := url.Parse(in.Endpoint); err == nil {
		host = u.Hostname()
	}
	return []variable{
		{"API_SERVER_NAME", host},
		{"APISERVER_PUBLIC_KEY", ""}, // the kubelet checks the API server by the certificate authority
		{"KUBE_CA_CRT", in.CABundle},
		{"TLS_BOOTSTRAP_TOKEN", in.BootstrapToken},
		{"ENABLE_TLS_BOOTSTRAPPING", yes},
		{"ENABLE_SECURE_TLS_BOOTSTRAPPING", no},
		{"CUSTOM_SECURE_TLS_BOOTSTRAP_AAD_SERVER_APP_ID", ""},
		{"KUBELET_CLIENT_CONTENT", ""},
		{"KUBELET_CLIENT_CERT_CONTENT", ""},
		{"KUBERNETES_VERSION", strings.TrimPrefix(in.KubernetesVersion, "v")},
		{"ADMINUSER", in.AdminUsername},
	}
}

// networkVariables returns the machine's network, and the settings of its pods' network.
func (in *Input) networkVariables() []variable {
	group, network, subnet, _ := in.subnet()
	security, routes := "", ""
	if in.Number != "" {
		security, routes = "aks-agentpool-"+in.Number+"-nsg", "aks-agentpool-"+in.Number+"-routetable"
	}
	mode := ""
	if in.imagePlugin() == PluginAzure {
		mode = "transparent"
	}
	return []variable{
		{"SUBNET", subnet},
		{"VIRTUAL_NETWORK", network},
		{"VIRTUAL_NETWORK_RESOURCE_GROUP", group},
		{"NETWORK_SECURITY_GROUP", security},
		{"ROUTE_TABLE", routes},
		{"NETWORK_PLUGIN", in.imagePlugin()},
		{"NETWORK_POLICY", in.NetworkPolicy},
		{"NETWORK_MODE", mode},
		{"KUBENET_TEMPLATE", ""},
		{"IPV6_DUAL_STACK_ENABLED", no},
		{"ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE", no},
		{"OUTBOUND_COMMAND", ""},
	}
}

// subnet returns the resource group, the virtual network and the name of the machine's subnet.
func (in *Input) subnet() (group, network, name string, ok bool) {
	parts := strings.Split(in.SubnetID, "/") // "", subscriptions, S, resourceGroups, G, providers, Microsoft.Network, virtualNetworks, V, subnets, N
	if len(parts) != 11 || !strings.EqualFold(parts[7], "virtualNetworks") || !strings.EqualFold(parts[9], "subnets") {
		return "", "", "", false
	}
	return parts[4], parts[8], parts[10], parts[4] != "" && parts[8] != "" && parts[10] != ""
}

// cloudVariables returns the contents of the image's azure.json, which is used to pull images and attach disks. The limits of calls are the
// defaults of cloud-provider-azure.
func (in *Input) cloudVariables() []variable {
	name := cmp.Or(in.Cloud, "AzurePublicCloud")
	return []variable{
		{"TENANT_ID", in.Tenant},
		{"SUBSCRIPTION_ID", in.Subscription},
		{"RESOURCE_GROUP", in.NodeResourceGroup},
		{"LOCATION", in.Location},
		{"VM_TYPE", "standard"},
		{"PRIMARY_AVAILABILITY_SET", ""},
		{"PRIMARY_SCALE_SET", ""},
		{"SERVICE_PRINCIPAL_CLIENT_ID", "msi"}, // the machine's identity, not a client with a secret
		{"SERVICE_PRINCIPAL_FILE_CONTENT", encoded("msi")},
		{"USE_MANAGED_IDENTITY_EXTENSION", yes},
		{"USER_ASSIGNED_IDENTITY_ID", in.KubeletIdentity},
		{"USE_INSTANCE_METADATA", yes},
		{"LOAD_BALANCER_SKU", "Standard"},
		{"LOAD_BALANCER_DISABLE_OUTBOUND_SNAT", no},
		{"EXCLUDE_MASTER_FROM_STANDARD_LB", yes},
		{"MAXIMUM_LOADBALANCER_RULE_COUNT", "250"},
		{"CLOUDPROVIDER_BACKOFF", yes},
		{"CLOUDPROVIDER_BACKOFF_MODE", "v2"},
		{"CLOUDPROVIDER_BACKOFF_RETRIES", "6"},
		{"CLOUDPROVIDER_BACKOFF_EXPONENT", "0"},
		{"CLOUDPROVIDER_BACKOFF_DURATION", "5"},
		{"CLOUDPROVIDER_BACKOFF_JITTER", "0"},
		{"CLOUDPROVIDER_RATELIMIT", yes},
		{"CLOUDPROVIDER_RATELIMIT_QPS", "10"},
		{"CLOUDPROVIDER_RATELIMIT_QPS_WRITE", "10"},
		{"CLOUDPROVIDER_RATELIMIT_BUCKET", "100"},
		{"CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE", "100"},
		{"TARGET_CLOUD", name},
		{"TARGET_ENVIRONMENT", name},
		{"IS_CUSTOM_CLOUD", no},
		{"CUSTOM_ENV_JSON", ""},
		{"AZURE_ENVIRONMENT_FILEPATH", ""},
		{"AKS_CUSTOM_CLOUD_CONTAINER_REGISTRY_DNS_SUFFIX", ""},
	}
}

// kubeletVariables returns the settings of the kubelet and of containerd.
func (in *Input) kubeletVariables() []variable {
	var flags []string
	all := KubeletFlags(*in)
	for _, name := range sortedKeys(all) {
		flags = append(flags, "--"+name+"="+all[name])
	}
	return []variable{
		{"KUBELET_FLAGS", strings.Join(flags, " ")},
		{"KUBELET_NODE_LABELS", userdata.LabelList(NodeLabels(*in))},
		{"KUBELET_CONFIG_FILE_ENABLED", no},
		{"KUBELET_CONFIG_FILE_CONTENT", ""},
		{"HAS_KUBELET_DISK_TYPE", no},
		{"CONTAINER_RUNTIME", "containerd"},
		{"CLI_TOOL", "ctr"},
		{"NEEDS_CONTAINERD", yes},
		{"NEEDS_CGROUPV2", yes},
		{"CONTAINERD_CONFIG_CONTENT", encoded(containerdConfig(in.drivesGPU()))},
		{"CONTAINERD_CONFIG_NO_GPU_CONTENT", encoded(containerdConfig(false))},
	}
}

// scriptVariables returns the paths and the time limit of the image's scripts.
func (in *Input) scriptVariables() []variable {
	return []variable{
		{"CSE_HELPERS_FILEPATH", containers + "provision_source.sh"},
		{"CSE_DISTRO_HELPERS_FILEPATH", containers + "provision_source_distro.sh"},
		{"CSE_INSTALL_FILEPATH", containers + "provision_installs.sh"},
		{"CSE_DISTRO_INSTALL_FILEPATH", containers + "provision_installs_distro.sh"},
		{"CSE_CONFIG_FILEPATH", containers + "provision_configs.sh"},
		{"CUSTOM_SEARCH_DOMAIN_FILEPATH", containers + "setup-custom-search-domains.sh"},
		{"DHCPV6_SERVICE_FILEPATH", "/etc/systemd/system/dhcpv6.service"},
		{"DHCPV6_CONFIG_FILEPATH", containers + "enable-dhcpv6.sh"},
		{"CSE_TIMEOUT", "15m"},
		{"IS_VHD", yes},
		{"PRE_PROVISION_ONLY", no},
	}
}

// unusedVariables returns the variables of AKS's features that this program does not use, switched off.
func unusedVariables() (out []variable) {
	for _, name := range []string{
		"SGX_NODE", "MIG_NODE", "IS_KRUSTLET", "IS_KATA", "TELEPORT_ENABLED", "NEEDS_DOCKER_LOGIN", "DISABLE_SSH", "ENABLE_HOSTS_CONFIG_AGENT",
		"ENABLE_UNATTENDED_UPGRADES", // a new image is a new machine
		"SHOULD_CONFIGURE_HTTP_PROXY", "SHOULD_CONFIGURE_HTTP_PROXY_CA", "SHOULD_CONFIGURE_CUSTOM_CA_TRUST", "HAS_CUSTOM_SEARCH_DOMAIN",
		"ARTIFACT_STREAMING_ENABLED", "SHOULD_ENABLE_LOCALDNS", "ENABLE_IMDS_RESTRICTION", "INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE",
	} {
		out = append(out, variable{name, no})
	}
	for _, name := range []string{
		"MOBY_VERSION", "HYPERKUBE_URL", "CUSTOM_KUBE_BINARY_URL", "KUBEPROXY_URL", "TELEPORTD_PLUGIN_DOWNLOAD_URL", "CONTAINERD_VERSION",
		"CONTAINERD_PACKAGE_URL", "CONTAINERD_DOWNLOAD_URL_BASE", "RUNC_VERSION", "RUNC_PACKAGE_URL", "HTTP_PROXY_URLS", "HTTPS_PROXY_URLS",
		"NO_PROXY_URLS", "PROXY_VARS", "HTTP_PROXY_TRUSTED_CA", "AZURE_PRIVATE_REGISTRY_SERVER", "BOOTSTRAP_PROFILE_CONTAINER_REGISTRY_SERVER",
		"PRIVATE_EGRESS_PROXY_ADDRESS", "CUSTOM_SEARCH_DOMAIN_NAME", "CUSTOM_SEARCH_REALM_USER", "CUSTOM_SEARCH_REALM_PASSWORD", "MESSAGE_OF_THE_DAY",
		"GPU_INSTANCE_PROFILE", "LOCALDNS_GENERATED_COREFILE",
	} {
		out = append(out, variable{name, ""})
	}
	return append(out, variable{"CUSTOM_CA_TRUST_COUNT", "0"})
}
