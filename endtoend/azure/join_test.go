package azure_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"tenon.sh/provider/azure/azuretest"
)

const (
	// joinEvery is how often the joiner looks at what runs.
	joinEvery = 200 * time.Millisecond
	// kwokKey is what KWOK goes by: it plays the kubelet of Nodes that carry this annotation.
	kwokKey = "kwok.x-k8s.io/node"
)

// told is what a machine makes out of its user data.
type told struct {
	name, endpoint, authority, version string
	token                              string
	labels                             map[string]string
	taints                             []corev1.Taint
	pods                               int64
	text                               string
}

// joiner has machines join the cluster with what they were told: with their token they get a certificate, and with that they make
// their Node. From then on KWOK is their kubelet. When a machine is gone, its Node is ready no more.
type joiner struct {
	*world
	config *rest.Config
	// read reads what a machine was told by its custom data, and says why it cannot join with that.
	read func(m *azuretest.Machine) (told, error)

	mu      sync.Mutex // guards what follows
	joined  map[string]told
	refused map[string]bool // machines that cannot join
}

// join plays the boot of machines until the test ends.
func join(w *world) *joiner {
	j := &joiner{world: w, config: w.playground.RESTConfig(), joined: map[string]told{}, refused: map[string]bool{}}
	j.read = j.readUserData
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := j.look(ctx); err != nil && ctx.Err() == nil {
				w.Logf("machines will try again to join: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(joinEvery):
			}
		}
	}()
	w.Cleanup(func() {
		stop()
		<-ended
	})
	return j
}

// told is what a machine was told that has joined.
func (j *joiner) told(name string) told {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.joined[name]
}

// look boots what has been started since the last look, and ends the kubelets of what has stopped.
func (j *joiner) look(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	runs, errs := map[string]bool{}, []error(nil)
	for _, m := range j.Machines() {
		if m.Power != "running" {
			continue
		}
		runs[m.Name] = true
		if _, known := j.joined[m.Name]; known || j.refused[m.Name] || !m.Runs() {
			continue
		}
		t, err := j.read(&m)
		if err != nil {
			j.refused[m.Name] = true
			j.Errorf("machine %s cannot join: %v", m.Name, err)
			continue
		}
		if err := j.register(ctx, newNode(&m, t), t.token); err != nil {
			errs = append(errs, fmt.Errorf("machine %s joins: %w", m.Name, err))
			continue
		}
		j.joined[m.Name] = t
	}
	for _, name := range slices.Sorted(maps.Keys(j.joined)) {
		if runs[name] {
			continue
		}
		if err := j.silence(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("machine %s has stopped: %w", name, err))
			continue
		}
		delete(j.joined, name)
	}
	return errors.Join(errs...)
}

// register makes a Node with what a token is worth.
func (j *joiner) register(ctx context.Context, node *corev1.Node, token string) error {
	access, err := j.kubelet(ctx, node.Name, token)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// readUserData reads user data as cloud-init does, and what kubeadm is told in it.
func (j *joiner) readUserData(m *azuretest.Machine) (told, error) {
	text, err := base64.StdEncoding.DecodeString(m.CustomData)
	if err != nil {
		return told{}, fmt.Errorf("read its user data: %w", err)
	}
	var config struct {
		Files []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil || !strings.HasPrefix(string(text), "#cloud-config\n") || len(config.Files) != 1 {
		return told{}, fmt.Errorf("its user data is no cloud-config that writes one file: %v:\n%s", err, text)
	}
	var file struct {
		Discovery struct {
			BootstrapToken struct {
				Token, APIServerEndpoint string
				CACertHashes             []string
			}
		}
		NodeRegistration struct {
			Name             string
			Taints           []corev1.Taint
			KubeletExtraArgs []struct{ Name, Value string }
		}
	}
	if err := yaml.UnmarshalStrict([]byte(withoutHeader(config.Files[0].Content)), &file); err != nil {
		return told{}, fmt.Errorf("read what kubeadm is told: %w:\n%s", err, config.Files[0].Content)
	}
	t := told{
		name: file.NodeRegistration.Name, endpoint: file.Discovery.BootstrapToken.APIServerEndpoint, token: file.Discovery.BootstrapToken.Token,
		taints: file.NodeRegistration.Taints, labels: map[string]string{}, text: string(text), authority: strings.Join(file.Discovery.BootstrapToken.CACertHashes, ","),
	}
	for _, arg := range file.NodeRegistration.KubeletExtraArgs {
		switch arg.Name {
		case "node-labels":
			for label := range strings.SplitSeq(arg.Value, ",") {
				key, value, _ := strings.Cut(label, "=")
				t.labels[key] = value
			}
		case "max-pods":
			if t.pods, err = strconv.ParseInt(arg.Value, 10, 64); err != nil {
				return told{}, fmt.Errorf("read max-pods: %w", err)
			}
		}
	}
	return t, j.mayJoin(t)
}

// withoutHeader is a document without what says of which kind it is.
func withoutHeader(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "apiVersion:") || strings.HasPrefix(l, "kind:") }), "")
}

// mayJoin says why a machine would not turn to the cluster, with the checks that kubeadm makes. What its token is worth the API server
// says.
func (j *joiner) mayJoin(t told) error {
	if want := strings.TrimPrefix(j.config.Host, "https://"); t.endpoint != want {
		return fmt.Errorf("it looks for the API server at %q, not at %q", t.endpoint, want)
	}
	block, _ := pem.Decode(j.config.CAData)
	if block == nil {
		return errors.New("the cluster has no certificate authority")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(authority.RawSubjectPublicKeyInfo); t.authority != "sha256:"+hex.EncodeToString(sum[:]) {
		return fmt.Errorf("it trusts another certificate authority, %q", t.authority)
	}
	return nil
}

// silence ends the kubelet of a Node, and says what the control plane would say a while later.
func (j *joiner) silence(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(j.config)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, kwokKey)
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		return gone(err)
	}
	return gone(j.condition(ctx, name, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}))
}

// condition writes a condition of a Node, and leaves the others as they are.
func (j *joiner) condition(ctx context.Context, name string, c corev1.NodeCondition) error {
	client, err := kubernetes.NewForConfig(j.config)
	if err != nil {
		return err
	}
	c.LastTransitionTime, c.LastHeartbeatTime = metav1.Now(), metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status")
	return err
}

// gone forgives that a Node is not there any more.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
