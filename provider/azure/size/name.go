package size

import (
	"regexp"
	"strings"
)

// sizeName parses Standard_E16-4ads_v5: family, vCPUs, constrained vCPUs, features, further parts, version.
var sizeName = regexp.MustCompile(`^(?:Standard|Basic)_([A-Z]+)(\d+)(?:-(\d+))?([a-z]*)((?:_[A-Za-z0-9]+)*?)(?:_v(\d+))?(?i:_promo)?$`)

// Name holds the parts of the name of a VM size.
type Name struct {
	// Family is D of Standard_D4ads_v5, Series is Dads_v5, Version is 5; a name without a version has 1.
	Family, Series, Version string
	// Accelerator is T4 of Standard_NC4as_T4_v3, "" of most names.
	Accelerator string
	// Constrained means that a machine has fewer usable cores than paid ones, as Standard_E16-4ads_v5.
	Constrained bool
}

// ParseName parses a name; false if it does not have Azure's form.
func ParseName(name string) (Name, bool) {
	match := sizeName.FindStringSubmatch(name)
	if match == nil {
		return Name{}, false
	}
	n := Name{Family: match[1], Series: match[1] + match[4] + match[5], Version: "1", Constrained: match[3] != ""}
	if match[6] != "" {
		n.Series, n.Version = n.Series+"_v"+match[6], match[6]
	}
	if last := match[5][strings.LastIndex(match[5], "_")+1:]; last != "" && last[0] >= 'A' && last[0] <= 'Z' {
		n.Accelerator = last
	}
	return n, true
}

// The makers of GPUs.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
)

// GPUMaker returns the maker of a size's GPUs, if it is known that nodes support these GPUs. Otherwise, and for sizes without GPUs, it returns "".
func (n *Name) GPUMaker() string {
	switch {
	case n.Family != "NC" && n.Family != "ND" && n.Family != "NV":
		return ""
	case strings.HasPrefix(n.Accelerator, "RTXPRO6000"):
		return NVIDIA
	}
	switch strings.ToUpper(n.Family+n.Accelerator) + "_v" + n.Version {
	case "NC_v1", "NC_v2", "NC_v3", "NCT4_v3", "NCA10_v4", "NCA100_v4", "NCH100_v5",
		"ND_v1", "ND_v2", "ND_v3", "ND_v4", "NDA100_v4", "NDH100_v5", "NDH200_v5", "NDGB200_v6", "NDGB300_v6",
		"NV_v1", "NV_v3", "NVA10_v5":
		return NVIDIA
	case "NVV710_v5", "NDMI300X_v5":
		return AMD
	}
	return ""
}
