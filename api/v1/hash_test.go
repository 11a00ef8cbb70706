package v1_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
)

// Before each pool, the file has the hash that Karpenter's installations have stored for it.
func TestHashEqualsTheOneStoredInExistingClusters(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/nodepool-hash-vectors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	if len(documents) < 5 {
		t.Fatalf("only %d pools in the file", len(documents))
	}
	for _, document := range documents {
		_, rest, _ := strings.Cut(document, `# hash: "`)
		want, _, found := strings.Cut(rest, `"`)
		if !found {
			t.Fatalf("no hash in %q", document)
		}
		pool := &v1.NodePool{}
		if err := yaml.UnmarshalStrict([]byte(document), pool); err != nil {
			t.Fatal(err)
		}
		if got := pool.Hash(); got != want {
			t.Errorf("%s: hash %s, want %s", pool.Name, got, want)
		}
	}
}

func TestHashFollowsTheTemplateButNotRequirements(t *testing.T) {
	t.Parallel()
	base := func() *v1.NodePool {
		return &v1.NodePool{Spec: v1.NodePoolSpec{Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{
			NodeClassRef: &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
			Taints:       []v1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		}}}}
	}
	tests := map[string]struct {
		change func(*v1.NodePool)
		drifts bool
	}{
		"requirements": {func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "x", Operator: v1.Exists}}
		}, false},
		"weight":          {func(p *v1.NodePool) { p.Spec.Weight = new(int32) }, false},
		"budgets":         {func(p *v1.NodePool) { p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}} }, false},
		"labels":          {func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{"a": "b"} }, true},
		"annotations":     {func(p *v1.NodePool) { p.Spec.Template.Annotations = map[string]string{"a": "b"} }, true},
		"taint effect":    {func(p *v1.NodePool) { p.Spec.Template.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute }, true},
		"startup taint":   {func(p *v1.NodePool) { p.Spec.Template.Spec.StartupTaints = p.Spec.Template.Spec.Taints }, true},
		"node class name": {func(p *v1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = "other" }, true},
		"expiry":          {func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(1) }, true},
	}
	for name, test := range tests {
		changed := base()
		test.change(changed)
		if drifts := changed.Hash() != base().Hash(); drifts != test.drifts {
			t.Errorf("%s: hash changed is %t, want %t", name, drifts, test.drifts)
		}
	}
}
