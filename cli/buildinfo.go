package cli

import (
	"runtime/debug"
	"strings"
)

// The linker sets version and revision in a release (-X tenon.sh/cli.version=1.2.3). The version is that of
// deploy/charts/karpenter/Chart.yaml.
var version, revision string

// buildVersion returns the version of this program.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unreleased"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// commit returns the revision of this program. It returns "" if the build does not record it.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// kubernetesVersion returns the version of Kubernetes' libraries, which is that of client-go. It returns "" if the build does not record
// it, as in a test.
func kubernetesVersion(info *debug.BuildInfo) string {
	for _, module := range info.Deps {
		if module.Path != "k8s.io/client-go" {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		return module.Version
	}
	return ""
}
