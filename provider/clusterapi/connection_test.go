package clusterapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

// apiServer is an API server that serves Cluster API in some versions, with one Machine or with other objects.
type apiServer struct {
	mu       sync.Mutex
	versions []string
	machine  string           // its name
	refuses  bool             // no request is answered
	changed  chan struct{}    // closed with the next change
	objects  map[string][]any // by resource, instead of the Machine
}

// set changes the served objects, and ends all watches.
func (m *apiServer) set(machine string, versions ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.machine, m.versions = machine, versions
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *apiServer) refuse(all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = all
}

var served = map[string]string{"clusters": "Cluster", "machinedeployments": "MachineDeployment", "machinesets": "MachineSet", "machines": "Machine"}

func (m *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	versions, machine, refuses, changed := m.versions, m.machine, m.refuses, m.changed
	m.mu.Unlock()
	answer := func(code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case refuses:
		answer(http.StatusServiceUnavailable, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable})
	case r.URL.Path == "/api":
		answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}})
	case r.URL.Path == "/apis":
		group := metav1.APIGroup{Name: contract.Group}
		for _, v := range versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: contract.Group + "/" + v, Version: v})
		}
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		if len(versions) > 0 {
			group.PreferredVersion = group.Versions[0]
			list.Groups = append(list.Groups, group)
		}
		answer(http.StatusOK, list)
	case len(path) < 3 || path[1] != contract.Group || !slices.Contains(versions, path[2]):
		answer(http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	case len(path) == 3:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: contract.Group + "/" + path[2]}
		for name, kind := range served {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}})
		}
		answer(http.StatusOK, list)
	case r.URL.Query().Get("sendInitialEvents") == "true": // as before 1.34
		answer(http.StatusUnprocessableEntity, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	default:
		items := slices.Concat([]any{}, m.objects[path[3]])
		if path[3] == "machines" && m.objects == nil {
			items = append(items, map[string]any{"metadata": map[string]any{"namespace": "default", "name": machine, "labels": map[string]string{"version": path[2]}}})
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind": "%sList", "apiVersion": "%s/%s", "metadata": {"resourceVersion": "1"}, "items": [`, served[path[3]], contract.Group, path[2])
		for i, item := range items { // one by one, because a benchmark measures the memory
			if i > 0 {
				_, _ = w.Write([]byte(","))
			}
			_ = json.NewEncoder(w).Encode(item)
		}
		_, _ = w.Write([]byte("]}"))
	}
}

// machines returns the machines of a connection with their version, or the reason why it has none.
func machines(ctx context.Context, c *clusterapi.Connection) string {
	m, err := c.Management()
	if err != nil {
		return err.Error()
	}
	var list contract.MachineList
	if err := m.Cached.List(ctx, &list); err != nil {
		return err.Error()
	}
	var out []string
	for _, machine := range list.Items {
		out = append(out, machine.Name+" in "+machine.Labels["version"])
	}
	return fmt.Sprint(out)
}

// connect keeps a connection up until the test ends.
func (m *apiServer) connect(t testing.TB) *clusterapi.Connection {
	t.Helper()
	listener := httptest.NewServer(m)
	ctx, stop := context.WithCancel(t.Context())
	connection, err := clusterapi.NewConnection(&rest.Config{Host: listener.URL})
	if err != nil {
		t.Fatal(err)
	}
	connection.LookEvery(5 * time.Millisecond)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = connection.Start(ctx) }()
	t.Cleanup(func() { stop(); <-ended; listener.CloseClientConnections(); listener.Close() })
	return connection
}

func TestAConnectionGoesOnInTheBestVersionThatIsServed(t *testing.T) {
	t.Parallel()
	server := &apiServer{machine: "first", versions: []string{"v1beta1", "v1beta2"}, changed: make(chan struct{})}
	connection := server.connect(t)
	// shows waits until the connection shows the state `want`. Until then, the connection may show the states in `onTheWay`, or that it is lost.
	shows := func(want string, onTheWay ...string) {
		t.Helper()
		for {
			got := machines(t.Context(), connection)
			if strings.Contains(got, want) {
				return
			}
			if !slices.ContainsFunc(onTheWay, func(may string) bool { return strings.Contains(got, may) }) {
				t.Fatalf("it shows %s, want %s, or %v on the way", got, want, onTheWay)
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("it shows %s, want %s", got, want)
			case <-time.After(time.Millisecond):
			}
		}
	}
	const unserved = "it has no kinds of group cluster.x-k8s.io"
	shows("[first in v1beta2]", "not connected yet")
	server.set("second", "v1beta1")
	shows("[second in v1beta1]", "[first in v1beta2]", "not connected yet")
	server.set("third", "v1beta1", "v1beta2")
	shows("[third in v1beta2]", "[second in v1beta1]", "not connected yet", "[third in v1beta1]")
	server.set("")
	shows(unserved, "[third in v1beta2]")
	server.set("fourth", "v1beta2")
	shows("[fourth in v1beta2]", unserved)
	server.refuse(true)
	shows("ask which versions of cluster.x-k8s.io are served", "[fourth in v1beta2]")
	server.refuse(false)
	shows("[fourth in v1beta2]", "ask which versions of cluster.x-k8s.io are served")
	server.set("fifth", "v1alpha4")
	shows("it serves cluster.x-k8s.io in the versions [v1alpha4]", "[fourth in v1beta2]")
}
