package aws_test

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tenon.sh/deploy"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

const (
	// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
	asTenon = "TENON_ENDTOEND_COMMAND"
	// binary names a tenon to run instead.
	binary = "TENON_BINARY"
	// logsIn names a folder that keeps the controllers' logs; without it they go with the test.
	logsIn = "TENON_LOGS"
)

// tenon is a running controller.
type tenon struct {
	*exec.Cmd
	ended chan struct{} // closed when the process has ended
	log   string
}

// start runs a controller until it is stopped or the test ends, and returns when it is ready.
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
	c := exec.Command(cmp.Or(os.Getenv(binary), os.Args[0]), "controller", "--kubeconfig", w.rights(), "--disable-leader-election",
		"--metrics-port", "0", "--health-probe-port", health,
		"--cloud-provider", "aws", "--cluster-name", awstest.Cluster, "--cluster-endpoint", w.playground.RESTConfig().Host,
		// The control plane here is newer than the images that AWS publishes for EKS.
		"--eks-control-plane", "--interruption-queue", awstest.Queue)
	c.Env = append(withoutAWS(os.Environ()), append(w.account.Environment(), asTenon+"=1")...)
	c.Stdout, c.Stderr = file, file
	w.must(c.Start())
	t := &tenon{Cmd: c, ended: make(chan struct{}), log: file.Name()}
	go func() {
		_ = c.Wait()
		close(t.ended)
	}()
	w.Cleanup(func() {
		t.end(syscall.SIGTERM)
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

// withoutAWS leaves out whatever would lead to somebody's real account.
func withoutAWS(environment []string) (out []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "AWS_") {
			out = append(out, variable)
		}
	}
	return out
}

// end sends the signal and waits for the process to end.
func (t *tenon) end(signal syscall.Signal) {
	_ = t.Process.Signal(signal)
	<-t.ended
}

func (t *tenon) tail() string {
	text, _ := os.ReadFile(t.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// classRights is what the controller may do on AWS beside what deploy/rbac says.
const classRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenon-aws}
rules:
- {apiGroups: [karpenter.k8s.aws], resources: [ec2nodeclasses], verbs: [list, watch, patch]}
- {apiGroups: [karpenter.k8s.aws], resources: [ec2nodeclasses/status], verbs: [patch]}
- {apiGroups: [""], resources: [services], resourceNames: [kube-dns], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenon-aws}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenon-aws}
subjects: [{kind: ServiceAccount, name: tenon, namespace: kube-system}]
`

// rights is a kubeconfig with the rights that Tenon has in a real cluster.
func (w *world) rights() string {
	w.Helper()
	manifests, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
	w.must(err)
	w.apply(string(manifests) + "\n---" + classRights)
	path, err := w.playground.UserKubeconfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount, "system:serviceaccounts")
	w.must(err)
	return path
}
