package userdata

import (
	"strconv"
	"strings"
)

// bindsByDefault reports whether this version of Bottlerocket knows which folders belong on local disks. For an unknown version it returns
// false, so that the folders are listed.
func bindsByDefault(version string) bool {
	if version == "latest" {
		return true
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return false
	}
	return major > 1 || major == 1 && minor >= 46
}

// VersionInName returns the version in the name of a Bottlerocket image, without the commit. It returns "" if the name has no version. Names look
// like bottlerocket-aws-k8s-1.34-x86_64-v1.49.0-3b9c1a2f.
func VersionInName(name string) string {
	for piece := range strings.SplitSeq(name, "-") {
		if strings.HasPrefix(piece, "v") && strings.Contains(piece, ".") {
			return piece
		}
	}
	return ""
}
