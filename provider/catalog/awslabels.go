package catalog

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// awsDomain is the domain of the labels that EC2's instance types have beside those of Kubernetes.
const awsDomain = "karpenter.k8s.aws/"

// labels lists every label of an EC2 type. One that a type lacks (a GPU's name, say) is listed without values. Missing
// is nitro-sandbox, which the figures do not tell; the labels of reservations and placement groups belong to the
// account that has them.
func (m awsModel) labels() map[string][]string {
	family, size, _ := strings.Cut(m.name, ".")
	labels := map[string][]string{
		corev1.LabelArchStable:     {m.arch},
		corev1.LabelOSStable:       {"linux"},
		corev1.LabelTopologyRegion: {"us-east-1"},
		corev1.LabelWindowsBuild:   {},
	}
	aws := map[string][]string{
		"instance-family":                          {family},
		"instance-size":                            {size},
		"instance-cpu":                             {strconv.FormatInt(m.vcpus, 10)},
		"instance-cpu-manufacturer":                known(m.cpuManufacturer),
		"instance-cpu-sustained-clock-speed-mhz":   known(m.clock),
		"instance-memory":                          {strconv.FormatInt(m.memoryMiB, 10)},
		"instance-ebs-bandwidth":                   known(m.ebsMbps),
		"instance-network-bandwidth":               known(m.networkMbps),
		"instance-local-nvme":                      known(m.nvmeGB),
		"instance-capability-flex":                 {strconv.FormatBool(strings.Contains(family, "-flex"))},
		"instance-hypervisor":                      {m.hypervisor}, // "" is that of a machine without one
		"instance-encryption-in-transit-supported": known(m.encryption),
		"instance-tenancy":                         {"default", "dedicated"},
	}
	aws["instance-category"], aws["instance-generation"] = categoryAndGeneration(m.name)
	addParts(aws, m.gpu, "instance-gpu-count", "instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-memory")
	addParts(aws, m.accelerator, "instance-accelerator-count", "instance-accelerator-name", "instance-accelerator-manufacturer")
	for key, values := range aws {
		labels[awsDomain+key] = values
	}
	return labels
}

var awsName = regexp.MustCompile(`(^[a-z]+)(-[0-9]+tb)?([0-9]+).*\.`)

// categoryAndGeneration reads "m" and "5" out of "m5.large", and "u" and "1" out of "u-12tb1.112xlarge".
func categoryAndGeneration(name string) (category, generation []string) {
	match := awsName.FindStringSubmatch(name)
	if match == nil {
		return []string{}, []string{}
	}
	return []string{match[1]}, []string{match[3]}
}

func addParts(labels map[string][]string, parts []string, keys ...string) {
	for i, key := range keys {
		labels[key] = []string{}
		if i < len(parts) {
			labels[key] = known(parts[i])
		}
	}
}

// known is the list of the one value that a label has, or of none.
func known(value string) []string {
	if value == "" {
		return []string{}
	}
	return []string{value}
}
