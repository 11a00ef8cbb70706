package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const onePEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestTheManagementClusterIsThisOneUnlessAnotherIsNamed(t *testing.T) {
	own := &rest.Config{Host: "https://own", QPS: 7, Burst: 8}
	file, token := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "token")
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: m\nclusters: [{name: m, cluster: {server: 'https://file'}}]\n" +
		"users: [{name: m, user: {tokenFile: " + token + "}}]\ncontexts: [{name: m, context: {cluster: m, user: m}}]\n"
	for name, content := range map[string]string{file: kubeconfig, token: "abc"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		flags       clusterAPIFlags
		host, token string
	}{
		"joined":     {clusterAPIFlags{}, "https://own", ""},
		"URL":        {clusterAPIFlags{ClusterAPIURL: "https://url", ClusterAPITokenFile: token}, "https://url", token},
		"kubeconfig": {clusterAPIFlags{ClusterAPIURL: "https://url", ClusterAPIKubeconfig: file}, "https://file", token},
	} {
		got, err := c.flags.managementConfig(own)
		if err != nil || got.Host != c.host || got.BearerTokenFile != c.token || got.QPS != 7 || got.Burst != 8 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := (&clusterAPIFlags{ClusterAPIKubeconfig: "/nowhere"}).managementConfig(own); err == nil || !strings.Contains(err.Error(), "--cluster-api-kubeconfig") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestCertificateAuthoritiesAreReadWithAndWithoutBase64(t *testing.T) {
	for name, text := range map[string]string{"plain": onePEM, "base64": base64.StdEncoding.EncodeToString([]byte(onePEM)) + "\n"} {
		if got, err := pemOf(text); err != nil || string(got) != onePEM {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
