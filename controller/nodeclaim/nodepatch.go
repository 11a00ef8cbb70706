package nodeclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operation is one line of a JSON patch. A test without a value passes if there is nothing at the path.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchNode writes a node's metadata and taints. Other programs write much to a starting node, so the patch requires no version of the
// node: it adds and removes single entries, and fails, as a conflict, only if an entry has moved.
func (r *Reconciler) patchNode(ctx context.Context, from, to *corev1.Node) (*corev1.Node, error) {
	patch, err := json.Marshal(nodeOperations(from, to))
	if err != nil {
		return nil, fmt.Errorf("change Node %s: %w", from.Name, err)
	}
	written := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: from.Name}}
	err = r.Cluster.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsInvalid(err) {
		err = apierrors.NewConflict(corev1.Resource("nodes"), from.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("change Node %s: %w", from.Name, err)
	}
	return written, nil
}

func nodeOperations(from, to *corev1.Node) []operation {
	var ops []operation
	if from.UID != "" { // protects a later node of the same name
		ops = append(ops, operation{"test", "/metadata/uid", from.UID})
	}
	return slices.Concat(ops,
		mapOperations("/metadata/labels", from.Labels, to.Labels),
		mapOperations("/metadata/annotations", from.Annotations, to.Annotations),
		listOperations("/metadata/finalizers", from.Finalizers, to.Finalizers,
			func(a, b string) bool { return a == b },
			func(path, f string) []operation { return []operation{{"test", path, f}} }),
		listOperations("/metadata/ownerReferences", from.OwnerReferences, to.OwnerReferences,
			func(a, b metav1.OwnerReference) bool { return a.UID == b.UID },
			func(path string, o metav1.OwnerReference) []operation {
				return []operation{{"test", path + "/uid", o.UID}}
			}),
		listOperations("/spec/taints", from.Spec.Taints, to.Spec.Taints,
			func(a, b corev1.Taint) bool { return a.MatchTaint(&b) },
			func(path string, t corev1.Taint) []operation {
				return []operation{{"test", path + "/key", t.Key}, {"test", path + "/effect", t.Effect}}
			}))
}

// mapOperations sets and removes single keys.
func mapOperations(path string, from, to map[string]string) []operation {
	var ops []operation
	if len(from) == 0 && len(to) > 0 {
		ops = append(ops, operation{"test", path, nil}, operation{"add", path, map[string]string{}})
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if value, ok := from[key]; !ok || value != to[key] {
			ops = append(ops, operation{"add", path + "/" + escape.Replace(key), to[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, ok := to[key]; !ok {
			ops = append(ops, operation{Op: "remove", Path: path + "/" + escape.Replace(key)})
		}
	}
	return ops
}

// listOperations removes entries, from the last one on because the others then keep their places, and appends new ones. check tests
// that an entry has not moved.
func listOperations[T any](path string, from, to []T, same func(a, b T) bool, check func(path string, entry T) []operation) []operation {
	var ops []operation
	for i, entry := range slices.Backward(from) {
		if !slices.ContainsFunc(to, func(t T) bool { return same(t, entry) }) {
			at := fmt.Sprintf("%s/%d", path, i)
			ops = append(ops, check(at, entry)...)
			ops = append(ops, operation{Op: "remove", Path: at})
		}
	}
	empty := len(from) == 0
	for _, entry := range to {
		if slices.ContainsFunc(from, func(f T) bool { return same(f, entry) }) {
			continue
		}
		if empty {
			ops = append(ops, operation{"test", path, nil}, operation{"add", path, []T{}})
			empty = false
		}
		ops = append(ops, operation{"add", path + "/-", entry})
	}
	return ops
}
