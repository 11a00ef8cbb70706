package crds_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"tenon.sh/api/crds"
	v1 "tenon.sh/api/v1"
)

func TestNamesScopesAndSubresources(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, version string
		older               string // a version that is served too, with a warning
		short, categories   []string
		scope               apiextensionsv1.ResourceScope
		columns             string // columns of priority 1 follow a bar
		scale               bool
	}{
		{name: "aksnodeclasses.karpenter.azure.com", kind: "AKSNodeClass", version: "v1beta1", older: "v1alpha2", short: []string{"aksnc", "aksncs"}, categories: []string{"karpenter", "nap"}, scope: "Cluster",
			columns: "Ready Age | ImageFamily"},
		{name: "capacitybuffers.autoscaling.x-k8s.io", kind: "CapacityBuffer", version: "v1beta1", short: []string{"cb"}, categories: []string{"autoscaling"}, scope: "Namespaced",
			columns: "Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age |"},
		{name: "clusterapinodeclasses.karpenter.cluster.x-k8s.io", kind: "ClusterAPINodeClass", version: "v1alpha1", short: []string{"capinc", "capincs"}, categories: []string{"karpenter"}, scope: "Cluster",
			columns: "Cluster MachineDeployments Ready Age |"},
		{name: "ec2nodeclasses.karpenter.k8s.aws", kind: "EC2NodeClass", version: "v1", short: []string{"ec2nc", "ec2ncs"}, categories: []string{"karpenter"}, scope: "Cluster",
			columns: "Ready Age | Role"},
		{name: "kwoknodeclasses.karpenter.kwok.sh", kind: "KWOKNodeClass", version: "v1alpha1", short: []string{"kwoknc", "kwokncs"}, categories: []string{"karpenter"}, scope: "Cluster",
			columns: "Ready Age |"},
		{name: "nodeclaims.karpenter.sh", kind: "NodeClaim", version: "v1", categories: []string{"karpenter"}, scope: "Cluster",
			columns: "Type Capacity Zone Node Ready Age | ImageID ID NodePool NodeClass Drifted"},
		{name: "nodeoverlays.karpenter.sh", kind: "NodeOverlay", version: "v1alpha1", short: []string{"overlays"}, categories: []string{"karpenter"}, scope: "Cluster",
			columns: "Ready Age | Weight"},
		{name: "nodepools.karpenter.sh", kind: "NodePool", version: "v1", categories: []string{"karpenter"}, scope: "Cluster",
			columns: "NodeClass Nodes Ready Age | Weight CPU Memory", scale: true},
	}
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		i := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == test.name })
		if i < 0 {
			t.Errorf("no definition %s", test.name)
			continue
		}
		spec := definitions[i].Spec
		if spec.Names.Kind != test.kind || spec.Names.ListKind != test.kind+"List" || spec.Scope != test.scope ||
			!slices.Equal(spec.Names.ShortNames, test.short) || !slices.Equal(spec.Names.Categories, test.categories) {
			t.Errorf("%s: names %+v, scope %s", test.name, spec.Names, spec.Scope)
		}
		var served []string
		for _, version := range spec.Versions {
			served = append(served, version.Name)
			if !version.Served || version.Storage != (version.Name == test.version) || version.Deprecated != (version.Name == test.older) {
				t.Errorf("%s: version %s is served: %t, stored: %t, deprecated: %t", test.name, version.Name, version.Served, version.Storage, version.Deprecated)
			}
			sub := version.Subresources
			if sub == nil || sub.Status == nil || (sub.Scale != nil) != test.scale {
				t.Errorf("%s: subresources %+v", test.name, sub)
			}
			if test.scale && (sub.Scale.SpecReplicasPath != ".spec.replicas" || sub.Scale.StatusReplicasPath != ".status.nodes" || sub.Scale.LabelSelectorPath != nil) {
				t.Errorf("%s: scale %+v", test.name, sub.Scale)
			}
			if got := columns(version); got != test.columns {
				t.Errorf("%s: columns %q, want %q", test.name, got, test.columns)
			}
		}
		if want := strings.Fields(test.older + " " + test.version); !slices.Equal(served, want) {
			t.Errorf("%s: versions %q, want %q", test.name, served, want)
		}
	}
}

// Without a conversion webhook, the API server changes only the name of the version.
func TestAllVersionsOfAKindHaveTheSameFields(t *testing.T) {
	t.Parallel()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range definitions {
		for _, version := range crd.Spec.Versions {
			if !reflect.DeepEqual(version.Schema, crd.Spec.Versions[0].Schema) {
				t.Errorf("%s: %s and %s differ", crd.Name, version.Name, crd.Spec.Versions[0].Name)
			}
		}
		if c := crd.Spec.Conversion; c != nil && c.Strategy != apiextensionsv1.NoneConverter {
			t.Errorf("%s is converted by %s", crd.Name, c.Strategy)
		}
	}
}

func columns(version apiextensionsv1.CustomResourceDefinitionVersion) string {
	var always, wide string
	for _, c := range version.AdditionalPrinterColumns {
		if c.Priority == 0 {
			always += c.Name + " "
		} else {
			wide += " " + c.Name
		}
	}
	return always + "|" + wide
}

// A test with an API server checks the other direction: the rules accept all labels of the lists.
func TestProviderLabelsOfTheRulesAreInTheLists(t *testing.T) {
	t.Parallel()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`'(karpenter\.[a-z0-9.]+/[a-z-]+)'`)
	seen := 0
	for _, crd := range definitions {
		text, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range label.FindAllStringSubmatch(string(text), -1) {
			seen++
			if problem := v1.LabelRestriction(match[1]); problem != "" {
				t.Errorf("%s allows %s: %s", crd.Name, match[1], problem)
			}
		}
	}
	if seen < 100 {
		t.Errorf("found only %d labels in the rules", seen)
	}
}
