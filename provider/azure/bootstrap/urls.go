package bootstrap

import "strings"

// mirror is the server from which images download missing parts.
const mirror = "https://acs-mirror.azureedge.net/"

// downloadVariables returns the URLs of downloads. Images from 1.34 on contain their kubelet.
func (in *Input) downloadVariables() []variable {
	minor, kubernetes := parseMinor(in.KubernetesVersion), "v"+strings.TrimPrefix(in.KubernetesVersion, "v")
	kubelet, credentials := "", ""
	if minor < 34 {
		kubelet = mirror + "kubernetes/" + kubernetes + "/binaries/kubernetes-node-linux-" + in.Architecture + ".tar.gz"
	}
	if version := credentialProvider(minor); version != "" {
		credentials = mirror + "cloud-provider-azure/v" + version + "/binaries/azure-acr-credential-provider-linux-" + in.Architecture + "-v" + version + ".tar.gz"
	}
	return []variable{
		{"KUBE_BINARY_URL", kubelet},
		{"CREDENTIAL_PROVIDER_DOWNLOAD_URL", credentials},
		{"CNI_PLUGINS_URL", mirror + "cni-plugins/v1.1.1/binaries/cni-plugins-linux-" + in.Architecture + "-v1.1.1.tgz"},
		{"VNET_CNI_PLUGINS_URL", mirror + "azure-cni/v1.4.32/binaries/azure-vnet-cni-linux-" + in.Architecture + "-v1.4.32.tgz"},
	}
}

// credentialProvider returns the version of the program that gets credentials for Azure's registry for kubelets, "" for kubelets that get
// them themselves.
func credentialProvider(minor int) string {
	switch {
	case minor < 30:
		return ""
	case minor == 30:
		return "1.30.12"
	case minor == 31:
		return "1.31.6"
	case minor == 32:
		return "1.32.5"
	}
	return "1.33.0"
}
