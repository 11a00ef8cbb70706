package cli

import "runtime/debug"

// version and revision are set by the linker when an image is built (-X tenon.sh/cli.version=1.2.3).
var version, revision string

// buildVersion is the version that this program was built as.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unreleased"
	}
	return info.Main.Version
}

// commit is the revision that this program was built from, as far as the build knows.
func commit() string {
	if revision != "" {
		return revision[:min(len(revision), 7)]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 7)]
		}
	}
	return ""
}
