package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
)

const applyDefinitions = "tenon crds --apply, or helm upgrade --install karpenter-crd"

// definitions checks the CRDs: they must be installed, serve the right version, have all fields, and have no remainders of older versions of
// Karpenter.
func definitions(p *Picture) []provider.Finding {
	l := list{check: "crd"}
	for _, want := range p.Wanted {
		has := slices.IndexFunc(p.Installed, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == want.Name })
		needed := slices.Contains([]string{"nodepools." + v1.Group, "nodeclaims." + v1.Group, p.Class}, want.Name)
		class := strings.HasSuffix(want.Name[:strings.Index(want.Name, ".")], "nodeclasses") // of any cloud
		switch {
		case has >= 0:
			l.definition(want, p.Installed[has])
		case needed:
			l.problem("CRD "+want.Name, "it is not installed: the controller waits for it", applyDefinitions)
		case !class:
			l.warning("CRD "+want.Name, "it is not installed: objects of this kind cannot be made", applyDefinitions)
		}
	}
	return l.or(count(len(p.Wanted), "definition") + " looked at")
}

func (l *list) definition(want, has *apiextensionsv1.CustomResourceDefinition) {
	object := "CRD " + has.Name
	if c := has.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		l.problem(object, "objects are converted by a webhook ("+hookOf(c)+"), which only versions of Karpenter before 1.1 answer",
			fmt.Sprintf(`kubectl patch crd %s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`, has.Name))
	}
	served := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
	for i := range has.Spec.Versions {
		if v := &has.Spec.Versions[i]; v.Served {
			served[v.Name] = v
		}
	}
	for i := range want.Spec.Versions {
		v := &want.Spec.Versions[i]
		if served[v.Name] == nil {
			l.problem(object, "version "+v.Name+" is not served", applyDefinitions)
			continue
		}
		if missing := missingFields(v, served[v.Name]); len(missing) > 0 {
			l.problem(object, "it is too old, and drops "+some(missing, 3), applyDefinitions)
		}
	}
	for _, stored := range has.Status.StoredVersions {
		if !slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			l.problem(object, "objects may still be stored in version "+stored+", so that a definition without it is refused",
				fmt.Sprintf(`kubectl get %s -o yaml | kubectl replace -f - ; kubectl patch crd %s --subresource=status --type=merge -p '{"status":{"storedVersions":["v1"]}}'`,
					has.Spec.Names.Plural+"."+has.Spec.Group, has.Name))
		}
	}
}

func hookOf(c *apiextensionsv1.CustomResourceConversion) string {
	if c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return "which is not named"
	}
	if s := c.Webhook.ClientConfig.Service; s != nil {
		return "service " + s.Namespace + "/" + s.Name
	}
	if url := c.Webhook.ClientConfig.URL; url != nil {
		return *url
	}
	return "which is not named"
}

// missingFields lists the fields of the schema want that has lacks. It does not list fields below a missing field.
func missingFields(want, has *apiextensionsv1.CustomResourceDefinitionVersion) []string {
	if want.Schema == nil || has.Schema == nil {
		return nil
	}
	var out []string
	var walk func(path string, want, has *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, want, has *apiextensionsv1.JSONSchemaProps) {
		if want == nil || has == nil || has.XPreserveUnknownFields != nil && *has.XPreserveUnknownFields {
			return
		}
		for name, field := range want.Properties {
			below, there := has.Properties[name]
			if !there && (len(has.Properties) > 0 || path == "") {
				out = append(out, strings.TrimPrefix(path+"."+name, "."))
				continue
			}
			walk(path+"."+name, &field, &below)
		}
		if want.Items != nil && has.Items != nil {
			walk(path+"[]", want.Items.Schema, has.Items.Schema)
		}
	}
	walk("", want.Schema.OpenAPIV3Schema, has.Schema.OpenAPIV3Schema)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), cmp.Compare(a, b))
	})
	return out
}
