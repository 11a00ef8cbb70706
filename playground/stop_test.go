package playground

import (
	"slices"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Users watch their cluster in other terminals when they press Ctrl-C in this one. An API server that waits for these clients is killed only
// after stopGrace, and until then all wait.
func TestNoComponentWaitsForClientsThatWatch(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	watch, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	<-watch.ResultChan() // the watch has begun
	processes := slices.Clone(p.processes)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, x := range processes {
		if status, ok := x.command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			t.Errorf("%s did not end by itself and had to be killed", x.name)
		}
	}
	if len(processes) != 5 {
		t.Errorf("%d processes", len(processes))
	}
}
