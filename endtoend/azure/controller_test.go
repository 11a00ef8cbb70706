package azure_test

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tenon.sh/deploy"
	"tenon.sh/playground/playgroundtest"
)

const (
	// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
	asTenon = "TENON_AZURE_COMMAND"
	// binary names a tenon to run instead.
	binary = "TENON_BINARY"
	// logsIn names a folder that keeps the controllers' logs; without it they go with the test.
	logsIn = "TENON_LOGS"
	// cluster is the cluster's name.
	cluster = "demo"
)

// tenon is a running controller.
type tenon struct {
	*exec.Cmd
	ended chan struct{} // closed when the process has ended
	log   string
}

// start runs a controller until the test ends, and returns when it is ready.
func (w *world) start() *tenon {
	w.Helper()
	health := strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	file, err := os.Create(filepath.Join(dir, "tenon-"+health+".log"))
	w.must(err)
	defer file.Close()
	c := exec.Command(cmp.Or(os.Getenv(binary), os.Args[0]), append([]string{"controller", "--cloud-provider", "azure",
		"--kubeconfig", w.rights(), "--disable-leader-election", "--metrics-port", "0", "--health-probe-port", health,
		"--cluster-name", cluster, "--vnet-subnet-id", w.subnet}, w.flags...)...)
	c.Env = slices.Concat(withoutAzure(os.Environ()), w.Environment(), w.variables, []string{asTenon + "=1"})
	c.Stdout, c.Stderr = file, file
	w.must(c.Start())
	t := &tenon{Cmd: c, ended: make(chan struct{}), log: file.Name()}
	go func() {
		_ = c.Wait()
		close(t.ended)
	}()
	w.Cleanup(func() {
		_ = t.Process.Signal(syscall.SIGTERM)
		<-t.ended
		if w.Failed() {
			w.Logf("the end of the controller's log:\n%s", t.tail())
		}
	})
	w.until(time.Minute, func() (string, bool) {
		select {
		case <-t.ended:
			w.Fatalf("the controller ended before it was ready:\n%s", t.tail())
		default:
		}
		response, err := http.Get("http://127.0.0.1:" + health + "/readyz")
		if err != nil {
			return err.Error() + "\n" + t.tail(), false
		}
		defer response.Body.Close()
		return response.Status + "\n" + t.tail(), response.StatusCode == http.StatusOK
	})
	return t
}

// withoutAzure leaves out whatever would lead to somebody's real subscription, through another server, or to another identity.
func withoutAzure(environment []string) (out []string) {
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		name = strings.ToUpper(name)
		if !strings.HasPrefix(name, "AZURE_") && !strings.HasPrefix(name, "ARM_") && !strings.HasPrefix(name, "IDENTITY_") && !strings.HasPrefix(name, "MSI_") && !strings.HasSuffix(name, "_PROXY") {
			out = append(out, variable)
		}
	}
	return out
}

func (t *tenon) tail() string {
	text, _ := os.ReadFile(t.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// azureRights is what the controller may do for Azure beside what deploy/rbac says: what the chart gives it.
const azureRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenon-azure}
rules:
- {apiGroups: [karpenter.azure.com], resources: [aksnodeclasses], verbs: [list, watch, patch]}
- {apiGroups: [karpenter.azure.com], resources: [aksnodeclasses/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenon-azure}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenon-azure}
subjects: [{kind: ServiceAccount, name: tenon, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenon-join-tokens, namespace: kube-system}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list, create, update, delete]}
- {apiGroups: [""], resources: [services], resourceNames: [kube-dns], verbs: [get]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [upcoming-maintenance-window], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenon-join-tokens, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenon-join-tokens}
subjects: [{kind: ServiceAccount, name: tenon, namespace: kube-system}]
`

// rights is a kubeconfig with the rights that Tenon has in a real cluster.
func (w *world) rights() string {
	w.Helper()
	manifests, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
	w.must(err)
	w.apply(string(manifests) + "\n---" + azureRights)
	path, err := w.playground.UserKubeconfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount, "system:serviceaccounts")
	w.must(err)
	return path
}
