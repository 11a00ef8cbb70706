package clusterapi_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

// startPatience is how long Cluster API may take to be ready.
const startPatience = 3 * time.Minute

// clusterAPI is a running Cluster API.
type clusterAPI struct {
	core, bootstrap, controlPlane, infrastructure *playgroundtest.Program
	mirror                                        *mirror

	mu            sync.Mutex // guards the field below
	sharedCluster *capiCluster
}

func (a *clusterAPI) controllers() []*playgroundtest.Program {
	return []*playgroundtest.Program{a.core, a.bootstrap, a.controlPlane, a.infrastructure}
}

func (a *clusterAPI) end() {
	a.mirror.end()
	for _, c := range a.controllers() {
		c.Kill()
	}
}

// restart kills a controller and starts it again. The API servers in memory end with the infrastructure provider and count their
// resource versions from 0 afterwards. Cluster API's core goes on watching from the version that it has, and does not see Nodes of lower
// ones before it lists them anew, minutes later. No real API server goes back, so that core starts again after it, too.
func (a *clusterAPI) restart(ctx context.Context, c *playgroundtest.Program) error {
	parts := []*playgroundtest.Program{c}
	if c == a.infrastructure {
		parts = append(parts, a.core)
	}
	for _, part := range parts {
		part.Kill()
	}
	for _, part := range parts {
		if err := part.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startClusterAPI installs Cluster API as its own manifests do, but with webhooks that are reached by address, and starts its
// programs. Logs and certificates go to the folder.
func startClusterAPI(t testing.TB, ctx context.Context, p *playground.Playground, c client.Client, dir string) (*clusterAPI, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	modules, err := moduleFolders("sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/test")
	if err != nil {
		return nil, err
	}
	authority, err := writeCertificate(dir)
	if err != nil {
		return nil, err
	}
	a := &clusterAPI{}
	var definitions []*unstructured.Unstructured
	for _, part := range []struct {
		controller   **playgroundtest.Program
		name, config string
	}{
		{&a.core, "core", filepath.Join(modules[0], "core/config")},
		{&a.bootstrap, "bootstrap", filepath.Join(modules[0], "bootstrap/kubeadm/config")},
		{&a.controlPlane, "controlplane", filepath.Join(modules[0], "controlplane/kubeadm/config")},
		{&a.infrastructure, "infrastructure", filepath.Join(modules[1], "infrastructure/docker/config")},
	} {
		program, err := playgroundtest.FindProgram("../..", "clusterapi", "clusterapi/"+part.name)
		if err != nil {
			return nil, err
		}
		webhooks, health := playgroundtest.FreePort(t), fmt.Sprintf("127.0.0.1:%d", playgroundtest.FreePort(t))
		*part.controller = &playgroundtest.Program{
			Name: part.name, Path: program, Log: filepath.Join(dir, part.name+".log"), Health: "http://" + health + "/readyz",
			Args: []string{
				"--kubeconfig", p.Kubeconfig(), "--webhook-port", fmt.Sprint(webhooks), "--webhook-cert-dir", dir,
				"--health-addr", health, "--diagnostics-address", "0", "--feature-gates", "ClusterTopology=true",
			},
			Env: []string{
				"POD_IP=127.0.0.1", "POD_NAMESPACE=default", "POD_NAME=" + part.name, "POD_UID=" + part.name,
				"DOCKER_HOST=unix://" + filepath.Join(dir, "no-docker"), // whether this machine has one shall make no difference
			},
		}
		reach := endpoint{address: fmt.Sprintf("https://127.0.0.1:%d", webhooks), authority: base64.StdEncoding.EncodeToString(authority)}
		crds, err := readDefinitions(part.config, reach)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, crds...)
		hooks, err := readWebhooks(part.name, part.config, reach)
		if err != nil {
			return nil, err
		}
		for _, object := range append(crds, hooks...) {
			if err := c.Create(ctx, object); err != nil {
				return nil, fmt.Errorf("install %s: %w", part.name, err)
			}
		}
	}
	for _, d := range definitions {
		if err := eventually(ctx, func() (bool, string) { return established(ctx, c, d) }); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(a.controllers()))
	var wait sync.WaitGroup
	for i, c := range a.controllers() {
		wait.Go(func() { errs[i] = c.Start(ctx) })
	}
	wait.Wait()
	a.mirror = startMirror(c)
	if err := errors.Join(errs...); err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// moduleFolders are the folders that hold the modules' files.
func moduleFolders(modules ...string) ([]string, error) {
	output, err := exec.Command("go", append([]string{"mod", "download", "-json"}, modules...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w: %s", err, output)
	}
	folders := make([]string, len(modules))
	decoder := json.NewDecoder(bytes.NewReader(output))
	for i := range modules {
		var module struct{ Dir string }
		if err := decoder.Decode(&module); err != nil {
			return nil, fmt.Errorf("go mod download: %w in %s", err, output)
		}
		folders[i] = module.Dir
	}
	return folders, nil
}

// endpoint is where webhooks are reached, and who vouches for them.
type endpoint struct{ address, authority string }

// readDefinitions reads the CRDs below a config folder. Their labels say which version fulfils which contract; kinds with several
// versions are converted by a webhook. Both are in kustomizations otherwise.
func readDefinitions(config string, reach endpoint) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(config, "crd/kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Labels []struct{ Pairs map[string]string }
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(config, "crd/bases/*.yaml"))
	if err != nil {
		return nil, err
	}
	var definitions []*unstructured.Unstructured
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			for _, l := range kustomization.Labels {
				object.SetLabels(l.Pairs)
			}
			if versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions"); len(versions) > 1 {
				object.Object["spec"].(map[string]any)["conversion"] = map[string]any{
					"strategy": "Webhook",
					"webhook": map[string]any{
						"conversionReviewVersions": []any{"v1"},
						"clientConfig":             map[string]any{"url": reach.address + "/convert", "caBundle": reach.authority},
					},
				}
			}
			definitions = append(definitions, object)
		}
	}
	return definitions, nil
}

// readWebhooks reads the webhook configurations below a config folder, which have the same names in all of them.
func readWebhooks(prefix, config string, reach endpoint) ([]*unstructured.Unstructured, error) {
	objects, err := readObjects(filepath.Join(config, "webhook/manifests.yaml"))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetName(prefix + "-" + object.GetName())
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		for _, w := range webhooks {
			path, _, err := unstructured.NestedString(w.(map[string]any), "clientConfig", "service", "path")
			if err != nil {
				return nil, err
			}
			w.(map[string]any)["clientConfig"] = map[string]any{"url": reach.address + path, "caBundle": reach.authority}
		}
		object.Object["webhooks"] = webhooks
	}
	return objects, nil
}

func readObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseObjects(text)
}

// parseObjects reads the documents of a YAML file.
func parseObjects(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func established(ctx context.Context, c client.Client, definition *unstructured.Unstructured) (bool, string) {
	if err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
		return false, err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
			return true, ""
		}
	}
	return false, fmt.Sprint(definition.GetName(), ": ", conditions)
}

// writeCertificate writes a certificate for servers on the loopback interface, signed by itself, and its key into the folder, and
// returns the certificate.
func writeCertificate(dir string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhooks"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificate, errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
}
