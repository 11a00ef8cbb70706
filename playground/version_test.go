package playground_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// Clients compare versions: kubectl refuses an API server whose version differs too much, and a kubelet must not be newer than the API
// server.
func TestTheControlPlaneAndItsKubeletsHaveTheVersionOfTheirModule(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	content, err := os.ReadFile("../controlplane/go.mod")
	c.must(err)
	match := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v\S+)$`).FindStringSubmatch(string(content))
	if match == nil {
		t.Fatal("controlplane/go.mod names no version of k8s.io/kubernetes")
	}
	want := match[1]
	got, err := c.client.Discovery().ServerVersion()
	c.must(err)
	parsed, err := version.ParseSemantic(got.GitVersion)
	if err != nil || got.GitVersion != want {
		t.Fatalf("the API server calls itself %q (%v), its module is %s", got.GitVersion, err, want)
	}
	if !strings.HasPrefix(want, "v"+got.Major+"."+got.Minor+".") || parsed.PreRelease() != "" {
		t.Errorf("major %q and minor %q of %s", got.Major, got.Minor, want)
	}
	metrics, err := c.client.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	c.must(err)
	if !strings.Contains(string(metrics), `git_version="`+want+`"`) {
		t.Errorf("kubernetes_build_info does not say %s", want)
	}
	node := c.ready(c.node("a", "2", "2Gi", "10").Name)
	if got := node.Status.NodeInfo.KubeletVersion; got != want {
		t.Errorf("the node's kubelet is %q, want %s", got, want)
	}
}
