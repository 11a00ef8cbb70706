package keda_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

// namespace is where KEDA's manifests put it, metricsService the Service by which the API server reaches its adapter.
const (
	namespace      = "keda"
	metricsService = "keda-metrics-apiserver"
	metricsGroup   = "v1beta1.external.metrics.k8s.io"
)

// keda is a running KEDA.
type keda struct {
	operator, adapter *playgroundtest.Program
}

func (k *keda) end() {
	k.adapter.Kill()
	k.operator.Kill()
}

// startKEDA installs KEDA by its own manifests, as far as they are not about containers, and starts its programs with the rights
// that these grant. The operator reaches servers of the cluster through the proxy.
func (w *world) startKEDA(proxy string) *keda {
	w.Helper()
	ctx, cancel := context.WithTimeout(w, 2*time.Minute)
	defer cancel()
	config := filepath.Join(w.moduleFolder(), "config")
	dir := w.TempDir()
	certificate, err := playgroundtest.WriteCertificates(dir, "keda", metricsService+"."+namespace+".svc")
	w.must(err)
	port := playgroundtest.FreePort(w.TB)

	files, err := filepath.Glob(filepath.Join(config, "crd/bases/*.yaml"))
	w.must(err)
	var definitions []*unstructured.Unstructured // KEDA's CRDs
	for _, file := range files {
		definitions = append(definitions, w.readObjects(file)...)
	}
	w.applyAll(definitions)
	w.applyAll([]*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}})
	for _, file := range []string{"rbac/role.yaml", "rbac/role_binding.yaml", "service_account/service_account.yaml", "metrics-server/role.yaml", "metrics-server/role_binding.yaml"} {
		w.applyAll(w.readObjects(filepath.Join(config, file)))
	}
	w.must(client.IgnoreAlreadyExists(w.Create(w, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: metricsService, Namespace: namespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})))
	for _, o := range w.readObjects(filepath.Join(config, "metrics-server/api_service.yaml")) {
		w.must(unstructured.SetNestedField(o.Object, int64(port), "spec", "service", "port"))
		w.must(unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString(certificate), "spec", "caBundle"))
		w.applyAll([]*unstructured.Unstructured{o})
	}
	w.establish(definitions)
	k := &keda{}
	w.must(k.prepare(w, dir, proxy, port))
	w.must(k.operator.Start(ctx))
	w.Cleanup(k.end)
	w.must(k.adapter.Start(ctx))
	w.until(time.Minute, func() (bool, string) { return w.serviceAvailable() })
	return k
}

// prepare says how the programs are started.
func (k *keda) prepare(w *world, dir, proxy string, port int) error {
	kubeconfig, err := w.playground.UserKubeconfig("system:serviceaccount:"+namespace+":keda-operator", "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		return err
	}
	logs := dir
	if kept := os.Getenv(logsIn); kept != "" {
		logs = kept
	}
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", playgroundtest.FreePort(w.TB)) }
	health, service := free(), free()
	env := []string{"POD_NAMESPACE=" + namespace, "WATCH_NAMESPACE=", "KEDA_CLUSTER_OBJECT_NAMESPACE=" + namespace}
	operator, err := playgroundtest.FindProgram("../..", "keda", "keda/operator")
	if err != nil {
		return err
	}
	adapter, err := playgroundtest.FindProgram("../..", "keda", "keda/adapter")
	if err != nil {
		return err
	}
	k.operator = &playgroundtest.Program{
		Name: "operator", Path: operator, Log: filepath.Join(logs, "keda-operator.log"), Health: "http://" + health + "/readyz",
		Env: append(slices.Clone(env), "HTTP_PROXY="+proxy),
		Args: []string{
			// The file's name has colons, which in $KUBECONFIG would part it into several.
			"--kubeconfig", kubeconfig, "--metrics-bind-address", free(), "--health-probe-bind-address", health, "--metrics-service-bind-address", service,
			"--cert-dir", dir, "--ca-dir", dir, "--zap-encoder=console",
		},
	}
	k.adapter = &playgroundtest.Program{
		Name: "adapter", Path: adapter, Log: filepath.Join(logs, "keda-adapter.log"), Health: fmt.Sprintf("https://127.0.0.1:%d/readyz", port), Env: env,
		Args: []string{
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), fmt.Sprintf("--port=%d", playgroundtest.FreePort(w.TB)),
			"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig, "--lister-kubeconfig", kubeconfig,
			"--cert-dir", dir, "--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"),
			"--metrics-service-address", service,
		},
	}
	return nil
}

// moduleFolder is where KEDA's own files are.
func (w *world) moduleFolder() string {
	w.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2")
	command.Dir = "program"
	folder, err := command.Output()
	if err != nil {
		w.Fatalf("where KEDA's module is: %v", err)
	}
	return string(bytes.TrimSpace(folder))
}

// readObjects reads the documents of a YAML file.
func (w *world) readObjects(file string) []*unstructured.Unstructured {
	w.Helper()
	text, err := os.ReadFile(file)
	w.must(err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
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

// applyAll applies objects as kubectl apply --server-side does.
func (w *world) applyAll(objects []*unstructured.Unstructured) {
	w.Helper()
	for _, o := range objects {
		if err := w.Apply(w, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			w.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// removeAll deletes objects while those run that take their finalizers off, and waits until they are gone.
func (w *world) removeAll(objects []*unstructured.Unstructured) {
	w.Helper()
	for _, o := range slices.Backward(objects) {
		w.must(client.IgnoreNotFound(w.Delete(w, o.DeepCopy())))
		w.until(time.Minute, func() (bool, string) {
			err := w.Get(w, client.ObjectKeyFromObject(o), o.DeepCopy())
			return apierrors.IsNotFound(err), fmt.Sprintf("%s %s is still there", o.GetKind(), o.GetName())
		})
	}
}

// establish waits until the API server serves the kinds.
func (w *world) establish(definitions []*unstructured.Unstructured) {
	w.Helper()
	for _, d := range definitions {
		w.until(time.Minute, func() (bool, string) { return w.condition(d, "Established") })
	}
}

// serviceAvailable reports whether the API server reaches KEDA's adapter.
func (w *world) serviceAvailable() (bool, string) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("apiregistration.k8s.io/v1")
	o.SetKind("APIService")
	o.SetName(metricsGroup)
	return w.condition(o, "Available")
}

// condition reads an object anew and reports whether a condition of it is true.
func (w *world) condition(o *unstructured.Unstructured, kind string) (bool, string) {
	o = o.DeepCopy()
	if err := w.Get(w, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o); err != nil {
		return false, err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == kind && c["status"] == "True" {
			return true, ""
		}
	}
	text, _ := json.Marshal(conditions)
	return false, fmt.Sprintf("%s %s is not %s: %s", o.GetKind(), o.GetName(), kind, text)
}
