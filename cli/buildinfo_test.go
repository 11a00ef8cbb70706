package cli

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionOfKubernetesIsThatOfClientGo(t *testing.T) {
	t.Parallel()
	other, own := &debug.Module{Path: "k8s.io/api", Version: "v0.1.0"}, &debug.Module{Path: "k8s.io/client-go", Version: "v0.36.3"}
	replaced := &debug.Module{Path: "k8s.io/client-go", Version: "v0.36.3", Replace: &debug.Module{Path: "example.com/client-go", Version: "v0.36.4"}}
	for want, deps := range map[string][]*debug.Module{
		"v0.36.3": {other, own},
		"v0.36.4": {other, replaced},
		"":        {other},
	} {
		if got := kubernetesVersion(&debug.BuildInfo{Deps: deps}); got != want {
			t.Errorf("kubernetesVersion of %v is %q, want %q", deps, got, want)
		}
	}
}
