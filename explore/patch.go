package explore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch changes an object as a patch says, its status only or all but its status. It fails like the API server: with a
// conflict if the patch names another version or UID, as invalid if a JSON patch does not apply.
func (s *store) patch(shelf *shelf, key string, kind types.PatchType, data []byte, status bool) (client.Object, error) {
	current := shelf.objects[key]
	if current == nil {
		return nil, shelf.notFound(key)
	}
	before, err := fields(current)
	if err != nil {
		return nil, err
	}
	after, err := patched(current, kind, data)
	if err != nil {
		return nil, shelf.invalid(key, err.Error())
	}
	return s.replace(shelf, current, before, after, status)
}

// replace stores what a client made of an object.
func (s *store) replace(shelf *shelf, current client.Object, before, after map[string]any, status bool) (client.Object, error) {
	key := keyOf(current)
	meta, _ := after["metadata"].(map[string]any)
	if v := meta["resourceVersion"]; v != nil && v != "" && v != current.GetResourceVersion() {
		return nil, shelf.conflict(key, "the object has been modified")
	}
	if uid := meta["uid"]; uid != nil && uid != "" && uid != string(current.GetUID()) {
		return nil, shelf.conflict(key, "the UID is another one")
	}
	next := after
	switch {
	case status:
		next = maps.Clone(before)
		next["status"] = after["status"]
	case shelf.status:
		next["status"] = before["status"]
	}
	o := reflect.New(reflect.TypeOf(current).Elem()).Interface().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(next, o); err != nil {
		return nil, shelf.invalid(key, err.Error())
	}
	keepSystemFields(o, current)
	if err := allowed(shelf, current, o); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, next) {
		return current, nil
	}
	if !reflect.DeepEqual(before["spec"], next["spec"]) {
		o.SetGeneration(current.GetGeneration() + 1)
	}
	s.settle(shelf, o)
	return o, nil
}

// keepSystemFields restores what no client can change.
func keepSystemFields(o, current client.Object) {
	o.SetUID(current.GetUID())
	o.SetResourceVersion(current.GetResourceVersion())
	o.SetCreationTimestamp(current.GetCreationTimestamp())
	o.SetDeletionTimestamp(current.GetDeletionTimestamp())
	o.SetGeneration(current.GetGeneration())
}

// allowed refuses what the API server's validation refuses.
func allowed(shelf *shelf, before, after client.Object) error {
	if before.GetDeletionTimestamp() != nil {
		for _, f := range after.GetFinalizers() {
			if !slices.Contains(before.GetFinalizers(), f) {
				return shelf.invalid(keyOf(before), "no new finalizers can be added if the object is being deleted")
			}
		}
	}
	if pod, ok := after.(*corev1.Pod); ok && pod.Spec.NodeName != "" &&
		pod.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName != before.(*corev1.Pod).Status.NominatedNodeName {
		return shelf.invalid(keyOf(before), "status.nominatedNodeName may not be set on a pod that is bound")
	}
	return nil
}

func fields(o client.Object) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("read the fields of %T %s: %w", o, keyOf(o), err)
	}
	return m, nil
}

func patched(current client.Object, kind types.PatchType, data []byte) (map[string]any, error) {
	m, err := fields(current)
	if err != nil {
		return nil, err
	}
	switch kind {
	case types.JSONPatchType:
		var ops []operation
		if err := json.Unmarshal(data, &ops); err != nil {
			return nil, err
		}
		for _, op := range ops {
			if err := op.apply(m); err != nil {
				return nil, err
			}
		}
		return m, nil
	case types.MergePatchType, types.StrategicMergePatchType: // strategic patches here have no lists
		var patch map[string]any
		if err := json.Unmarshal(data, &patch); err != nil {
			return nil, err
		}
		merge(m, patch)
		return m, nil
	}
	return nil, fmt.Errorf("patches of type %s are not served in these runs", kind)
}

// merge is RFC 7386.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		sub, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap:
			old, ok := into[key].(map[string]any)
			if !ok {
				old = map[string]any{}
				into[key] = old
			}
			merge(old, sub)
		default:
			into[key] = value
		}
	}
}

// operation is one line of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (op operation) apply(m map[string]any) error {
	parts := strings.Split(op.Path, "/")[1:]
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	_, err := op.at(m, parts)
	return err
}

// at applies the operation below a value, and returns what the value is then.
func (op operation) at(value any, path []string) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return op.inMap(v, path)
	case []any:
		return op.inList(v, path)
	}
	return nil, fmt.Errorf("%s %s: there is nothing to go into", op.Op, op.Path)
}

func (op operation) inMap(m map[string]any, path []string) (any, error) {
	value, found := m[path[0]]
	if len(path) > 1 {
		below, err := op.at(value, path[1:])
		if err == nil {
			m[path[0]] = below
		}
		return m, err
	}
	switch op.Op {
	case "test":
		if !reflect.DeepEqual(value, op.Value) {
			return nil, fmt.Errorf("test %s: it is %v, not %v", op.Path, value, op.Value)
		}
	case "add":
		m[path[0]] = op.Value
	case "remove":
		if !found {
			return nil, fmt.Errorf("remove %s: it is not there", op.Path)
		}
		delete(m, path[0])
	}
	return m, nil
}

func (op operation) inList(list []any, path []string) (any, error) {
	if path[0] == "-" && op.Op == "add" {
		return append(slices.Clone(list), op.Value), nil
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || i < 0 || i >= len(list) {
		return nil, fmt.Errorf("%s %s: there is no such entry", op.Op, op.Path)
	}
	if len(path) > 1 {
		below, err := op.at(list[i], path[1:])
		if err != nil {
			return nil, err
		}
		list = slices.Clone(list)
		list[i] = below
		return list, nil
	}
	switch op.Op {
	case "remove":
		return slices.Delete(slices.Clone(list), i, i+1), nil
	case "test":
		if !reflect.DeepEqual(list[i], op.Value) {
			return nil, fmt.Errorf("test %s: it is %v, not %v", op.Path, list[i], op.Value)
		}
	}
	return list, nil
}
