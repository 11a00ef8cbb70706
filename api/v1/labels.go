package v1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// WellKnownLabels returns the labels that every provider's machines may have. Pods may select on them even if a pool does not name them.
// Providers add their own.
func WellKnownLabels() []string {
	return []string{
		CapacityTypeLabelKey,
		NodePoolLabelKey,
		corev1.LabelArchStable,
		corev1.LabelOSStable,
		corev1.LabelInstanceTypeStable,
		corev1.LabelWindowsBuild,
		corev1.LabelTopologyRegion,
		corev1.LabelTopologyZone,
	}
}

// NormalizeLabel returns the current name of a label. It returns names without a newer one unchanged.
func NormalizeLabel(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone, "topology.ebs.csi.aws.com/zone", azureDiskZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case "beta.kubernetes.io/arch":
		return corev1.LabelArchStable
	case "beta.kubernetes.io/os":
		return corev1.LabelOSStable
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	}
	return key
}

// azureDiskZone is the label for the zone of Azure's disks, by the driver that attaches them.
const azureDiskZone = "topology.disk.csi.azure.com/zone"

// noAzureZone is the zone of Azure's machines that are in no zone. The driver of disks uses "" for it.
const noAzureZone = "0"

// NormalizeValues returns the values of a label in the form for its current name: only the value for no zone differs.
func NormalizeValues(key string, values []string) []string {
	if key != azureDiskZone && key != corev1.LabelTopologyZone {
		return values
	}
	i := slices.Index(values, "")
	if i < 0 {
		return values
	}
	out := slices.Clone(values)
	for ; i < len(out); i++ {
		if out[i] == "" {
			out[i] = noAzureZone
		}
	}
	return out
}

// ValueAs returns a value of the current label in the form for the label key, whose current name NormalizeLabel returns.
func ValueAs(key, value string) string {
	if key == azureDiskZone && value == noAzureZone {
		return ""
	}
	return value
}

// RestrictedDomains returns the label domains, including sub-domains, in which only the labels of ProviderLabels and karpenter.sh's
// well-known labels may be used.
func RestrictedDomains() []string {
	return []string{awsDomain, azureDomain, clusterAPIDomain, kwokDomain, Group}
}

const (
	awsDomain        = "karpenter.k8s.aws"
	azureDomain      = "karpenter.azure.com"
	clusterAPIDomain = "karpenter.cluster.x-k8s.io"
	kwokDomain       = "karpenter.kwok.sh"

	// aksDomain is restricted only by the rules of the CRDs, because pods may request properties of AKS's own nodes.
	aksDomain = "kubernetes.azure.com"
)

// ProviderLabels returns the labels of one restricted domain that machines have, sorted by name; nil for other domains. The rules of the CRDs
// contain the same names.
func ProviderLabels(domain string) []string {
	var names string
	switch domain {
	case awsDomain:
		names = awsLabels
	case azureDomain:
		names = azureLabels
	case clusterAPIDomain:
		names = clusterAPILabels
	case kwokDomain:
		names = kwokLabels
	}
	var out []string
	for _, name := range strings.Fields(names) {
		out = append(out, domain+"/"+name)
	}
	slices.Sort(out)
	return out
}

const (
	awsLabels = `
		capacity-reservation-id capacity-reservation-interruptible capacity-reservation-type ec2nodeclass
		instance-accelerator-count instance-accelerator-manufacturer instance-accelerator-name
		instance-capability-flex instance-category instance-cpu instance-cpu-manufacturer
		instance-cpu-sustained-clock-speed-mhz instance-ebs-bandwidth instance-encryption-in-transit-supported
		instance-family instance-generation instance-gpu-count instance-gpu-manufacturer instance-gpu-memory
		instance-gpu-name instance-hypervisor instance-local-nvme instance-memory instance-network-bandwidth
		instance-size instance-tenancy nitro-sandbox placement-group-id placement-group-partition`
	azureLabels = `
		aksnodeclass placement-scope sku-cpu sku-family sku-gpu-count sku-gpu-manufacturer sku-gpu-name sku-memory
		sku-name sku-networking-accelerated sku-series sku-storage-ephemeralos-maxsize sku-storage-premium-capable
		sku-storage-ultra-ssd sku-version`
	clusterAPILabels = `clusterapinodeclass instance-cpu instance-family instance-memory instance-size`
	kwokLabels       = `instance-cpu instance-family instance-memory instance-size kwoknodeclass`
)

// LabelRestriction returns the reason, in one line, why neither pools nor pods may use a label. It is empty if they may.
func LabelRestriction(key string) string {
	if key == corev1.LabelHostname {
		return "label " + key + " cannot be used: every machine gets its own"
	}
	if slices.Contains(WellKnownLabels(), key) {
		return ""
	}
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	for _, restricted := range RestrictedDomains() {
		if domain != restricted && !strings.HasSuffix(domain, "."+restricted) {
			continue
		}
		if slices.Contains(ProviderLabels(restricted), key) {
			return ""
		}
		return "label domain " + domain + " is reserved"
	}
	return ""
}

// closedValues returns all possible values of a label for which a typing error would silently make a pool useless; nil for other labels.
func closedValues(key string) []string {
	switch key {
	case CapacityTypeLabelKey:
		return []string{CapacityTypeOnDemand, CapacityTypeReserved, CapacityTypeSpot}
	case awsDomain + "/instance-tenancy":
		return []string{"dedicated", "default"}
	case azureDomain + "/sku-networking-accelerated", azureDomain + "/sku-storage-premium-capable", azureDomain + "/sku-storage-ultra-ssd":
		return []string{"false", "true"}
	case azureDomain + "/sku-gpu-manufacturer":
		return []string{"amd", "nvidia"}
	case azureDomain + "/placement-scope":
		return []string{"regional", "zonal"}
	case aksDomain + "/mode":
		return []string{"system", "user"}
	case aksDomain + "/scalesetpriority", aksDomain + "/priority":
		return []string{"regular", "spot"}
	case aksDomain + "/os-sku":
		return []string{"AzureLinux", "Ubuntu"}
	case aksDomain + "/fips_enabled":
		return []string{"true"}
	}
	return nil
}
