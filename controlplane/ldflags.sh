#!/bin/sh
# Prints what the linker has to be told so that the binary knows its version: Kubernetes' programs have it from there only,
# and clients refuse an API server without one. It is that of the module k8s.io/kubernetes in go.mod. Which commit that was
# a module does not say.
set -eu
cd "$(dirname "$0")"
module=$(go list -m -f '{{ .Version }} {{ with .Time }}{{ .Format "2006-01-02T15:04:05Z07:00" }}{{ end }}' k8s.io/kubernetes)
version=${module%% *} date=${module#* }
major=${version#v} minor=${version#v*.}
major=${major%%.*} minor=${minor%%.*}
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	printf -- '-X %s=%s ' "$package.gitVersion" "$version" "$package.gitMajor" "$major" "$package.gitMinor" "$minor" \
		"$package.gitCommit" '' "$package.gitTreeState" archive "$package.buildDate" "${date:-1970-01-01T00:00:00Z}"
done
