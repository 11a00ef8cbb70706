package image

import (
	"strconv"
	"strings"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
)

// The real families of AKS's images.
const (
	ubuntu2004  = "Ubuntu2004"
	ubuntu2204  = "Ubuntu2204"
	ubuntu2404  = "Ubuntu2404"
	azureLinux2 = "AzureLinux2"
	azureLinux3 = "AzureLinux3"
)

// Effective returns the family of the images that machines of a class really get with a version of Kubernetes: Ubuntu2004, Ubuntu2204,
// Ubuntu2404, AzureLinux2 or AzureLinux3.
func Effective(class *azurev1beta1.AKSNodeClass, kubernetes string) string {
	return effective(class.Spec.ImageFamily, fips(class), trustedLaunch(class), kubernetes)
}

// effective returns the family of the images for a version of Kubernetes. For a version that cannot be parsed, it returns the older family.
func effective(family string, fips, trusted bool, kubernetes string) string {
	switch family {
	case azurev1beta1.FamilyUbuntu2204:
		return ubuntu2204
	case azurev1beta1.FamilyUbuntu2404:
		return ubuntu2404
	case azurev1beta1.FamilyAzureLinux:
		if atLeast(kubernetes, 32) {
			return azureLinux3
		}
		return azureLinux2
	}
	switch {
	case fips && !trusted:
		return ubuntu2004
	case fips, trusted, !atLeast(kubernetes, 34):
		return ubuntu2204
	}
	return ubuntu2404
}

// atLeast reports whether a version of Kubernetes is 1.minor or newer.
func atLeast(version string, minor int) bool {
	major, rest, found := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	first, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(first)
	return found && errA == nil && errB == nil && (a > 1 || a == 1 && b >= minor)
}

// definition is an image definition of AKS, with all its versions.
type definition struct{ name, architecture, generation string }

// definitions returns a family's definitions, in order of priority. It returns none if the family has no images with these properties.
func definitions(family string, fips, trusted bool) []definition {
	const amd64, arm64 = v1.ArchitectureAMD64, v1.ArchitectureARM64
	prefix, suffix := "", ""
	switch family {
	case ubuntu2004, ubuntu2204, ubuntu2404:
		prefix, suffix = strings.TrimPrefix(family, "Ubuntu"), "containerd"
	case azureLinux2:
		prefix = "V2"
	case azureLinux3:
		prefix = "V3"
	}
	of := func(kind, architecture, generation string) definition {
		return definition{prefix + kind + suffix, architecture, generation}
	}
	switch {
	case fips && trusted && family == ubuntu2204:
		return []definition{of("gen2fipsTL", amd64, "2")}
	case fips && trusted, fips && (family == ubuntu2204 || family == ubuntu2404):
		return nil
	case fips && family == azureLinux3:
		return []definition{of("gen2fips", amd64, "2"), of("fips", amd64, "1"), of("gen2arm64fips", arm64, "2")}
	case fips:
		return []definition{of("gen2fips", amd64, "2"), of("fips", amd64, "1")}
	case trusted:
		return []definition{of("gen2TL", amd64, "2")}
	}
	return []definition{of("gen2", amd64, "2"), of("", amd64, "1"), of("gen2arm64", arm64, "2")}
}

// gallery names the galleries with a family's images.
type gallery struct {
	community   string
	group, name string // of AKS's own gallery
}

func galleryOf(family string) gallery {
	if strings.HasPrefix(family, "Ubuntu") {
		return gallery{"AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2", "AKS-Ubuntu", "AKSUbuntu"}
	}
	return gallery{"AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b", "AKS-AzureLinux", "AKSAzureLinux"}
}
