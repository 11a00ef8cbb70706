package endtoend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/playground/playgroundtest"
)

// kueueNamespace is where Kueue's manifests put it, kueueService how the API server reaches its webhooks, kueueCertificate the Secret
// in which Kueue keeps what it shows the API server.
const (
	kueueNamespace   = "kueue-system"
	kueueService     = "kueue-webhook-service"
	kueueCertificate = "kueue-webhook-server-cert"
)

// kueue is Kueue's controller beside a world.
type kueue struct {
	*world
	program *playgroundtest.Program
}

// startKueue installs Kueue by its own manifests, as far as they are not about containers, and runs its controller with the rights that
// these grant until the test ends. ProvisioningRequests have to be served before it.
func (w *world) startKueue() *kueue {
	w.Helper()
	w.Cleanup(w.removeKueue)
	port := playgroundtest.FreePort(w.TB)
	for _, o := range w.kueueManifests(port) {
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership))
	}
	for _, d := range w.kueueDefinitions() {
		w.until(time.Minute, func() (bool, string) {
			w.must(w.Get(w, client.ObjectKeyFromObject(d), d))
			return strings.Contains(fmt.Sprint(d.Object["status"]), "status:True type:Established"), d.GetName() + " is not served"
		})
	}
	dir := w.TempDir()
	w.mountCertificate(dir)
	logs := os.Getenv(logsIn)
	if logs == "" {
		logs = dir
	}
	health := fmt.Sprintf("127.0.0.1:%d", playgroundtest.FreePort(w.TB))
	settings, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
		"health":         map[string]any{"healthProbeBindAddress": health},
		"metrics":        map[string]any{"bindAddress": fmt.Sprintf("127.0.0.1:%d", playgroundtest.FreePort(w.TB))},
		"webhook":        map[string]any{"host": "127.0.0.1", "port": port, "certDir": dir},
		"leaderElection": map[string]any{"leaderElect": false},
		"integrations":   map[string]any{"frameworks": []string{"batch/job"}},
		"featureGates":   map[string]any{"VisibilityOnDemand": false}, // a server of its own, for kubectl
	})
	w.must(err)
	config := filepath.Join(dir, "kueue.yaml")
	w.must(os.WriteFile(config, settings, 0o600))
	kubeconfig, err := w.playground.UserKubeconfig("system:serviceaccount:"+kueueNamespace+":kueue-controller-manager", "system:serviceaccounts", "system:serviceaccounts:"+kueueNamespace)
	w.must(err)
	path, err := playgroundtest.FindProgram("..", "kueue", "kueue")
	w.must(err)
	k := &kueue{world: w, program: &playgroundtest.Program{
		Name: "kueue", Path: path, Log: filepath.Join(logs, fmt.Sprintf("kueue-%d.log", port)), Health: "http://" + health + "/readyz",
		Args: []string{"--config", config, "--kubeconfig", kubeconfig, "--zap-log-level=2"},
	}}
	k.start()
	w.Cleanup(k.program.Kill)
	return k
}

// start runs the controller, and has its service an endpoint, as Kubernetes' controllers do when its pod is ready.
func (k *kueue) start() {
	k.Helper()
	ctx, cancel := context.WithTimeout(k, 2*time.Minute)
	defer cancel()
	k.must(k.program.Start(ctx))
	k.must(client.IgnoreAlreadyExists(k.Create(k, kueueEndpoint())))
}

// kill ends it as kill -9 does. Its service has no endpoint then.
func (k *kueue) kill() {
	k.Helper()
	k.program.Kill()
	k.must(k.Delete(k, kueueEndpoint()))
}

func kueueEndpoint() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: kueueNamespace, Name: kueueService, Labels: map[string]string{discoveryv1.LabelServiceName: kueueService}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
}

// kueueFolder is where Kueue's own files are.
func (w *world) kueueFolder() string {
	w.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue")
	command.Dir = "kueue/program"
	folder, err := command.Output()
	w.must(err)
	return filepath.Join(strings.TrimSpace(string(folder)), "config/components")
}

// kueueDefinitions are Kueue's CRDs.
func (w *world) kueueDefinitions() (definitions []*unstructured.Unstructured) {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.kueueFolder(), "crd/bases/*.yaml"))
	w.must(err)
	for _, file := range files {
		definitions = append(definitions, w.manifests(file)...)
	}
	return definitions
}

// kueueManifests are Kueue's objects as its kustomizations make them, with webhooks that are reached on a port of this machine.
func (w *world) kueueManifests(port int) []*unstructured.Unstructured {
	w.Helper()
	object := func(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec}}
	}
	out := []*unstructured.Unstructured{
		object("Namespace", "", kueueNamespace, map[string]any{}),
		object("Service", kueueNamespace, kueueService, map[string]any{"type": "ExternalName", "externalName": "localhost"}),
	}
	reach := func(path any) map[string]any {
		return map[string]any{"service": map[string]any{"namespace": kueueNamespace, "name": kueueService, "port": int64(port), "path": path}}
	}
	for _, d := range w.kueueDefinitions() {
		kind, _, _ := strings.Cut(d.GetName(), ".")
		if patch := filepath.Join(w.kueueFolder(), "crd/patches/webhook_in_"+kind+".yaml"); exists(patch) && kind != "resourceflavors" {
			conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": reach("/convert"), "conversionReviewVersions": []any{"v1"}}}
			w.must(unstructured.SetNestedField(d.Object, conversion, "spec", "conversion"))
		}
		out = append(out, d)
	}
	for _, file := range []string{"rbac/service_account", "rbac/role", "rbac/role_binding", "rbac/manager_secrets_role", "rbac/manager_secrets_role_binding", "internalcert/secret", "webhook/manifests"} {
		for _, o := range w.manifests(filepath.Join(w.kueueFolder(), file+".yaml")) {
			w.kustomize(o)
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			for _, h := range hooks {
				hook := h.(map[string]any)
				path, _, _ := unstructured.NestedFieldNoCopy(hook, "clientConfig", "service", "path")
				hook["clientConfig"] = reach(path)
				if name, _, _ := strings.Cut(hook["name"].(string)[1:], "."); slices.Contains([]string{"pod", "deployment", "statefulset"}, name) {
					hook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
						"key": corev1.LabelMetadataName, "operator": "NotIn", "values": []any{"kube-system", kueueNamespace},
					}}}
				}
			}
			if hooks != nil {
				o.Object["webhooks"] = hooks
			}
			out = append(out, o)
		}
	}
	return out
}

// kustomize gives an object, and what it refers to, the names and the namespace of Kueue's kustomization.
func (w *world) kustomize(o *unstructured.Unstructured) {
	w.Helper()
	o.SetName("kueue-" + o.GetName())
	if o.GetNamespace() != "" {
		o.SetNamespace(kueueNamespace)
	}
	if role, ok, _ := unstructured.NestedString(o.Object, "roleRef", "name"); ok {
		w.must(unstructured.SetNestedField(o.Object, "kueue-"+role, "roleRef", "name"))
	}
	subjects, ok, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		s := s.(map[string]any)
		s["name"], s["namespace"] = fmt.Sprint("kueue-", s["name"]), kueueNamespace
	}
	if ok {
		o.Object["subjects"] = subjects
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// mountCertificate does what a kubelet does with a Secret that is a volume: its keys are files of the folder, until the test ends.
func (w *world) mountCertificate(dir string) {
	w.Helper()
	w.play("mount Kueue's certificate", func() error {
		var secret corev1.Secret
		err := w.Get(w, client.ObjectKey{Namespace: kueueNamespace, Name: kueueCertificate}, &secret)
		for name, content := range secret.Data {
			file := filepath.Join(dir, name)
			if has, _ := os.ReadFile(file); string(has) != string(content) {
				err = errors.Join(err, os.WriteFile(file, content, 0o600))
			}
		}
		return err
	})
}

// removeKueue removes Kueue and all objects of its kinds. It takes off their finalizers, because no controller does this any more.
func (w *world) removeKueue() {
	w.Helper()
	w.Context = context.Background() // the test may have failed by its time
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("admissionregistration.k8s.io/v1")
		o.SetKind(kind)
		o.SetName("kueue-" + strings.ToLower(strings.TrimSuffix(kind, "WebhookConfiguration")) + "-webhook-configuration")
		w.must(client.IgnoreNotFound(w.Delete(w, o)))
	}
	w.must(client.IgnoreNotFound(w.Delete(w, kueueEndpoint())))
	for _, d := range w.kueueDefinitions() {
		w.must(client.IgnoreNotFound(w.Delete(w, d)))
	}
	for _, d := range w.kueueDefinitions() {
		w.until(time.Minute, func() (bool, string) {
			w.letGo(d)
			err := w.Get(w, client.ObjectKeyFromObject(d), d)
			return apierrors.IsNotFound(err), fmt.Sprintf("%s is left: %v", d.GetName(), d.Object["status"])
		})
	}
}

// letGo takes the finalizers off all objects that a definition has.
func (w *world) letGo(definition *unstructured.Unstructured) {
	w.Helper()
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/v1beta2")
	list.SetKind(kind + "List")
	if err := w.List(w, list); err != nil {
		return // nobody knows the kind any more, or not in this version
	}
	for i := range list.Items {
		w.must(client.IgnoreNotFound(w.Patch(w, &list.Items[i], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
	}
}
