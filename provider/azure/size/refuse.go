package size

import (
	"slices"
	"strings"

	v1 "tenon.sh/api/v1"
)

// Refused returns the reason why no class can use the size, "" if some may.
func (f *Figures) Refused(s *Settings) string {
	name, readable := ParseName(f.Name)
	leastCores, leastMiB := 2, int64(3584)
	if s.SelfManaged {
		leastCores, leastMiB = 1, 1024
	}
	switch {
	case !readable:
		return "its name is not of Azure's form"
	case f.Restricted:
		return "the subscription may not have it in this region"
	case strings.HasPrefix(name.Family, "DC"), strings.HasPrefix(name.Family, "EC"):
		return "it is for confidential computing"
	case !s.SelfManaged && name.Constrained:
		return "its number of cores is constrained"
	case !s.SelfManaged && slices.Contains(notWithAKS, f.Name):
		return "AKS does not take it"
	case f.cores() < leastCores:
		return "it has too few cores"
	case f.MemoryMiB < leastMiB:
		return "it has too little memory"
	case !s.SelfManaged && (f.GPUs > 0 || name.Family[0] == 'N') && name.GPUMaker() == "":
		return "nothing is known of its GPUs"
	}
	return ""
}

// notWithAKS are sizes that AKS refuses although they are large enough. Sizes that are too small need not be named.
var notWithAKS = []string{"Standard_E64i_v3", "Standard_E64is_v3", "Basic_A2", "Basic_A3", "Basic_A4"}

// Unfit returns the reason why a machine of the size does not meet the class's demands, "" if it does.
func (f *Figures) Unfit(s *Settings, labels map[string][]string) string {
	name, _ := ParseName(f.Name)
	ownDisk, _ := f.EphemeralDisk()
	switch {
	case s.EphemeralOSDisk && !f.Untold && ownDisk < s.diskGB():
		return "its own disks are too small for that of the system"
	case s.PremiumDisks && !f.PremiumStorage:
		return "it takes no disks of premium storage"
	case s.DataDisks > f.DataDisks && f.DataDisks > 0:
		return "it takes too few disks"
	case !s.SelfManaged && !s.NoGPUDriver && name.GPUMaker() == AMD:
		return "there is no driver for its GPUs"
	case s.EncryptionAtHost && !f.EncryptionAtHost:
		return "it does not encrypt at the host"
	case s.TrustedLaunch && (len(f.Generations) > 0 && !slices.Contains(f.Generations, "2") || f.TrustedLaunchDisabled):
		return "it has no trusted launch"
	case s.LocalDNS && (f.cores() < 4 || f.MemoryMiB < 244):
		return "it is too small for local DNS"
	case s.ArtifactStreaming && f.Architecture == v1.ArchitectureARM64:
		return "artifacts are not streamed on arm64"
	case len(s.Images) > 0 && !slices.ContainsFunc(s.Images, func(image map[string][]string) bool { return runs(image, labels) }):
		return "no image of the class runs on it"
	}
	return ""
}

// runs reports whether an image that demands labels runs on machines with these labels.
func runs(image, labels map[string][]string) bool {
	for key, wanted := range image {
		if !slices.ContainsFunc(labels[key], func(value string) bool { return slices.Contains(wanted, value) }) {
			return false
		}
	}
	return true
}
