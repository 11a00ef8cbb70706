package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

// vpaWebhook is the configuration that the admission controller makes when it is ready to be asked.
const vpaWebhook = "vpa-webhook-config"

// vpa is the Vertical Pod Autoscaler beside a world.
type vpa struct {
	*world
	used     atomic.Int64 // by each pod, in thousandths of a core
	programs []*playgroundtest.Program
}

// startVPA installs the Vertical Pod Autoscaler by its own manifests, as far as they are not about containers, and runs its programs with
// the rights that these grant until the test ends. They look every few seconds, and forget what pods used half a minute ago.
func (w *world) startVPA() *vpa {
	w.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler")
	command.Dir = "vpa/program"
	folder, err := command.Output()
	w.must(err)
	manifests := filepath.Join(strings.TrimSpace(string(folder)), "deploy")
	v := &vpa{world: w}
	v.serveMetrics()
	definitions := w.applyFile(filepath.Join(manifests, "vpa-v1-crd-gen.yaml"))
	w.Cleanup(func() { v.remove(definitions) })
	w.applyFile(filepath.Join(manifests, "vpa-rbac.yaml"))
	for _, d := range definitions {
		w.until(time.Minute, func() (bool, string) {
			w.must(w.Get(w, client.ObjectKeyFromObject(d), d))
			return strings.Contains(fmt.Sprint(d.Object["status"]), "status:True type:Established"), d.GetName() + " is not served"
		})
	}
	dir := w.TempDir()
	_, err = playgroundtest.WriteCertificates(dir, "vpa")
	w.must(err)
	port := fmt.Sprint(playgroundtest.FreePort(w.TB))
	v.run("recommender", "--recommender-interval=2s", "--cpu-histogram-decay-half-life=10s", "--confidence-interval-cpu=1m")
	v.run("admission-controller", "--port="+port, "--register-by-url", "--webhook-address=https://127.0.0.1", "--webhook-port="+port,
		"--client-ca-file="+filepath.Join(dir, "ca.crt"), "--tls-cert-file="+filepath.Join(dir, "tls.crt"), "--tls-private-key="+filepath.Join(dir, "tls.key"))
	v.run("updater", "--updater-interval=2s")
	w.until(time.Minute, func() (bool, string) {
		err := w.Get(w, client.ObjectKey{Name: vpaWebhook}, &admissionv1.MutatingWebhookConfiguration{})
		return err == nil, fmt.Sprintf("the admission controller does not ask to be asked: %v", err)
	})
	return v
}

// run runs one of the programs.
func (v *vpa) run(name string, args ...string) {
	v.Helper()
	kubeconfig, err := v.playground.UserKubeconfig("system:serviceaccount:kube-system:vpa-"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	v.must(err)
	path, err := playgroundtest.FindProgram("..", "vpa", "vpa/"+name)
	v.must(err)
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = v.TempDir()
	}
	address := fmt.Sprintf("127.0.0.1:%d", playgroundtest.FreePort(v.TB))
	p := &playgroundtest.Program{
		Name: name, Path: path, Log: filepath.Join(dir, "vpa-"+name+".log"), Health: "http://" + address + "/health-check",
		Args: append(args, "--kubeconfig="+kubeconfig, "--address="+address, "--v=2"),
	}
	ctx, cancel := context.WithTimeout(v, time.Minute)
	defer cancel()
	v.must(p.Start(ctx))
	v.Cleanup(p.Kill)
	v.programs = append(v.programs, p)
}

// kill ends all programs as kill -9 does. The API server asks the admission controller in vain then.
func (v *vpa) kill() {
	for _, p := range v.programs {
		p.Kill()
	}
}

// serveMetrics answers for the metrics API as a metrics-server does: each pod of the namespace that runs uses as much as the other.
func (v *vpa) serveMetrics() {
	v.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			_ = json.NewEncoder(out).Encode(metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
				APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
			})
			return
		}
		var pods corev1.PodList
		if err := v.List(r.Context(), &pods, client.InNamespace("default")); err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		items := []any{}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				continue
			}
			items = append(items, map[string]any{
				"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace, "labels": pod.Labels},
				"timestamp": metav1.Now(), "window": "2s",
				"containers": []any{map[string]any{"name": pod.Spec.Containers[0].Name, "usage": map[string]any{
					"cpu": fmt.Sprintf("%dm", v.used.Load()), "memory": "200Mi",
				}}},
			})
		}
		_ = json.NewEncoder(out).Encode(map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": items})
	}))
	v.Cleanup(server.Close)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-server", Namespace: "kube-system"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": service.Namespace, "name": service.Name, "port": int64(server.Listener.Addr().(*net.TCPAddr).Port)},
		},
	}}
	v.must(v.Create(v, service))
	v.must(v.Create(v, group))
	v.Cleanup(func() { v.must(v.Delete(v, group)); v.must(v.Delete(v, service)) })
}

// remove takes away what was installed, and what the programs have made.
func (v *vpa) remove(definitions []*unstructured.Unstructured) {
	v.Helper()
	v.must(client.IgnoreNotFound(v.Delete(v, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: vpaWebhook}})))
	for _, d := range definitions {
		v.must(client.IgnoreNotFound(v.Delete(v, d)))
	}
}
