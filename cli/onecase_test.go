package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"tenon.sh/cluster"
)

// All readers of the cluster get a machine's ID in one spelling: the controller, without its caches and in answers to writes too, and
// commands.
func TestWhoeverReadsTheClusterKnowsMachinesInOneCase(t *testing.T) {
	t.Parallel()
	const want = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/n"
	answers := discovered(t)
	answers["/api/v1/nodes/n"] = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"spec":{"providerID":"` + strings.ToUpper(want) + `"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	c := &autoscaler{opt: ControllerOptions{DisableLeaderElection: true}, config: config, log: logr.Discard()}
	led, err := c.newManager(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := newStock(config)
	if err != nil {
		t.Fatal(err)
	}
	gathered, err := newGatherer(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]client.Reader{"past the cache": led.GetAPIReader(), "commands": taken, "doctor": gathered} {
		node := &corev1.Node{}
		if err := r.Get(t.Context(), client.ObjectKey{Name: "n"}, node); err != nil || node.Spec.ProviderID != want {
			t.Errorf("%s: %q, %v", name, node.Spec.ProviderID, err)
		}
	}
	node := &corev1.Node{}
	node.Name = "n"
	if err := led.GetClient().Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", []byte("{}"))); err != nil || node.Spec.ProviderID != want {
		t.Errorf("the answer to a write: %q, %v", node.Spec.ProviderID, err)
	}
}

// discovered returns the answers of an API server that serves the kinds of the caches, by path.
func discovered(t *testing.T) map[string]string {
	t.Helper()
	resources := map[string]string{}
	for o := range cluster.CacheOptions().ByObject {
		kind, err := apiutil.GVKForObject(o, cluster.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1"
		if kind.Group != "" {
			path = "/apis/" + kind.GroupVersion().String()
		}
		resources[path] += fmt.Sprintf(`,{"name":"%ss","kind":%q,"verbs":["get"]}`, strings.ToLower(kind.Kind), kind.Kind)
	}
	answers, groups := map[string]string{"/api": `{"kind":"APIVersions","versions":["v1"]}`}, ""
	for path, list := range resources {
		version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		answers[path] = fmt.Sprintf(`{"kind":"APIResourceList","groupVersion":%q,"resources":[%s]}`, version, list[1:])
		if group, number, named := strings.Cut(version, "/"); named {
			groups += fmt.Sprintf(`,{"name":%q,"versions":[{"groupVersion":%q,"version":%q}]}`, group, version, number)
		}
	}
	answers["/apis"] = `{"kind":"APIGroupList","groups":[` + groups[1:] + `]}`
	return answers
}
