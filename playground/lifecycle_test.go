package playground_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

// small is enough for tests of processes only.
var small = []string{playground.APIServer}

func TestTwoPlaygroundsRunSideBySide(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	second := start(t, playground.Config{Components: small})
	client := kubernetes.NewForConfigOrDie(second.RESTConfig())
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range list.Items {
		if namespace.Name == c.namespace {
			t.Errorf("namespace %s of one playground is in the other", c.namespace)
		}
	}
	// The certificates of one are invalid at the other.
	stranger := playgroundtest.Get(t).RESTConfig()
	stranger.Host = second.RESTConfig().Host
	if _, err := kubernetes.NewForConfigOrDie(stranger).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("one playground's administrator gets into the other")
	}
}

func TestStopLeavesNoProcessPortOrFolder(t *testing.T) {
	t.Parallel()
	var steps []string
	p := start(t, playground.Config{Progress: func(line string) { steps = append(steps, line) }})
	processes, host := pids(p), p.RESTConfig().Host
	if len(processes) != 5 {
		t.Errorf("processes %v, want five", processes)
	}
	for name, pid := range processes {
		if group, err := syscall.Getpgid(pid); err != nil || group == syscall.Getpgrp() {
			t.Errorf("%s gets the Ctrl-C that is meant for us (%v)", name, err)
		}
	}
	if text := strings.Join(steps, "\n"); !strings.Contains(text, "kube-apiserver is ready") {
		t.Errorf("progress says nothing of the API server: %s", text)
	}

	for range 2 {
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		for name, pid := range processes {
			if alive(pid) {
				t.Errorf("%s (process %d) is still there", name, pid)
			}
		}
	}
	if err := portClosed(host); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary folder %s is still there (%v)", p.Dir(), err)
	}
	if err, open := <-p.Done(); open {
		t.Errorf("an ordered end is reported as an accident: %v", err)
	}
}

func TestAKilledParentLeavesNoProcessAndAFolderToContinueIn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "playground")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(output).ReadBytes('\n')
	var report parentReport
	decodeErr := json.Unmarshal(line, &report)
	if decodeErr == nil {
		createNamespace(t, filepath.Join(dir, "kubeconfig"), "kept")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait()
	if decodeErr != nil {
		t.Fatalf("the parent did not report: %q: %v", line, decodeErr)
	}

	for name, pid := range report.PIDs {
		eventually(t, patience, func() error {
			if alive(pid) {
				return fmt.Errorf("%s (process %d) is still there", name, pid)
			}
			return nil
		})
	}
	eventually(t, patience, func() error { return portClosed(report.Host) })
	again := start(t, playground.Config{Dir: dir, Components: small})
	if _, err := kubernetes.NewForConfigOrDie(again.RESTConfig()).CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("what the killed playground held is lost: %v", err)
	}
}

func TestAStoppedPlaygroundContinuesWithItsNodesAndPods(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "playground")
	first := start(t, playground.Config{Dir: dir})
	c := newClusterOn(t, first)
	c.register(c.node("n", "4", "8Gi", "20").Name)
	c.pod("before")
	c.running("before")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := start(t, playground.Config{Dir: dir})
	c.client = kubernetes.NewForConfigOrDie(second.RESTConfig())
	c.running("before")
	c.pod("after")
	c.running("after")
}

func TestAComponentThatEndsByItselfIsReported(t *testing.T) {
	t.Parallel()
	p := start(t, playground.Config{Components: []string{playground.APIServer, playground.Scheduler}})
	if err := syscall.Kill(p.PID(playground.Scheduler), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-p.Done()
	if err == nil || !strings.HasPrefix(err.Error(), "kube-scheduler ended by itself (signal: killed); the end of its log ") {
		t.Errorf("the report is %v", err)
	}
}

func TestWithoutControllerManagerPodsCanStillBeCreated(t *testing.T) {
	t.Parallel()
	p := start(t, playground.Config{Components: small})
	_, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config playground.Config
		want   []string
	}{
		"missing binary":        {playground.Config{Binary: filepath.Join(dir, "none")}, []string{filepath.Join(dir, "none"), "make controlplane"}},
		"not executable":        {playground.Config{Binary: file}, []string{file, "make controlplane"}},
		"folder in use":         {playground.Config{Dir: playgroundtest.Get(t).Dir()}, []string{"in use", playgroundtest.Get(t).Dir(), fmt.Sprint(os.Getpid())}},
		"folder of others":      {playground.Config{Dir: dir}, []string{dir, "other files"}},
		"a file as folder":      {playground.Config{Dir: file}, []string{file}},
		"folder below a file":   {playground.Config{Dir: filepath.Join(file, "x")}, []string{file}},
		"unknown component":     {playground.Config{Components: []string{"kubelet"}}, []string{`"kubelet"`, "kwok"}},
		"binary is no such one": {playground.Config{Binary: "/bin/false"}, []string{"etcd ended by itself (exit status 1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := playground.Start(t.Context(), test.config)
			if err == nil {
				t.Fatal("it started", p.Stop())
			}
			for _, want := range append(test.want, "start playground") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %s: %v", want, err)
				}
			}
		})
	}
}

func TestAMissingBinaryIsFoundNowhereElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	t.Setenv("TENON_CONTROLPLANE", path)
	_, err := playground.FindBinary()
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("the error is %v", err)
	}
	t.Setenv("TENON_CONTROLPLANE", "")
	t.Chdir(t.TempDir())
	if path, err := playground.FindBinary(); err == nil {
		t.Errorf("found %s outside of the source tree", path)
	} else if !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("the error is %v", err)
	}
}

func createNamespace(t *testing.T, kubeconfig, name string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(loadKubeconfig(t, kubeconfig))
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
}

// alive reports whether a process runs. A process that has ended and still waits for its parent counts as ended.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func portClosed(host string) error {
	connection, err := net.Dial("tcp", strings.TrimPrefix(host, "https://"))
	if err == nil {
		connection.Close()
		return fmt.Errorf("somebody still listens on %s", host)
	}
	return nil
}
