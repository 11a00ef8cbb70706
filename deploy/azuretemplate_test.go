package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// No account of Azure is asked, and no emulator knows deployments: what follows carries out a template as Azure's documentation says,
// in order of dependsOn, with the functions that ours calls. Whatever is not known there ends the test.

type object = map[string]any

// deployment carries out one template in a resource group, or in the subscription if group is "".
type deployment struct {
	*subscription
	group, location       string
	parameters, variables object
	index                 int // of the copy that is being made
}

// subscription is what templates have made.
type subscription struct {
	*testing.T
	id    string
	made  map[string]made   // by ID
	known map[string]object // what reference() tells of them
}

type made struct {
	kind, scope string
	properties  object
}

func (d *deployment) scope() string {
	if d.group == "" {
		return "/subscriptions/" + d.id
	}
	return "/subscriptions/" + d.id + "/resourceGroups/" + d.group
}

// run makes everything of a template, and returns its outputs.
func (d *deployment) run(template, given object) object {
	d.Helper()
	d.parameters, d.variables = object{}, object{}
	declared := template["parameters"].(object)
	for name := range given {
		if declared[name] == nil {
			d.Fatalf("there is no parameter %s", name)
		}
	}
	for _, first := range []bool{true, false} { // defaults may be made of others
		for name, p := range declared {
			value, has := given[name], given[name] != nil
			if fallback, may := p.(object)["defaultValue"]; !has && may && !first {
				value, has = d.value(fallback), true
			}
			if has {
				d.parameters[name] = value
			} else if !first {
				d.Fatalf("parameter %s is not given", name)
			}
		}
	}
	variables, _ := template["variables"].(object)
	for name, v := range variables {
		d.variables[name] = d.value(v)
	}
	waiting := d.instances(template["resources"].([]any))
	all := slices.Collect(maps.Keys(waiting))
	for len(waiting) > 0 {
		before := len(waiting)
		for _, id := range slices.Sorted(maps.Keys(waiting)) {
			i := waiting[id]
			for _, on := range i.after {
				if !slices.Contains(all, on) {
					d.Fatalf("%s waits for %s, which the template does not make", id, on)
				}
			}
			if !slices.ContainsFunc(i.after, func(on string) bool { return waiting[on] != nil }) {
				d.index = i.index
				d.make(id, i)
				delete(waiting, id)
			}
		}
		if len(waiting) == before {
			d.Fatalf("these wait for each other: %v", slices.Sorted(maps.Keys(waiting)))
		}
	}
	outputs := object{}
	list, _ := template["outputs"].(object)
	for name, o := range list {
		outputs[name] = object{"value": d.value(o.(object)["value"])}
	}
	return outputs
}

// instance is one resource that is to be made.
type instance struct {
	body   object
	index  int
	after  []string
	group  string // that a template within it is carried out in
	parent string // the scope that it is in
}

// instances are the resources of a template by ID, those of loops each.
func (d *deployment) instances(resources []any) map[string]*instance {
	d.Helper()
	out := map[string]*instance{}
	for _, r := range resources {
		body, count := r.(object), 1
		if loop, has := body["copy"].(object); has {
			count = d.value(loop["count"]).(int)
		}
		for i := range count {
			d.index = i
			it := &instance{body: body, index: i, parent: d.scope()}
			if body["apiVersion"] == nil || body["type"] == nil {
				d.Fatalf("a resource without type or version: %v", body)
			}
			if group, has := body["resourceGroup"]; has {
				it.group = d.value(group).(string)
				it.parent = "/subscriptions/" + d.id + "/resourceGroups/" + it.group
				if other, has := body["subscriptionId"]; has {
					it.parent = "/subscriptions/" + d.value(other).(string) + "/resourceGroups/" + it.group
				}
			}
			if scope, has := body["scope"]; has {
				it.parent = d.value(scope).(string)
			}
			for _, on := range anyList(body["dependsOn"]) {
				it.after = append(it.after, d.value(on).(string))
			}
			id := idOf(it.parent, body["type"].(string), strings.Split(d.value(body["name"]).(string), "/"))
			if out[id] != nil || d.made[id].kind != "" {
				d.Fatalf("%s is made twice", id)
			}
			out[id] = it
		}
	}
	return out
}

func (d *deployment) make(id string, it *instance) {
	d.Helper()
	properties, _ := it.body["properties"].(object)
	kind := it.body["type"].(string)
	if kind != "Microsoft.Resources/deployments" {
		properties, _ = d.value(properties).(object)
		d.made[id] = made{kind, it.parent, properties}
		d.known[id] = object{"clientId": "client of " + id, "principalId": "principal of " + id}
		return
	}
	given := object{}
	for name, p := range properties["parameters"].(object) {
		given[name] = d.value(p.(object)["value"])
	}
	if at(properties, "expressionEvaluationOptions", "scope") != "inner" || properties["mode"] != "Incremental" {
		d.Fatalf("%s does not see what it is given, or deletes what others have made", id)
	}
	within := &deployment{subscription: d.subscription, group: it.group, location: d.location}
	d.known[id] = object{"outputs": within.run(properties["template"].(object), given)}
}

func at(o object, path ...string) any {
	for _, name := range path[:len(path)-1] {
		o, _ = o[name].(object)
	}
	return o[path[len(path)-1]]
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

// idOf is the ID of a resource of a type, with a name for each of its parts.
func idOf(scope, kind string, names []string) string {
	parts := strings.Split(kind, "/")
	if len(parts) != len(names)+1 {
		return fmt.Sprintf("%d names for %s: %q", len(names), kind, names)
	}
	out := scope + "/providers/" + parts[0]
	for i, name := range names {
		out += "/" + parts[i+1] + "/" + name
	}
	return out
}

// value is what a value of a template becomes.
func (d *deployment) value(v any) any {
	d.Helper()
	switch v := v.(type) {
	case object:
		out := object{}
		for key, inner := range v {
			out[key] = d.value(inner)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, inner := range v {
			out = append(out, d.value(inner))
		}
		return out
	case string:
		if strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]") {
			value, rest := d.expression(v[1 : len(v)-1])
			if rest != "" {
				d.Fatalf("%s: what is %q?", v, rest)
			}
			return value
		}
	}
	return v
}

var word = regexp.MustCompile(`^(?:[A-Za-z]+|[0-9]+)`)

// expression is the value of what a text begins with, and the rest.
func (d *deployment) expression(text string) (value any, rest string) {
	d.Helper()
	text = strings.TrimSpace(text)
	begin := word.FindString(text)
	switch number, err := strconv.Atoi(begin); {
	case strings.HasPrefix(text, "'"):
		inner, after, closed := strings.Cut(text[1:], "'")
		if !closed {
			d.Fatalf("%q has no end", text)
		}
		value, rest = inner, after
	case err == nil:
		value, rest = number, text[len(begin):]
	case begin != "" && strings.HasPrefix(text[len(begin):], "("):
		var arguments []any
		for rest = text[len(begin)+1:]; !strings.HasPrefix(rest, ")"); rest = strings.TrimSpace(strings.TrimPrefix(rest, ",")) {
			var argument any
			argument, rest = d.expression(rest)
			arguments, rest = append(arguments, argument), strings.TrimSpace(rest)
			if !strings.HasPrefix(rest, ",") && !strings.HasPrefix(rest, ")") {
				d.Fatalf("%q: want , or )", rest)
			}
		}
		value, rest = d.call(begin, arguments), rest[1:]
	default:
		d.Fatalf("%q is no expression", text)
	}
	for {
		switch {
		case strings.HasPrefix(rest, "."):
			name := word.FindString(rest[1:])
			of, _ := value.(object)
			if of[name] == nil {
				d.Fatalf("%v has no %q", value, name)
			}
			value, rest = of[name], rest[1+len(name):]
		case strings.HasPrefix(rest, "["):
			index, after := d.expression(rest[1:])
			value, rest = anyList(value)[index.(int)], strings.TrimPrefix(after, "]")
		default:
			return value, rest
		}
	}
}

// call is what a function of templates returns.
func (d *deployment) call(name string, arguments []any) any {
	d.Helper()
	texts := make([]string, 0, len(arguments))
	for _, a := range arguments {
		texts = append(texts, fmt.Sprint(a))
	}
	switch name {
	case "parameters", "variables":
		value, has := map[string]object{"parameters": d.parameters, "variables": d.variables}[name][texts[0]]
		if !has {
			d.Fatalf("%s('%s') is not known", name, texts[0])
		}
		return value
	case "format":
		out := texts[0]
		for i, text := range texts[1:] {
			out = strings.ReplaceAll(out, fmt.Sprintf("{%d}", i), text)
		}
		return out
	case "guid", "uniqueString": // another for other arguments
		return name + " of " + strings.ReplaceAll(strings.Join(texts, ","), "/", "|")
	case "subscription":
		return object{"id": "/subscriptions/" + d.id, "subscriptionId": d.id}
	case "resourceGroup":
		if d.group == "" {
			d.Fatal("resourceGroup() in a deployment to a subscription")
		}
		return object{"id": d.scope(), "name": d.group}
	case "deployment":
		return object{"location": d.location}
	case "subscriptionResourceId":
		return idOf("/subscriptions/"+d.id, texts[0], texts[1:])
	case "resourceId":
		scope, kind := d.scope(), slices.IndexFunc(texts, func(text string) bool { return strings.Contains(text, "/") })
		if kind == 2 {
			scope = "/subscriptions/" + texts[0] + "/resourceGroups/" + texts[1]
		} else if kind != 0 || d.group == "" {
			d.Fatalf("resourceId(%v): in which group?", texts)
		}
		return idOf(scope, texts[kind], texts[kind+1:])
	case "reference":
		if d.known[texts[0]] == nil {
			d.Fatalf("%s is asked about before it is there", texts[0])
		}
		return d.known[texts[0]]
	case "copyIndex":
		return d.index
	case "length":
		return len(anyList(arguments[0]))
	case "split":
		var out []any
		for part := range strings.SplitSeq(texts[0], texts[1]) {
			out = append(out, part)
		}
		return out
	case "empty":
		return texts[0] == ""
	case "if":
		if arguments[0].(bool) {
			return arguments[1]
		}
		return arguments[2]
	}
	d.Fatalf("function %s is not known", name)
	return nil
}

// What the template makes: an identity that the controller's service account may use and nobody else, two roles, and an assignment of one
// of them to that identity wherever it is needed. What changes something is allowed in the resource group and on what is named alone.
func TestWhatTheTemplateOfAzureMakes(t *testing.T) {
	t.Parallel()
	const in = "/subscriptions/sub/resourceGroups/"
	subnet, cluster := in+"network/providers/Microsoft.Network/virtualNetworks/main/subnets/nodes", in+"clusters/providers/Microsoft.ContainerService/managedClusters/own"
	for name, c := range map[string]struct {
		given         object
		identityGroup string
		named         []string
	}{
		"what is needed": {object{}, "nodes", nil},
		"everything": {object{"namedResources": []any{subnet, cluster}, "identityResourceGroup": "own", "serviceAccountNamespace": "system", "serviceAccountName": "tenon"},
			"own", []string{subnet, cluster}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var template object
			read(t, "azure/template.json", &template)
			given := object{"clusterName": "demo", "nodeResourceGroup": "nodes", "issuer": "https://issuer.example.com"}
			maps.Copy(given, c.given)
			s := &subscription{T: t, id: "sub", made: map[string]made{}, known: map[string]object{}}
			outputs := (&deployment{subscription: s, location: "eastus"}).run(template, given)

			identity := in + c.identityGroup + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/tenon-demo"
			if s.made[identity].kind == "" || at(outputs, "clientId", "value") != "client of "+identity {
				t.Errorf("identity %+v, outputs %v", s.made[identity], outputs)
			}
			credential := s.made[identity+"/federatedIdentityCredentials/tenon"].properties
			account := fmt.Sprintf("system:serviceaccount:%v:%v", orElse(given["serviceAccountNamespace"], "kube-system"), orElse(given["serviceAccountName"], "karpenter"))
			if credential["issuer"] != given["issuer"] || credential["subject"] != account || fmt.Sprint(credential["audiences"]) != "[api://AzureADTokenExchange]" {
				t.Errorf("credential %v, want one for %s", credential, account)
			}
			want := map[string]string{in + "nodes": "Makes and deletes machines", "/subscriptions/sub": "Reads what the subscription may buy"}
			for _, id := range c.named {
				want[id] = "Makes and deletes machines"
			}
			for id, r := range s.made {
				if r.kind != "Microsoft.Authorization/roleAssignments" {
					continue
				}
				role := s.made[fmt.Sprint(r.properties["roleDefinitionId"])].properties
				within := slices.ContainsFunc(anyList(role["assignableScopes"]), func(scope any) bool { return strings.HasPrefix(r.scope, scope.(string)) })
				if about := fmt.Sprint(role["description"]); want[r.scope] == "" || !strings.HasPrefix(about, want[r.scope]) || !within {
					t.Errorf("%s: assigned %q on %s, want %q", id, about, r.scope, want[r.scope])
				}
				if r.properties["principalId"] != "principal of "+identity || r.properties["principalType"] != "ServicePrincipal" {
					t.Errorf("%s is for %v", id, r.properties)
				}
				delete(want, r.scope)
			}
			if len(want) != 0 {
				t.Errorf("nothing is assigned for %v", want)
			}
		})
	}
}

func orElse(v any, fallback string) any {
	if v == nil {
		return fallback
	}
	return v
}
