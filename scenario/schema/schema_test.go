package schema_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"tenon.sh/scenario/schema"
)

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 10
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func schemas(t *testing.T) *schema.Schemas {
	t.Helper()
	s, err := schema.New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestApplyFillsInDefaultsWhateverDecodedTheNumbers(t *testing.T) {
	t.Parallel()
	obj := object(t, pool)
	obj.Object["spec"].(map[string]any)["weight"] = 10 // an int, which no JSON decoder makes
	if err := schemas(t).Apply(obj); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "spec", "template", "spec", "expireAfter"); got != "720h" {
		t.Errorf("expireAfter %q", got)
	}
	if got, _, err := unstructured.NestedInt64(obj.Object, "spec", "weight"); got != 10 || err != nil {
		t.Errorf("weight %d, %v", got, err)
	}
}

func TestBadObjectsAreRefusedInOneLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"another version":   {strings.Replace(pool, "karpenter.sh/v1", "karpenter.sh/v1beta1", 1), `NodePool "general": group karpenter.sh has no kind NodePool of version "v1beta1"; it has NodeClaim v1, NodeOverlay v1alpha1, NodePool v1: tenon convert -f makes that of it`},
		"another kind":      {strings.Replace(pool, "kind: NodePool", "kind: Provisioner", 1), "group karpenter.sh has no kind Provisioner"},
		"a value":           {strings.Replace(pool, "weight: 10", "weight: 1000", 1), `NodePool "general" is invalid: spec.weight`},
		"several values":    {strings.Replace(pool, "weight: 10", "weight: 1000\n  replicas: -1", 1), "spec.replicas"},
		"a list, not a map": {strings.Replace(pool, "  weight: 10", "  disruption: []", 1), "spec.disruption"},
		"spec of text":      {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec: none", "spec"},
	}
	s := schemas(t)
	for name, test := range tests {
		err := s.Apply(object(t, test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, test.want)
		}
	}
}

func TestObjectsOfOtherGroupsAreLeftAlone(t *testing.T) {
	t.Parallel()
	obj := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {anything: [1, 2]}")
	if err := schemas(t).Apply(obj); err != nil {
		t.Error(err)
	}
}

func TestUpdateChecksWhatMayChange(t *testing.T) {
	t.Parallel()
	s := schemas(t)
	old, changed := object(t, pool), object(t, strings.Replace(pool, "kind: KWOKNodeClass", "kind: Other", 1))
	if err := s.Update(changed, old); err == nil || !strings.Contains(err.Error(), "spec.template.spec.nodeClassRef.kind") {
		t.Errorf("error %v", err)
	}
	if err := s.Update(object(t, pool), old); err != nil {
		t.Error(err)
	}
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	s := schemas(t)
	unknown, err := s.UnknownFields(object(t, strings.Replace(pool, "weight: 10", "wait: 10\n  disruption: {budget: []}", 1)))
	if got := strings.Join(unknown, " "); err != nil || got != "spec.disruption.budget spec.wait" {
		t.Errorf("unknown fields %q, %v", got, err)
	}
	if unknown, err := s.UnknownFields(object(t, pool)); len(unknown) > 0 || err != nil {
		t.Errorf("unknown fields %q, %v", unknown, err)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := schema.New(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	s, err := schema.New()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(pool), &obj.Object); err != nil {
			b.Fatal(err)
		}
		if err := s.Apply(obj); err != nil {
			b.Fatal(err)
		}
	}
}
