package endtoend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// TestPodsGrowAndShrinkByTheVerticalPodAutoscaler follows the guide with the Vertical Pod Autoscaler's own programs: what grows beyond its
// node waits there and nothing is bought, its successor comes larger and gets a machine, what shrinks makes a machine superfluous.
func TestPodsGrowAndShrinkByTheVerticalPodAutoscaler(t *testing.T) {
	w := newWorld(t)
	v := w.startVPA()
	controller := w.start()
	bought := w.openLedger()
	for _, file := range []string{"nodepool", "web"} {
		w.applyFile("../examples/resize/" + file + ".yaml")
	}
	w.running(3, 2*time.Minute)
	first := w.only().Status.NodeName

	v.used.Store(1500)
	w.applyFile("../examples/resize/vpa.yaml")
	var waits *corev1.Pod
	w.until(2*time.Minute, func() (bool, string) {
		grown, says := w.web()
		waits = nil
		for _, pod := range w.pods() {
			if c := kube.ResizePending(&pod); c != nil && c.Reason == corev1.PodReasonDeferred {
				waits = &pod
			}
		}
		return grown == 1 && waits != nil, says + "want one that has grown, and one that waits"
	})
	explained := w.tenon("explain", "pod", waits.Name, "--kubeconfig", w.playground.Kubeconfig())
	w.said(explained, "it runs on node "+first+", and its resize is Deferred", "node "+first+" lacks ")
	if n := len(bought.all(t)); n != 1 {
		t.Errorf("%d machines were bought, and pods that run cannot move", n)
	}

	w.must(w.Delete(w, waits)) // as the Vertical Pod Autoscaler does after five minutes
	w.until(2*time.Minute, func() (bool, string) {
		grown, says := w.web()
		return grown == 3, says + "want three that have grown"
	})
	w.machines(2, time.Minute)
	if n := len(bought.all(t)); n != 2 {
		t.Errorf("%d machines were bought, want one more for the successor", n)
	}

	v.used.Store(100)
	shrank := time.Now()
	w.until(3*time.Minute, func() (bool, string) {
		grown, says := w.web()
		return grown == 0 && len(w.claims()) == 1, fmt.Sprintf("%swant small ones on one machine, and there are %d", says, len(w.claims()))
	})
	w.running(3, time.Minute)
	_, says := w.web()
	t.Logf("%.0f s after pods used less, all were small and the other machine was gone:\n%s", time.Since(shrank).Seconds(), says)

	v.kill()
	w.scale("web", 4)
	w.running(4, time.Minute)
	w.noErrors(controller)
}

// web counts the pods of web that have been given more than their template asks for, and says what each has.
func (w *world) web() (grown int, says string) {
	w.Helper()
	var lines strings.Builder
	for _, pod := range w.pods() {
		asks := pod.Spec.Containers[0].Resources.Requests.Cpu()
		fmt.Fprintf(&lines, "%s on %s asks for %s", pod.Name, pod.Spec.NodeName, asks)
		if s := pod.Status.ContainerStatuses; len(s) > 0 && s[0].Resources != nil {
			has := s[0].Resources.Requests.Cpu()
			fmt.Fprintf(&lines, " and has %s", has)
			if has.MilliValue() > 1000 && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				grown++
			}
		}
		lines.WriteString("\n")
	}
	return grown, lines.String()
}
