package cli

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// startBare serves the lists of an API server without Karpenter's kinds: one node of a node group, and two pods on it. answers has the
// answers for further paths, or replaces answers; an empty one means forbidden.
func startBare(t *testing.T, answers map[string]string) (kubeconfig string) {
	t.Helper()
	const pod = `{"metadata":{"name":%q,"namespace":"default","uid":%q},"spec":{"nodeName":"n1","containers":[` +
		`{"name":"c","resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]},"status":{"phase":"Running"}}`
	items := map[string]string{
		"nodes": `{"metadata":{"name":"n1","labels":{"node.kubernetes.io/instance-type":"m5.4xlarge","topology.kubernetes.io/zone":"us-east-1a",` +
			`"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux","eks.amazonaws.com/nodegroup":"workers"}},` +
			`"status":{"allocatable":{"cpu":"15890m","memory":"60Gi","pods":"110"},"capacity":{"cpu":"16","memory":"64Gi","pods":"110"}}}`,
		"pods": fmt.Sprintf(pod, "a", "uid-a") + "," + fmt.Sprintf(pod, "b", "uid-b"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[r.URL.Path]
		if !known && (strings.Contains(r.URL.Path, "karpenter") || strings.HasPrefix(r.URL.Path, "/apis/") && strings.Contains(r.URL.Path, "cluster.x-k8s.io")) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		switch {
		case !known:
			answer = fmt.Sprintf(`{"kind":"List","apiVersion":"v1","metadata":{},"items":[%s]}`, items[filepath.Base(r.URL.Path)])
		case answer == "":
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"it is forbidden","code":403}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],`+
		`"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, server.URL), 0o600))
	return kubeconfig
}

// A controller's memory contains numbers that are written as text, which some converters do not support.
func TestWhatAControllerRemembersOfItsPassesIsReadFromItsCatalog(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sent := &engine.CatalogDocument{
		APIVersion: engine.CatalogAPIVersion, Kind: engine.CatalogKind, Time: at, Classes: []engine.Class{},
		EarlierPasses: &engine.EarlierPasses{Look: &engine.ConsolidationLook{
			At: at, Machines: map[string]engine.LookedMachine{"n/c": {Pods: math.MaxUint64, Count: 1}},
		}},
		ScaleUps: []engine.ScaleUp{{Pod: "uid", Group: "gpu", Until: at}},
	}
	document, err := catalogDocument(sent)
	must(t, err)
	reading, err := scenario.Read(scenario.Input{Documents: []scenario.Document{document}, Now: at})
	must(t, err)
	if got := reading.Snapshot; !reflect.DeepEqual(got.EarlierPasses, sent.EarlierPasses) || !reflect.DeepEqual(got.ScaleUps, sent.ScaleUps) {
		t.Errorf("read %+v and %+v, want %+v and %+v", got.EarlierPasses, got.ScaleUps, sent.EarlierPasses, sent.ScaleUps)
	}
}

// Claims for devices are read together with the drivers' slices. They are left out if the controller ignores them or the user may not read
// them.
func TestClaimsForDevicesAreReadFromALiveCluster(t *testing.T) {
	t.Parallel()
	path := "/apis/resource.k8s.io/v1/resource"
	list := `{"kind":"List","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"one","namespace":"default"},"spec":{%s}}]}`
	served := map[string]string{path + "claims": fmt.Sprintf(list, `"devices":{}`), path + "claimtemplates": fmt.Sprintf(list, `"spec":{}`), path + "slices": fmt.Sprintf(list, `"driver":"gpu.example.com","pool":{"name":"n1"}`)}
	out, notes, err := run(t, "snapshot", "--kubeconfig", startBare(t, served))
	if err != nil || !strings.Contains(out, "kind: ResourceClaim\n") || !strings.Contains(out, "kind: ResourceClaimTemplate\n") || !strings.Contains(out, "kind: ResourceSlice\n") {
		t.Errorf("%v\n%s\n%s", err, out, notes)
	}
	out, notes, err = run(t, "snapshot", "--kubeconfig", startBare(t, map[string]string{path + "claims": "", path + "claimtemplates": "", path + "slices": ""}))
	if err != nil || strings.Contains(out, "kind: ResourceClaim\n") || !strings.Contains(notes, "ResourceClaims are left out: it is forbidden") {
		t.Errorf("%v\n%s\n%s", err, out, notes)
	}
	var said bytes.Buffer
	var documents []scenario.Document
	for _, kind := range []string{"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"} {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: kind})
		documents = append(documents, scenario.Document{Object: u})
	}
	if kept := inForce(documents, &engine.CatalogDocument{}, &terminal{out: &said}); len(kept) != 4 || said.Len() > 0 {
		t.Errorf("kept %v of a controller that acts on claims, %s", kept, &said)
	}
	kept := inForce(documents, &engine.CatalogDocument{IgnoresClaims: true}, &terminal{out: &said})
	if len(kept) != 1 || kept[0].Object.GetKind() != "DeviceClass" || !strings.Contains(said.String(), "1 ResourceClaims left out: the controller runs with --ignore-dra-requests") {
		t.Errorf("kept %v, %s", kept, &said)
	}
}

func TestAClusterWithoutTheKindsOfKarpenterCanBeRead(t *testing.T) {
	t.Parallel()
	kubeconfig := startBare(t, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"savings"}, "m5.4xlarge"},
		{[]string{"snapshot"}, "kind: Catalog"},
		{[]string{"explain", "node", "n1"}, "the node has no NodeClaim"},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			t.Parallel()
			out, notes, err := run(t, append(c.args, "--kubeconfig", kubeconfig)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, notes)
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("%q is not in\n%s\n%s", c.want, out, notes)
			}
		})
	}
}
