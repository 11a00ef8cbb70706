package playground_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server of this machine answers for an API group, like adapters of metrics, and trusts the API server's user names.
func TestAProcessOfThisMachineServesAnAPIGroup(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	trusted, err := c.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	c.must(err)
	proxies := x509.NewCertPool()
	if !proxies.AppendCertsFromPEM([]byte(trusted.Data["requestheader-client-ca-file"])) {
		t.Fatalf("nothing says which certificate the API server has for servers behind it: %v", trusted.Data)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Answer", "apiVersion": "aggregated.test/v1", "user": r.Header.Get("X-Remote-User")})
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: proxies}
	server.StartTLS()
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port

	_, err = c.client.CoreV1().Services(c.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "aggregated"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	c.must(err)
	service := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.aggregated.test"},"spec":{"group":"aggregated.test",
		"version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":%q,"name":"aggregated","port":%d}}}`, c.namespace, port)
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	c.must(c.client.RESTClient().Post().AbsPath(services).Body([]byte(service)).Do(t.Context()).Error())
	t.Cleanup(func() {
		c.must(c.client.RESTClient().Delete().AbsPath(services, "v1.aggregated.test").Do(context.Background()).Error())
	})

	eventually(t, patience, func() error {
		text, err := c.client.RESTClient().Get().AbsPath("/apis/aggregated.test/v1/answers").DoRaw(t.Context())
		if err != nil {
			return err
		}
		var answer struct{ User string }
		if err := json.Unmarshal(text, &answer); err != nil || answer.User != "playground-admin" {
			return errors.Join(err, fmt.Errorf("the server was told that this asks: %s", text))
		}
		return nil
	})
}
