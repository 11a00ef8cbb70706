package main

import (
	"fmt"
	"runtime/debug"

	"k8s.io/component-base/version"
)

// checkVersion returns an error if the binary was linked without Kubernetes' version, or with another version than its module has. The API
// server would then call itself v0.0.0-master, which clients refuse.
func checkVersion() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return compareVersions(version.Get().GitVersion, info.Deps)
}

func compareVersions(linked string, modules []*debug.Module) error {
	for _, m := range modules {
		if m.Path == "k8s.io/kubernetes" && m.Version != linked {
			return fmt.Errorf("this binary is made of Kubernetes %s but was linked as %q: build it with `make controlplane`, "+
				"or with the flags that controlplane/ldflags.sh prints", m.Version, linked)
		}
	}
	return nil
}
