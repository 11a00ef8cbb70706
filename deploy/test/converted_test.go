package charttest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/crds"
	"tenon.sh/cluster"
	"tenon.sh/playground/playgroundtest"
)

// The API server takes what tenon convert writes, with all rules of the definitions.
func TestTheAPIServerTakesConvertedManifests(t *testing.T) {
	t.Parallel()
	if err := cluster.ApplyCRDs(t.Context(), playgroundtest.Get(t).RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c := client.WithFieldValidation(admin(t), metav1.FieldValidationStrict)
	taken := 0
	for _, o := range converted(t) {
		o.SetResourceVersion("")
		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner("test"), client.DryRunAll)
		class, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "nodeClassRef", "name")
		// Of both the notes say that they are to be seen to.
		asked := strings.Contains(yamlText(t, o), "instance-pods") || o.GetKind() == "NodePool" && class == ""
		if (err != nil) != asked {
			t.Errorf("%s %s: %v\n%s", o.GetKind(), o.GetName(), err, yamlText(t, o))
		}
		taken++
	}
	if taken < 9 {
		t.Errorf("only %d objects were tried", taken)
	}
}

// converted are the objects of today in the test data of convert, of kinds that the program has.
func converted(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range definitions {
		kinds = append(kinds, d.Spec.Group+"/v1/"+d.Spec.Names.Kind)
	}
	paths, err := filepath.Glob("../../convert/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			if !strings.HasPrefix(file.Name, "out/") {
				continue
			}
			for document := range strings.SplitSeq(string(file.Data), "\n---") {
				out = append(out, objectsOf(document, kinds)...)
			}
		}
	}
	return out
}

// objectsOf are the objects of one document: its own, or those of a List.
func objectsOf(document string, kinds []string) []*unstructured.Unstructured {
	o := newObject()
	if yaml.Unmarshal([]byte(document), &o.Object) != nil || o.Object == nil {
		return nil
	}
	all := []*unstructured.Unstructured{o}
	if items, found, _ := unstructured.NestedSlice(o.Object, "items"); found {
		all = nil
		for _, item := range items {
			if fields, ok := item.(map[string]any); ok {
				all = append(all, &unstructured.Unstructured{Object: fields})
			}
		}
	}
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetAPIVersion()+"/"+o.GetKind())
	})
}

func yamlText(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
