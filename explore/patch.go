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

// parts are the top-level fields of an object, such as "metadata" and "spec", in the form in which patches refer to them. Only the parts that
// a patch touches are converted. A part is never changed, only replaced.
type parts = map[string]any

// patch applies a patch to an object: to its status only, or to all other parts. It fails like the API server: with a conflict if the patch
// names another version or UID, as invalid if a JSON patch does not apply.
func (s *store) patch(shelf *shelf, key string, kind types.PatchType, data []byte, status bool) (client.Object, error) {
	current := shelf.objects[key]
	if current == nil {
		return nil, shelf.notFound(key)
	}
	written := func(part string) bool { return !shelf.status || status == (part == "status") }
	before, after, err := patched(shelf, current, kind, data, written)
	if err != nil {
		return nil, shelf.invalid(key, err.Error())
	}
	maps.DeleteFunc(before, func(part string, value any) bool { return !written(part) || reflect.DeepEqual(value, after[part]) })
	return s.replace(shelf, current, before, after)
}

// replace stores an object that a client has changed. before and after have the changed parts.
func (s *store) replace(shelf *shelf, current client.Object, before, after parts) (client.Object, error) {
	key := keyOf(current)
	meta, _ := after["metadata"].(map[string]any)
	if v := meta["resourceVersion"]; v != nil && v != "" && v != current.GetResourceVersion() {
		return nil, shelf.conflict(key, "the object has been modified")
	}
	if uid := meta["uid"]; uid != nil && uid != "" && uid != string(current.GetUID()) {
		return nil, shelf.conflict(key, "the UID is another one")
	}
	o := reflect.New(reflect.TypeOf(current).Elem()).Interface().(client.Object)
	assign(o, current)
	for _, part := range sortedKeys(before) {
		if err := shelf.setPart(o, part, after[part]); err != nil {
			return nil, shelf.invalid(key, err.Error())
		}
	}
	keepSystemFields(o, current)
	if err := allowed(shelf, current, o); err != nil {
		return nil, err
	}
	if len(before) == 0 {
		return current, nil
	}
	if _, changed := before["spec"]; changed {
		o.SetGeneration(current.GetGeneration() + 1)
	}
	s.settle(shelf, o)
	return o, nil
}

// keepSystemFields restores the fields that no client can change.
func keepSystemFields(o, current client.Object) {
	o.SetUID(current.GetUID())
	o.SetResourceVersion(current.GetResourceVersion())
	o.SetCreationTimestamp(current.GetCreationTimestamp())
	o.SetDeletionTimestamp(current.GetDeletionTimestamp())
	o.SetGeneration(current.GetGeneration())
}

// allowed refuses changes that the API server's validation refuses.
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

// part returns a part of an object in the form for patches.
func (k kind) part(o client.Object, name string) (any, error) {
	i, found := k.parts[name]
	if !found {
		return nil, fmt.Errorf("the %s of a %s: %w", name, k.name, errNotServed)
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(reflect.ValueOf(o).Elem().Field(i).Addr().Interface())
	if err != nil {
		return nil, fmt.Errorf("read the %s of %T %s: %w", name, o, keyOf(o), err)
	}
	return m, nil
}

// setPart converts a part back and sets it in the object.
func (k kind) setPart(o client.Object, name string, part any) error {
	field := reflect.ValueOf(o).Elem().Field(k.parts[name])
	field.SetZero()
	if part == nil {
		return nil
	}
	m, ok := part.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %v", name, part)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(m, field.Addr().Interface())
}

// partsOf finds the fields of a type that are its parts.
func partsOf(o client.Object) map[string]int {
	t, out := reflect.TypeOf(o).Elem(), map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && t.Field(i).Type.Kind() == reflect.Struct {
			out[name] = i
		}
	}
	return out
}

// patched returns the touched parts before and after a patch. A merge patch does not touch parts that are not written, so after has only the
// patch's own values of these.
func patched(shelf *shelf, current client.Object, kind types.PatchType, data []byte, written func(part string) bool) (before, after parts, err error) {
	before, after = parts{}, parts{}
	touch := func(part string) (err error) {
		if _, touched := before[part]; !touched {
			before[part], err = shelf.part(current, part)
			after[part] = before[part]
		}
		return err
	}
	switch kind {
	case types.JSONPatchType:
		var ops []operation
		if err := json.Unmarshal(data, &ops); err != nil {
			return nil, nil, err
		}
		for _, op := range ops {
			path := op.path()
			if err := touch(path[0]); err != nil {
				return nil, nil, err
			}
			if after, err = op.inMap(after, path); err != nil {
				return nil, nil, err
			}
		}
		return before, after, nil
	case types.MergePatchType, types.StrategicMergePatchType: // strategic patches here have no lists
		var patch map[string]any
		if err := json.Unmarshal(data, &patch); err != nil {
			return nil, nil, err
		}
		for part := range patch {
			if !written(part) {
				continue
			}
			if err := touch(part); err != nil {
				return nil, nil, err
			}
		}
		return before, merged(after, patch), nil
	}
	return nil, nil, fmt.Errorf("patches of type %s are not served in these runs", kind)
}

// merged applies a merge patch by RFC 7386.
func merged(from, patch map[string]any) map[string]any {
	out := maps.Clone(from)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		sub, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap:
			old, _ := out[key].(map[string]any)
			out[key] = merged(old, sub)
		default:
			out[key] = value
		}
	}
	return out
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (op operation) path() []string {
	path := strings.Split(op.Path, "/")[1:]
	for i := range path {
		path[i] = escaped.Replace(path[i])
	}
	return path
}

var escaped = strings.NewReplacer("~1", "/", "~0", "~")

// at applies the operation below a value, and returns the new value.
func (op operation) at(value any, path []string) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return op.inMap(v, path)
	case []any:
		return op.inList(v, path)
	}
	return nil, fmt.Errorf("%s %s: there is nothing to go into", op.Op, op.Path)
}

func (op operation) inMap(from map[string]any, path []string) (map[string]any, error) {
	value, found := from[path[0]]
	m := from
	if len(path) > 1 || op.Op != "test" {
		m = maps.Clone(from)
	}
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
