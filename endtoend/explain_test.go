package endtoend_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestAPodThatFitsNothingHearsWhichPoolLacksWhat(t *testing.T) {
	w := newWorld(t)
	controller := w.start()
	w.pool("small", nil)
	w.poolReady("small")
	w.deploy("whale", 1, "100", "1Gi")
	const nearestMiss = "pool small: needs 100 cpu, the largest type, "
	var told, pod string
	w.until(time.Minute, func() (bool, string) {
		var events corev1.EventList
		w.must(w.List(w, &events))
		for _, e := range events.Items {
			if e.Reason == "FailedScheduling" && e.Source.Component == "karpenter" && strings.HasPrefix(e.InvolvedObject.Name, "whale-") {
				told, pod = e.Message, e.InvolvedObject.Name
			}
		}
		return told != "", "there is no event that says why the pod waits"
	})
	if !strings.Contains(told, nearestMiss) {
		t.Errorf("the event says %q, want %q in it", told, nearestMiss)
	}
	explained := w.tenon("explain", "pod", pod, "--kubeconfig", w.playground.Kubeconfig(), "--catalog-url", strings.Replace(controller.metrics, "http:", "https:", 1)+"/snapshot/catalog")
	if !strings.Contains(explained, nearestMiss) {
		t.Errorf("tenon explain says\n%s\nwant %q in it", explained, nearestMiss)
	}
	if n := len(w.claims()); n != 0 {
		t.Errorf("%d machines were asked for", n)
	}
}

// tenon runs a command to its end and returns what it printed, whatever its exit status.
func (w *world) tenon(args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], args...)
	command.Env = append(os.Environ(), asTenon+"=1")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil && command.ProcessState == nil {
		w.Fatal(err)
	}
	return out.String()
}
