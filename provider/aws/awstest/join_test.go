package awstest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// A machine runs a moment before its fleet's front has recorded its launch. The joiner may look in between.
func TestAMachineJoinsThoughItsFleetHasNotAnsweredWhenTheJoinerLooksFirst(t *testing.T) {
	t.Parallel()
	var joined []string
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var node corev1.Node
		if err := json.NewDecoder(r.Body).Decode(&node); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		joined = append(joined, node.Spec.ProviderID)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(node)
	}))
	defer api.Close()
	a := New(t)
	early, other := a.StartMachine(nil), a.StartMachine(nil)
	config := rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	j := &joiner{account: a, quiet: a.Observer(), nodes: &config, joined: map[string]string{}, refused: map[string]bool{}}
	look := func() []string {
		if err := j.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		return joined
	}
	if joined := look(); len(joined) > 0 {
		t.Fatalf("%v have joined that nobody has told how", joined)
	}
	authorities := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	text := fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: demo, apiServerEndpoint: %q, certificateAuthority: %s, cidr: 10.100.0.0/16}
  kubelet: {config: {maxPods: 29}}
--//--
`, api.URL, base64.StdEncoding.EncodeToString(authorities))
	a.mu.Lock()
	a.remember(early, extra{launchTemplate: launchTemplate{userData: base64.StdEncoding.EncodeToString([]byte(text))}})
	a.mu.Unlock()
	for range 2 {
		if joined := look(); len(joined) != 1 || !slices.Contains([]string{"aws:///us-west-2a/" + early, "aws:///us-west-2b/" + early, "aws:///us-west-2c/" + early}, joined[0]) {
			t.Errorf("%v have joined: want %s, and not %s, which is of no fleet", joined, early, other)
		}
	}
}
