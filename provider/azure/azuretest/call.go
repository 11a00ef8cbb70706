package azuretest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Call is a call as it arrived.
type Call struct {
	// Operation is the operation's name in Azure's API descriptions, "VirtualMachines_CreateOrUpdate"; "" if it is not known.
	Operation string
	Method    string
	Path      string
	Query     url.Values
	Body      []byte

	target
	async *Fault // the fault with which the call's operation ends
	about string // the name of the resource whose operation the call asks about
}

// target holds the kind and the names in a path of ARM: "microsoft.compute/virtualmachines/extensions" and "vm", "cse". A list has one name
// less than its kind has parts after the namespace.
type target struct {
	subscription, group, kind string
	names                     []string
	list                      bool
}

func (t target) name() string { return t.names[len(t.names)-1] }

// id returns the ID in the path, in lower case.
func (c *Call) id() string { return strings.ToLower(strings.TrimSuffix(c.Path, "/")) }

func newCall(r *http.Request, body []byte) *Call {
	return &Call{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: body, target: parseTarget(r.URL.Path)}
}

func parseTarget(path string) (t target) {
	if of, found := cutSuffixFold(strings.TrimSuffix(path, "/"), "/providers/Microsoft.Authorization/permissions"); found {
		above := parseTarget(of)
		return target{subscription: above.subscription, group: above.group, kind: permissionKind, list: true}
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	take := func(word string) string {
		if len(parts) < 2 || !strings.EqualFold(parts[0], word) {
			return ""
		}
		value := parts[1]
		parts = parts[2:]
		return value
	}
	t.subscription, t.group, t.kind = take("subscriptions"), take("resourceGroups"), strings.ToLower(take("providers"))
	if t.kind == "" {
		return target{subscription: t.subscription, group: t.group}
	}
	for i, part := range parts {
		if i%2 == 0 {
			t.kind += "/" + strings.ToLower(part)
		} else {
			t.names = append(t.names, part)
		}
	}
	t.list = len(parts)%2 == 1
	return t
}

func cutSuffixFold(text, end string) (before string, found bool) {
	i := len(text) - len(end)
	if i < 0 || !strings.EqualFold(text[i:], end) {
		return text, false
	}
	return text[:i], true
}

// object parses the body as a JSON object.
func (c *Call) object() (object, *Fault) {
	var out object
	if err := json.Unmarshal(c.Body, &out); err != nil || out == nil {
		return nil, &Fault{Status: http.StatusBadRequest, Code: "InvalidRequestContent", Message: "The request content was invalid and could not be deserialized."}
	}
	return out, nil
}

// object is a JSON object.
type object = map[string]any

// at returns the value at a path in a JSON value, "properties.storageProfile.osDisk"; nil if there is none.
func at(value any, path string) any {
	for _, key := range strings.Split(path, ".") {
		o, _ := value.(object)
		value = o[key]
	}
	return value
}

func textAt(value any, path string) string {
	text, _ := at(value, path).(string)
	return text
}

func listAt(value any, path string) []any {
	list, _ := at(value, path).([]any)
	return list
}

// put sets the value at a path of an object, and makes the objects on the way.
func put(o object, path string, value any) {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, _ := o[key].(object)
		if next == nil {
			next = object{}
			o[key] = next
		}
		o = next
	}
	o[keys[len(keys)-1]] = value
}

// without returns a copy of an object without the value at a path.
func without(o object, path string) object {
	out := object{}
	for key, value := range o {
		out[key] = value
	}
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		delete(out, key)
	} else if next, ok := out[key].(object); ok {
		out[key] = without(next, rest)
	}
	return out
}
