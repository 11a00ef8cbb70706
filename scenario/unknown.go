package scenario

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"tenon.sh/api/awsv1"
	"tenon.sh/api/azurev1beta1"
	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
)

// unknownField returns a message about an unknown field, with the field that was probably meant. object is a value of the kind's Go type.
func unknownField(path string, object any) string {
	text := fmt.Sprintf("unknown field %q", path)
	path = listIndex.ReplaceAllString(path, "")
	if meant := meantField(path, fieldsOf(object)); meant != "" {
		return text + ": did you mean " + meant + "?"
	}
	// A field that a pool does not have may be a field of its class, and vice versa.
	for _, other := range []any{awsv1.EC2NodeClass{}, v1.NodePool{}} {
		kind := reflect.TypeOf(other)
		if reflect.TypeOf(object) == kind || !strings.HasPrefix(reflect.TypeOf(object).PkgPath(), "tenon.sh/") {
			continue
		}
		if meant := namesake(path, fieldsOf(other)); meant != "" {
			return text + ": kind " + kind.Name() + " has " + meant
		}
	}
	return text
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// meantField returns the field that the author of a path probably meant. This is a sibling with almost the same name. If there is none, it is the
// nearest field with the same name.
func meantField(path string, fields []string) string {
	parent, name := cutLast(path)
	best, least := "", max(1, len(name)/3)+1
	for _, f := range fields {
		if above, last := cutLast(f); above == parent {
			if n := Edits(strings.ToLower(name), strings.ToLower(last)); n < least {
				best, least = f, n
			}
		}
	}
	if best != "" {
		return best
	}
	return namesake(path, fields)
}

// namesake returns the field with the same name elsewhere that shares the most steps of the path.
func namesake(path string, fields []string) string {
	_, name := cutLast(path)
	var found []string
	for _, f := range fields {
		if _, last := cutLast(f); strings.EqualFold(last, name) && strings.HasPrefix(f, "spec.") {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(shared(path, b), shared(path, a)), cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), cmp.Compare(a, b))
	})
}

func cutLast(path string) (parent, name string) {
	i := strings.LastIndex(path, ".")
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// shared counts the common steps at the beginning of two paths.
func shared(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// deepest bounds the depth of fieldsOf, because some types contain themselves.
const deepest = 9

// fieldsOf lists the paths of all fields of a kind, except its status.
func fieldsOf(object any) (out []string) {
	var walk func(t reflect.Type, path string, depth int)
	walk = func(t reflect.Type, path string, depth int) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || depth > deepest {
			return
		}
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			switch {
			case strings.Contains(options, "inline") || t.Field(i).Anonymous && name == "":
				walk(t.Field(i).Type, path, depth)
			case name != "" && name != "-" && !(path == "" && name == "status"):
				at := strings.TrimPrefix(path+"."+name, ".")
				out = append(out, at)
				walk(t.Field(i).Type, at, depth+1)
			}
		}
	}
	walk(reflect.TypeOf(object), "", 0)
	return out
}

// Edits counts the letters that must be added, removed or changed to turn one name into the other.
func Edits(a, b string) int {
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
		before = row
	}
	return before[len(b)]
}

// typeOfKind returns a value of the Go type of one of Tenon's kinds.
func typeOfKind(kind string) any {
	switch kind {
	case "NodeClaim":
		return v1.NodeClaim{}
	case "EC2NodeClass":
		return awsv1.EC2NodeClass{}
	case "AKSNodeClass":
		return azurev1beta1.AKSNodeClass{}
	case "ClusterAPINodeClass":
		return clusterapiv1alpha1.ClusterAPINodeClass{}
	case "KWOKNodeClass":
		return kwokv1alpha1.KWOKNodeClass{}
	}
	return v1.NodePool{}
}
