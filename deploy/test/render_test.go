package charttest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A release is one use of a chart.
type release struct {
	chart     string // folder
	name      string
	namespace string
	set       []string // as after helm's --set
	file      string   // of values, as after helm's -f; empty for none
	apis      []string // that the cluster has beside Kubernetes' own
}

// gettingStarted is what Karpenter's guide has everybody type.
func gettingStarted() release {
	return release{chart: "../charts/karpenter", name: "karpenter", namespace: "kube-system", set: []string{
		"settings.clusterName=demo", "settings.interruptionQueue=demo",
		"controller.resources.requests.cpu=1", "controller.resources.requests.memory=1Gi",
		"controller.resources.limits.cpu=1", "controller.resources.limits.memory=1Gi",
	}}
}

// with is the release with further values.
func (r release) with(set ...string) release {
	r.set = slices.Concat(r.set, set)
	return r
}

func (r release) load() (*chart.Chart, error) { return loader.Load(r.chart) }

func (r release) values() (map[string]any, error) {
	out := map[string]any{}
	if r.file != "" {
		file, err := chartutil.ReadValuesFile(r.file)
		if err != nil {
			return nil, err
		}
		out = file
	}
	for _, value := range r.set {
		if err := strvals.ParseInto(value, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// render is what helm template prints, as objects in the order of their files.
func (r release) render() ([]*unstructured.Unstructured, error) {
	c, err := r.load()
	if err != nil {
		return nil, err
	}
	values, err := r.values()
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), r.apis...)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(files[name]), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, errors.Join(errors.New(name), err)
			}
			if len(object.Object) > 0 {
				out = append(out, object)
			}
		}
	}
	return out, nil
}

func render(t *testing.T, r release) []*unstructured.Unstructured {
	t.Helper()
	objects, err := r.render()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find is the object of that kind and name.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s in %v", kind, name, names(objects))
	return nil
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
	}
	return out
}

// text is the object as JSON, to be searched.
func text(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	out, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
