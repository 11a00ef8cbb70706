package bootstrap

import (
	"maps"
	"strconv"
	"strings"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/userdata"
)

// aksDomain begins the labels that AKS puts on its nodes.
const aksDomain = "kubernetes.azure.com/"

// NodeLabels returns all labels that the kubelet sets on its node: the machine's labels, and the labels by which AKS's own components
// recognize a node. Keys that a kubelet may not set are left out; the controller sets them later.
//
// The label of the DNS cache always has the value "disabled", and the label of artifact streaming is always missing: see Ignored.
func NodeLabels(in Input) map[string]string {
	out := maps.Clone(in.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, azurev1beta1.SKUHyperVGenerationLabelKey) // it only serves to choose an image
	delete(out, azurev1beta1.SKUDiskControllerLabelKey)
	set := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	set(v1.DoNotSyncTaintsLabelKey, "true") // the kubelet registers all of them
	set(aksDomain+"role", "agent")
	set(azurev1beta1.AKSClusterLabelKey, in.Cluster)
	set(azurev1beta1.AKSKubeletIdentityLabelKey, in.KubeletIdentity)
	if out[azurev1beta1.AKSModeLabelKey] == "" {
		set(azurev1beta1.AKSModeLabelKey, "user")
	}
	priority := "regular"
	if out[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot {
		priority = "spot"
	}
	set(azurev1beta1.AKSScaleSetPriorityLabelKey, priority)
	set(azurev1beta1.AKSPriorityLabelKey, priority)
	in.familyLabels(set)
	in.networkLabels(set)
	set(aksDomain+"localdns-state", "disabled")
	maps.DeleteFunc(out, func(key, _ string) bool { return !userdata.OpenToKubelets(key) })
	return out
}

func (in *Input) familyLabels(set func(key, value string)) {
	requested := azurev1beta1.FamilyUbuntu
	if in.Spec != nil && in.Spec.ImageFamily != "" {
		requested = in.Spec.ImageFamily
	}
	sku, effective := azurev1beta1.FamilyUbuntu, in.Family
	if requested == azurev1beta1.FamilyAzureLinux {
		sku = azurev1beta1.FamilyAzureLinux
	}
	if effective == "AzureLinux2" {
		effective = "AzureLinux" // AKS counts from the third
	}
	set(azurev1beta1.AKSOSSKULabelKey, sku)
	set(aksDomain+"os-sku-requested", requested)
	set(aksDomain+"os-sku-effective", effective)
	if in.Spec != nil && in.Spec.FIPSMode == azurev1beta1.FIPSEnabled {
		set(azurev1beta1.AKSFIPSEnabledLabelKey, "true")
	}
}

func (in *Input) networkLabels(set func(key, value string)) {
	if in.overlay() {
		set(aksDomain+"network-subnet", lastOf(in.SubnetID))
		set(aksDomain+"nodenetwork-vnetguid", in.NetworkGUID)
		set(aksDomain+"azure-cni-overlay", "true")
		set(aksDomain+"podnetwork-type", ModeOverlay)
		set(aksDomain+"network-stateless-cni", strconv.FormatBool(parseMinor(in.KubernetesVersion) >= 34))
	}
	if in.NetworkDataplane == DataplaneCilium {
		set(aksDomain+"ebpf-dataplane", DataplaneCilium)
	}
}

// lastOf returns the last part of an ID, its name.
func lastOf(id string) string { return id[strings.LastIndex(id, "/")+1:] }
