package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tenon.sh/engine/kube"
)

// badQuantity returns the field with an invalid amount in an object that could not be decoded. It returns "" if there is none. The decoder's own
// message contains neither the field nor its value.
func badQuantity(u *unstructured.Unstructured) string { return badQuantityIn("", u.Object) }

func badQuantityIn(path string, value any) string {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			if amounts, ok := value[name].(map[string]any); ok && holdsAmounts(name) {
				if problem := badAmount(at, amounts); problem != "" {
					return problem
				}
				continue
			}
			if problem := badQuantityIn(at, value[name]); problem != "" {
				return problem
			}
		}
	case []any:
		for i, item := range value {
			if problem := badQuantityIn(fmt.Sprintf("%s[%d]", path, i), item); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// countAmounts replaces amounts whose arithmetic would take minutes by the largest or least possible amount, and notes it.
func (m *manifest) countAmounts(object, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			amounts, ok := value[name].(map[string]any)
			if !ok || !holdsAmounts(name) {
				m.countAmounts(object, at, value[name])
				continue
			}
			for _, resource := range slices.Sorted(maps.Keys(amounts)) {
				if text, ok := amounts[resource].(string); ok && kube.IsBeyondCounting(text) {
					amounts[resource] = kube.Counted(text)
					m.note("%s: %s.%s: %s is taken as %s", object, at, resource, text, amounts[resource])
				}
			}
		}
	case []any:
		for i, item := range value {
			m.countAmounts(object, fmt.Sprintf("%s[%d]", path, i), item)
		}
	}
}

// holdsAmounts reports whether fields with this name contain amounts of resources, by resource.
func holdsAmounts(name string) bool {
	switch name {
	case "requests", "limits", "capacity", "allocatable", "overhead", "default", "defaultRequest", "min", "max":
		return true
	}
	return false
}

func badAmount(path string, amounts map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		text, ok := amounts[name].(string)
		if !ok {
			continue
		}
		if _, err := resource.ParseQuantity(text); err != nil {
			return fmt.Sprintf("%s.%s: %q is not a quantity such as 500m or 4Gi", path, name, text)
		}
	}
	return ""
}

// wrongType returns an error that names the field with a value of a wrong type. The converter's own error does not name the field.
func wrongType(u *unstructured.Unstructured, object any, err error) error {
	text, failed := json.Marshal(u.Object)
	if failed != nil {
		return err
	}
	var typeError *json.UnmarshalTypeError
	if errors.As(json.Unmarshal(text, object), &typeError) && typeError.Field != "" {
		return fmt.Errorf("%s: a %s stands where a value of type %s belongs", typeError.Field, typeError.Value, typeError.Type)
	}
	return err
}
