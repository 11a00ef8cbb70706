package prometheus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// monitor is what the chart's ServiceMonitor says. A field that is not here fails the test: nobody would act on it.
type monitor struct {
	NamespaceSelector struct {
		MatchNames []string `json:"matchNames"`
	} `json:"namespaceSelector"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Endpoints []struct {
		Port     string `json:"port"`
		Path     string `json:"path"`
		Interval string `json:"interval"`
	} `json:"endpoints"`
}

type object = map[string]any

// scrapes does to a ServiceMonitor what Prometheus's operator does: it makes the part of a configuration that finds the pods behind
// its Services. kubeconfig is how Prometheus reaches the API server.
func (w *world) scrapes(p pace, o *unstructured.Unstructured, kubeconfig string) (jobs []object) {
	w.Helper()
	spec, err := json.Marshal(o.Object["spec"])
	w.must(err)
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.DisallowUnknownFields()
	var m monitor
	w.must(decoder.Decode(&m))
	for _, e := range m.Endpoints {
		interval, err := p.scrape(e.Interval)
		w.must(err)
		jobs = append(jobs, object{
			"job_name": "serviceMonitor/" + o.GetNamespace() + "/" + o.GetName() + "/" + e.Port, "metrics_path": e.Path, "scrape_interval": milliseconds(interval),
			"scrape_timeout":        milliseconds(interval),
			"kubernetes_sd_configs": []object{{"role": "endpointslice", "kubeconfig_file": kubeconfig, "namespaces": object{"names": m.NamespaceSelector.MatchNames}}},
			"relabel_configs":       relabeling(m.Selector.MatchLabels, e.Port),
		})
	}
	return jobs
}

// relabeling keeps the port of the Services with the labels, and gives series the labels that the operator gives them.
func relabeling(labels map[string]string, port string) (rules []object) {
	keep := func(value string, sources ...string) {
		rules = append(rules, object{"action": "keep", "source_labels": sources, "regex": value})
	}
	replace := func(target, source string) {
		rules = append(rules, object{"target_label": target, "source_labels": []string{source}})
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		name := regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(key, "_")
		keep("("+regexp.QuoteMeta(labels[key])+");true", "__meta_kubernetes_service_label_"+name, "__meta_kubernetes_service_labelpresent_"+name)
	}
	keep(regexp.QuoteMeta(port), "__meta_kubernetes_endpointslice_port_name")
	rules = append(rules, object{
		"source_labels": []string{"__meta_kubernetes_endpointslice_address_target_kind", "__meta_kubernetes_endpointslice_address_target_name"},
		"regex":         "Pod;(.*)", "target_label": "pod",
	})
	replace("namespace", "__meta_kubernetes_namespace")
	replace("service", "__meta_kubernetes_service_name")
	replace("container", "__meta_kubernetes_pod_container_name")
	replace("job", "__meta_kubernetes_service_name")
	replace("endpoint", "__meta_kubernetes_endpointslice_port_name")
	// The pod runs nowhere: KWOK plays its kubelet, and Tenon is a process of this machine that listens on the pod's port. Only
	// the host is another one than what the cluster says.
	return append(rules, object{"source_labels": []string{"__address__"}, "regex": `.*:(\d+)`, "target_label": "__address__", "replacement": "127.0.0.1:$1"})
}

// installChart applies what the chart makes. There is one pod, and its port is the one that Tenon has here; kube-scheduler, KWOK and
// the controller of EndpointSlices do the rest. It returns the ServiceMonitor.
func (w *world) installChart(port int) (monitor *unstructured.Unstructured) {
	w.Helper()
	for _, o := range w.readObjects("testdata/chart.yaml") {
		switch o.GetKind() {
		case "ServiceMonitor":
			monitor = o // for whoever has the operator's kinds; here the test is the operator
			continue
		case "Deployment":
			d := &appsv1.Deployment{}
			w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d))
			d.Spec.Replicas = new(int32(1))
			for i, p := range d.Spec.Template.Spec.Containers[0].Ports {
				if p.Name == "http-metrics" {
					d.Spec.Template.Spec.Containers[0].Ports[i].ContainerPort = int32(port)
				}
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
			w.must(err)
			o.Object = content
		}
		w.apply(o)
	}
	return monitor
}

// ruleFile writes the rules of a PrometheusRule for Prometheus, made faster, and returns the names of the alerts.
func (w *world) ruleFile(p pace, o *unstructured.Unstructured, path string) (alerts []string) {
	w.Helper()
	groups, _, err := unstructured.NestedSlice(o.Object, "spec", "groups")
	w.must(err)
	for _, g := range groups {
		for _, r := range g.(object)["rules"].([]any) {
			w.must(p.rule(r.(object)))
			if name, ok := r.(object)["alert"].(string); ok {
				alerts = append(alerts, name)
			}
		}
	}
	text, err := yaml.Marshal(object{"groups": groups})
	w.must(err)
	w.must(os.WriteFile(path, text, 0o600))
	return alerts
}

// configure writes Prometheus's configuration into the folder, and returns its path and the names of the alerts.
func (w *world) configure(p pace, dir string, monitor *unstructured.Unstructured) (path string, alerts []string) {
	w.Helper()
	for _, o := range w.readObjects("testdata/rights.yaml") {
		w.apply(o)
	}
	kubeconfig, err := w.playground.UserKubeconfig("system:serviceaccount:monitoring:prometheus", "system:serviceaccounts")
	w.must(err)
	rules := w.readObjects("../../examples/prometheus/rules.yaml")[0]
	alerts = w.ruleFile(p, rules, filepath.Join(dir, "rules.yaml"))
	interval, err := p.scrape("30s") // what the operator sets by default
	w.must(err)
	every := milliseconds(interval)
	text, err := yaml.Marshal(object{
		"global":         object{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
		"rule_files":     []string{filepath.Join(dir, "rules.yaml")},
		"scrape_configs": w.scrapes(p, monitor, kubeconfig),
	})
	w.must(err)
	path = filepath.Join(dir, "prometheus.yaml")
	w.must(os.WriteFile(path, text, 0o600))
	return path, alerts
}

// readObjects reads the documents of a YAML file.
func (w *world) readObjects(file string) (objects []*unstructured.Unstructured) {
	w.Helper()
	text, err := os.ReadFile(file)
	w.must(err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			w.Fatalf("%s: %v", file, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// apply applies an object as kubectl apply --server-side does.
func (w *world) apply(o *unstructured.Unstructured) {
	w.Helper()
	if err := w.Apply(w, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		w.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}
