package endtoend_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// TestGitOpsSeesNoDifference applies the manifests of the guide as GitOps tools do, has machines come, be consolidated and go, and looks
// then as these tools look every few minutes.
func TestGitOpsSeesNoDifference(t *testing.T) {
	w := newWorld(t)
	w.start("--feature-gates=NodeOverlay=true")
	manifests := w.manifests("../examples/gitops/nodes.yaml")
	t.Cleanup(func() {
		_ = w.DeleteAllOf(w, &v1alpha1.NodeOverlay{})
		_ = w.DeleteAllOf(w, &kwokv1alpha1.KWOKNodeClass{}, client.MatchingFields{"metadata.name": "gitops"})
	})
	const owner = client.FieldOwner("kustomize-controller")
	for _, m := range manifests {
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(m.DeepCopy()), owner))
	}
	w.poolReady("gitops")
	w.deploy("web", 6, "900m", "64Mi")
	w.running(6, 2*time.Minute)
	w.scale("web", 1)
	w.until(3*time.Minute, func() (bool, string) {
		return len(w.claims()) == 1 && len(w.pods()) == 1, fmt.Sprintf("%d machines for %d pods", len(w.claims()), len(w.pods()))
	})
	w.until(time.Minute, func() (bool, string) { // the controller has written what it has to say of each
		var pool v1.NodePool
		w.must(w.Get(w, client.ObjectKey{Name: "gitops"}, &pool))
		return pool.Annotations[v1.NodePoolHashAnnotationKey] != "" && pool.Status.Resources.Cpu().Sign() > 0, fmt.Sprintf("%v %v", pool.Annotations, pool.Status.Resources)
	})
	for _, m := range manifests {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.GroupVersionKind())
		w.must(w.Get(w, client.ObjectKeyFromObject(m), live))
		if live.GetGeneration() != 1 {
			t.Errorf("%s %s has generation %d: its spec was changed", m.GetKind(), m.GetName(), live.GetGeneration())
		}
		// Argo CD compares what the file names with what is there.
		if where := difference("", m.Object, live.Object); where != "" {
			t.Errorf("%s %s: the file and the cluster differ in %s", m.GetKind(), m.GetName(), where)
		}
		// Flux, and Argo CD with server-side apply, ask the API server what an apply would change. One that would take fields from
		// Tenon is refused.
		applied := m.DeepCopy()
		if err := w.Apply(w, client.ApplyConfigurationFromUnstructured(applied), owner, client.DryRunAll); err != nil {
			t.Errorf("apply %s %s again: %v", m.GetKind(), m.GetName(), err)
			continue
		}
		for _, o := range []*unstructured.Unstructured{applied, live} {
			o.SetManagedFields(nil)
			o.SetResourceVersion("")
		}
		if !reflect.DeepEqual(applied.Object, live.Object) {
			t.Errorf("applying %s %s again makes\n%v\nof\n%v", m.GetKind(), m.GetName(), applied.Object, live.Object)
		}
	}
	for _, node := range w.nodes() {
		for _, key := range []string{"argocd.argoproj.io/sync-options", "kustomize.toolkit.fluxcd.io/prune"} {
			if _, has := node.Annotations[key]; has {
				t.Errorf("node %s has the pool's annotation %s: it would count as applied", node.Name, key)
			}
		}
		if node.Labels["team"] != "web" || node.Labels[corev1.LabelArchStable] != "amd64" {
			t.Errorf("node %s has labels %v", node.Name, node.Labels)
		}
	}
}

// manifests reads the documents of a file.
func (w *world) manifests(file string) []*unstructured.Unstructured {
	w.Helper()
	text, err := os.ReadFile(file)
	w.must(err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for list := []*unstructured.Unstructured(nil); ; {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			w.Fatalf("%s: %v", file, err)
		}
		o := &unstructured.Unstructured{}
		w.must(o.UnmarshalJSON(raw.Raw))
		list = append(list, o)
	}
}

// difference names the first field of want that have does not have so; "" for none.
func difference(path string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := have.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range want {
			if where := difference(path+"."+key, value, fields[key]); where != "" {
				return where
			}
		}
		return ""
	case []any:
		items, ok := have.([]any)
		if !ok || len(items) != len(want) {
			return path
		}
		for i, value := range want {
			if where := difference(fmt.Sprintf("%s[%d]", path, i), value, items[i]); where != "" {
				return where
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, have) {
		return fmt.Sprintf("%s: %v and %v", path, want, have)
	}
	return ""
}
