package cli

import "runtime/debug"

// The linker sets version and revision when an image is built (-X tenon.sh/cli.version=1.2.3).
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
	return info.Main.Version
}

// commit returns the revision of this program. It returns "" if the build does not record it.
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
