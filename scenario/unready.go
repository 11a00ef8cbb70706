package scenario

import (
	"maps"
	"slices"
	"strings"

	"tenon.sh/unrendered"
)

// unready returns the problem of an object's file if the object contains Helm templates or variables. It adds one note for each file.
func (m *manifest) unready(d Document) string {
	file, _, _ := strings.Cut(d.Where, ", document")
	if file == "" {
		return "" // from an API server
	}
	problem := unreadyIn(file, d.Object.Object)
	if problem != "" && m.unfilled[file] == "" {
		m.unfilled[file] = file + ": " + problem
	}
	return problem
}

// unreadyIn checks all texts of an object, except programs and fields that may contain other templates.
func unreadyIn(file string, value any) string {
	switch v := value.(type) {
	case string:
		return unrendered.Problem(file, v)
	case []any:
		for _, item := range v {
			if problem := unreadyIn(file, item); problem != "" {
				return problem
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains([]string{"annotations", "args", "command", "data", "env", "lifecycle", "managedFields", "status", "stringData", "userData"}, key) {
				continue
			}
			if problem := unrendered.Problem(file, key); problem != "" {
				return problem
			}
			if problem := unreadyIn(file, v[key]); problem != "" {
				return problem
			}
		}
	}
	return ""
}
