package cluster_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"tenon.sh/cluster"
	"tenon.sh/deviceselector"
)

// oldServer answers discovery like an API server that serves these kinds and no others.
func oldServer(t *testing.T, resources []*metav1.APIResourceList) *rest.Config {
	t.Helper()
	answers := map[string]any{"/api": metav1.APIVersions{Versions: []string{"v1"}}}
	groups := metav1.APIGroupList{}
	for _, list := range resources {
		group, version, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			answers["/api/v1"] = list
			continue
		}
		answers["/apis/"+list.GroupVersion] = list
		v := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		answers["/apis/"+group] = groups.Groups[len(groups.Groups)-1]
	}
	answers["/apis"] = groups
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func kinds(groupVersion string, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, kind := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true})
	}
	return list
}

func TestAClusterWithoutDeviceClassesIsWatched(t *testing.T) {
	t.Parallel()
	served := []*metav1.APIResourceList{
		kinds("v1", "Pod", "Node", "LimitRange", "PersistentVolume", "PersistentVolumeClaim", "Namespace", "Service", "ReplicationController"),
		kinds("apps/v1", "DaemonSet", "ReplicaSet", "StatefulSet"),
		kinds("node.k8s.io/v1", "RuntimeClass"),
		kinds("policy/v1", "PodDisruptionBudget"),
		kinds("storage.k8s.io/v1", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
		kinds("karpenter.sh/v1", "NodePool", "NodeClaim"),
	}
	for name, resources := range map[string][]*metav1.APIResourceList{
		"no such group":        served,
		"an older version":     append(served, kinds("resource.k8s.io/v1beta1", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")),
		"no such kind":         append(served, kinds("resource.k8s.io/v1", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")),
		"classes alone":        append(served, kinds("resource.k8s.io/v1", "DeviceClass")),
		"no slices":            append(served, kinds("resource.k8s.io/v1", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")),
		"no templates":         append(served, kinds("resource.k8s.io/v1", "DeviceClass", "ResourceClaim", "ResourceSlice")),
		"all kinds are served": append(served, kinds("resource.k8s.io/v1", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			informers, err := cache.New(oldServer(t, resources), cache.Options{Scheme: cluster.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			c := cluster.New(cluster.Config{Informers: informers, Overlays: true, Selectors: deviceselector.New().Ask})
			if err := c.Watch(t.Context()); err != nil {
				t.Error(err)
			}
			if acts := name == "all kinds are served"; c.DeviceClaims() != acts {
				t.Errorf("claims for devices act: %t, want %t", c.DeviceClaims(), acts)
			}
		})
	}
	t.Run("a kind that every cluster has", func(t *testing.T) {
		t.Parallel()
		informers, err := cache.New(oldServer(t, served[:4]), cache.Options{Scheme: cluster.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		if err := cluster.New(cluster.Config{Informers: informers}).Watch(t.Context()); err == nil || !strings.Contains(err.Error(), "StorageClass") {
			t.Errorf("got %v, want an error about StorageClass", err)
		}
	})
}
