// Package schema checks objects like the API server, without one. It sets defaults and applies the rules of the generated definitions,
// including CEL. Runtime rules that the definitions cannot express are methods of the kinds.
package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"

	"tenon.sh/api/crds"
)

// Schemas are the rules of all kinds that api defines. They do not change, and may be used from several goroutines.
type Schemas struct {
	kinds map[schema.GroupVersionKind]*kind
}

// A kind is one compiled version of a definition.
type kind struct {
	structural *structural.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator // nil if the kind has no CEL rules
}

// New compiles the generated definitions.
func New() (*Schemas, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, err
	}
	s := &Schemas{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, crd := range definitions {
		for _, version := range crd.Spec.Versions {
			k, err := compile(version)
			if err != nil {
				return nil, fmt.Errorf("compile definition %s, version %s: %w", crd.Name, version.Name, err)
			}
			s.kinds[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = k
		}
	}
	return s, nil
}

func compile(version apiextensionsv1.CustomResourceDefinitionVersion) (*kind, error) {
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(props)
	if err != nil {
		return nil, err
	}
	openAPI, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &kind{structural: s, openAPI: openAPI, rules: cel.NewValidator(s, true, apiservercel.PerCallLimit)}, nil
}

// Apply sets the defaults of obj and checks it, like the API server when an object is created. The error names every wrong field. Apply does
// not change objects of groups that api does not define.
func (s *Schemas) Apply(obj *unstructured.Unstructured) error {
	return s.check(obj, nil)
}

// Update sets the defaults of obj and checks it, like the API server when obj replaces old. It includes the rules about allowed changes.
func (s *Schemas) Update(obj, old *unstructured.Unstructured) error {
	return s.check(obj, old)
}

// UnknownFields returns the fields of obj that its kind does not have, sorted by path. They are usually misspelt.
func (s *Schemas) UnknownFields(obj *unstructured.Unstructured) ([]string, error) {
	k, err := s.find(obj)
	if k == nil || err != nil {
		return nil, err
	}
	content, err := normalize(obj)
	if err != nil {
		return nil, err
	}
	unknown := pruning.PruneWithOptions(content, k.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(unknown)
	return unknown, nil
}

// Knows reports whether obj is of a kind that api defines.
func (s *Schemas) Knows(obj *unstructured.Unstructured) bool {
	return s != nil && s.kinds[obj.GroupVersionKind()] != nil
}

// Violations sets the defaults of obj and returns the rules that it breaks, sorted by text. Objects of groups that api does not define break
// none.
func (s *Schemas) Violations(obj *unstructured.Unstructured) (field.ErrorList, error) {
	return s.violations(obj, nil)
}

func (s *Schemas) check(obj, old *unstructured.Unstructured) error {
	errs, err := s.violations(obj, old)
	if err == nil && len(errs) > 0 {
		err = fmt.Errorf("%s %q is invalid: %s", obj.GetKind(), obj.GetName(), describe(errs))
	}
	return err
}

func (s *Schemas) violations(obj, old *unstructured.Unstructured) (field.ErrorList, error) {
	k, err := s.find(obj)
	if k == nil || err != nil {
		return nil, err
	}
	content, err := normalize(obj)
	if err != nil {
		return nil, err
	}
	var oldContent map[string]any
	if old != nil {
		if oldContent, err = normalize(old); err != nil {
			return nil, err
		}
		k.fillIn(oldContent)
	}
	k.fillIn(content)
	obj.Object = content
	errs := k.violations(content, oldContent)
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return slices.CompactFunc(errs, func(a, b *field.Error) bool { return a.Error() == b.Error() }), nil
}

// find returns the rules for obj's kind. It returns nil if api does not define its group.
func (s *Schemas) find(obj *unstructured.Unstructured) (*kind, error) {
	gvk := obj.GroupVersionKind()
	if k, found := s.kinds[gvk]; found {
		return k, nil
	}
	var known []string
	for other := range s.kinds {
		if other.Group == gvk.Group {
			known = append(known, other.Kind+" "+other.Version)
		}
	}
	if known == nil {
		return nil, nil
	}
	slices.Sort(known)
	help := ""
	if gvk.Version == "v1beta1" {
		help = ": tenon convert -f makes that of it"
	}
	return nil, fmt.Errorf("%s %q: group %s has no kind %s of version %q; it has %s%s",
		gvk.Kind, obj.GetName(), gvk.Group, gvk.Kind, gvk.Version, strings.Join(known, ", "), help)
}

// normalize copies obj through JSON, so that its numbers have the types that the API server's rules expect, whatever decoder made it.
func normalize(obj *unstructured.Unstructured) (map[string]any, error) {
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return content, nil
}

func (k *kind) fillIn(content map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(content, k.structural)
	defaulting.Default(content, k.structural)
}

// violations returns the broken rules. Like the API server, it evaluates CEL rules only if the types and lists that they read are as
// declared.
func (k *kind) violations(content, old map[string]any) field.ErrorList {
	ctx := context.Background()
	errs := validation.ValidateCustomResource(nil, content, k.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, content)...)
	if k.rules == nil || slices.ContainsFunc(errs, blocksRules) {
		return errs
	}
	var previous any
	if old != nil {
		previous = old
	}
	found, _ := k.rules.Validate(ctx, nil, k.structural, content, previous, apiservercel.RuntimeCELCostBudget)
	return append(errs, found...)
}

func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeTypeInvalid, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeNotSupported:
		return true
	}
	return false
}

func describe(errs field.ErrorList) string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return strings.Join(out, "; ")
}
