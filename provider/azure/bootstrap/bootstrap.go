// Package bootstrap writes the boot script of a machine with an image of AKS: a script for cloud-init that exports the variables of the
// image's own scripts and runs these. It only converts values, and the same values give the same script.
//
// The names of the variables, and the paths, are the contract of AKS's node images. Microsoft keeps this contract for AKS itself and does not
// document it. They were written down from knowledge of that contract. The script has never started a node of AKS, so it is not proved to
// work. The versions of the images' downloads (urls.go) and of the GPU drivers (gpu.go) will be outdated first.
//
// Ignored lists fields that cannot be passed to an image in this way.
package bootstrap

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/userdata"
)

// Network plugins, and the relevant mode and dataplane, with their values in the options NETWORK_PLUGIN, NETWORK_PLUGIN_MODE and
// NETWORK_DATAPLANE.
const (
	PluginAzure     = "azure"
	PluginNone      = "none"
	ModeOverlay     = "overlay"
	DataplaneCilium = "cilium"
)

// Input holds the inputs of a machine's script.
type Input struct {
	// Spec is the spec of the machine's class.
	Spec *azurev1beta1.AKSNodeClassSpec
	// KubernetesVersion is 1.34.2, with or without a v.
	KubernetesVersion string

	// Endpoint is the API server's, https://…; images accept only port 443. CABundle is in base64.
	Endpoint, CABundle string
	// BootstrapToken is the kubelet's token for joining. It is secret; only the script contains it.
	BootstrapToken string

	Tenant, Subscription, Location string
	// Cloud is Azure's name of the cloud, "" for AzurePublicCloud.
	Cloud string
	// NodeResourceGroup is the machine's resource group. Cluster is the value of label kubernetes.azure.com/cluster, which follows from it.
	NodeResourceGroup, Cluster string
	// SubnetID is the machine's subnet. Number is the number of eight digits in the names of AKS's security group and route table, "" if it
	// is not known. NetworkGUID is the GUID of the virtual network; overlays need it.
	SubnetID, Number, NetworkGUID string
	// The cluster's network, from the installation's settings.
	NetworkPlugin, NetworkMode, NetworkDataplane, NetworkPolicy string
	DNSServiceIP                                                string
	// KubeletIdentity is the client ID of the identity that pulls images.
	KubeletIdentity string
	AdminUsername   string

	// Size is the machine's size, Standard_NC24ads_A100_v4. NVIDIA is true if it has NVIDIA GPUs.
	Size   string
	NVIDIA bool
	// Architecture is amd64 or arm64.
	Architecture string
	// Family is the result of package image's Effective.
	Family  string
	MaxPods int
	// KubeReserved is the kubelet's reservation.
	KubeReserved corev1.ResourceList
	// EvictionMemory is the memory below which pods are evicted, "" for 750Mi.
	EvictionMemory string
	// Labels are the labels that follow from the claim and the machine's size; AKS's own labels are added.
	Labels map[string]string
	// Taints are the claim's taints and startup taints; karpenter.sh/unregistered is added if it is missing.
	Taints []corev1.Taint
}

// Script returns the machine's custom data: the script in base64, as Azure expects it. No error contains the token.
func Script(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", fmt.Errorf("write the custom data: %w", err)
	}
	var out strings.Builder
	out.WriteString("#!/bin/bash\n# The image's scripts write here, as if Azure's agent had started them.\n")
	out.WriteString("mkdir -p /var/log/azure/Microsoft.Azure.Extensions.CustomScript/events\n")
	for _, v := range variables(in) {
		out.WriteString("export " + v.name + "=" + quoted(v.value) + "\n")
	}
	out.WriteString("/usr/bin/nohup /bin/bash " + containers + "provision_start.sh >>/var/log/azure/cluster-provision-cse-output.log 2>&1\n")
	if out.Len() > userdata.Limit {
		return "", fmt.Errorf("write the custom data: it is %d bytes, and Azure takes %d at most: give the node fewer labels and taints", out.Len(), userdata.Limit)
	}
	return base64.StdEncoding.EncodeToString([]byte(out.String())), nil
}

// quoted quotes a text as one word of a shell command.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

var tokenPattern = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// check reports all mistakes with which a machine would never join.
func (in *Input) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if in.Spec == nil {
		return errors.New("no class is known")
	}
	if parseMinor(in.KubernetesVersion) == unknownMinor {
		wrong("%q is no version of Kubernetes such as 1.34.2", in.KubernetesVersion)
	}
	if u, err := url.Parse(in.Endpoint); err != nil || u.Hostname() == "" || u.Scheme != "https" {
		wrong("CLUSTER_ENDPOINT is %q: want the URL of the API server, https://…", in.Endpoint)
	} else if port := u.Port(); port != "" && port != "443" {
		wrong("CLUSTER_ENDPOINT is %q: images of AKS know no port but 443", in.Endpoint)
	}
	if pem, err := base64.StdEncoding.DecodeString(in.CABundle); err != nil || len(pem) == 0 {
		wrong("the certificate authority of the API server is not known, or not in base64: set CLUSTER_CA_BUNDLE")
	}
	if !tokenPattern.MatchString(in.BootstrapToken) {
		wrong("KUBELET_BOOTSTRAP_TOKEN is not one: want six characters, a dot and sixteen characters of a-z and 0-9")
	}
	if _, err := netip.ParseAddr(in.DNSServiceIP); err != nil {
		wrong("DNS_SERVICE_IP is %q: want the IP address of the cluster's DNS", in.DNSServiceIP)
	}
	if in.overlay() && in.NetworkGUID == "" {
		wrong("the GUID of the virtual network is not known: set VNET_GUID, nodes of an overlay need it")
	}
	if in.Architecture != "amd64" && in.Architecture != "arm64" {
		wrong("there are no images of AKS for architecture %q", in.Architecture)
	}
	if in.MaxPods <= 0 {
		wrong("the node would take %d pods", in.MaxPods)
	}
	if s := swapMiB(in.Spec); s < 0 {
		wrong("spec.linuxOSConfig.swapFileSize is %q: want a size such as 1Gi", in.Spec.LinuxOSConfig.SwapFileSize)
	}
	if low, high := gcThresholds(in.Spec.Kubelet); low < 0 || high > 100 {
		wrong("spec.kubelet says that images are deleted from %d%% of the disk down to %d%%: the kubelet wants the first to be more, from 0 to 100", high, low)
	}
	if _, _, _, ok := in.subnet(); !ok {
		wrong("%q is not the resource ID of a subnet", in.SubnetID)
	}
	in.checkLabels(wrong)
	return errors.Join(errs...)
}

// checkLabels reports labels that would make the API server refuse the node.
func (in *Input) checkLabels(wrong func(string, ...any)) {
	labels := NodeLabels(*in)
	for _, key := range sortedKeys(labels) {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])); len(problems) > 0 {
			wrong("label %s=%q: %s", key, labels[key], strings.Join(problems, "; "))
		}
	}
}

// overlay reports whether pods have addresses of a separate network.
func (in *Input) overlay() bool {
	return in.NetworkPlugin == PluginAzure && in.NetworkMode == ModeOverlay
}

// imagePlugin returns the network plugin that the image sets up. The cluster installs all other plugins as DaemonSets.
func (in *Input) imagePlugin() string {
	if in.NetworkPlugin == PluginAzure && in.NetworkMode == "" && in.NetworkDataplane != DataplaneCilium {
		return PluginAzure
	}
	return PluginNone
}
