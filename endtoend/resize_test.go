package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/engine/kube"
)

// TestPodsAreResizedInPlace follows the guide: a pod that is to grow and must wait for room keeps that room from others and from
// consolidation, it grows when another shrinks, and room that a pod gives back is used at once.
func TestPodsAreResizedInPlace(t *testing.T) {
	w := newWorld(t)
	w.start()
	for _, file := range []string{"nodepool.yaml", "web.yaml"} {
		w.applyFile("../examples/resize/" + file)
	}
	w.running(3, 2*time.Minute)
	first := w.only().Status.NodeName
	var web []string
	for _, pod := range w.pods() {
		web = append(web, pod.Name)
	}
	slices.Sort(web)
	grows, shrinks, dreams := web[0], web[1], web[2]

	w.resizePod(grows, "2200m")
	w.resizeIs(grows, corev1.PodReasonDeferred, "1")
	explained := w.tenon("explain", "pod", grows, "--kubeconfig", w.playground.Kubeconfig())
	t.Log(explained)
	if !strings.Contains(explained, "its resize to 2200m cpu is Deferred: node "+first+" lacks ") {
		t.Errorf("tenon explain says\n%s", explained)
	}
	// 3 of 4 cores are given: 300m would fit but for what the pod waits for.
	w.deploy("late", 1, "300m", "64Mi")
	w.running(4, time.Minute)
	w.quiet(20*time.Second, time.Minute)
	if n := len(w.claims()); n != 2 {
		t.Fatalf("%d machines, want one more for the pod that would take the room, and no consolidation into it", n)
	}

	w.resizePod(shrinks, "100m")
	w.resizeIs(shrinks, "", "100m")
	w.resizeIs(grows, "", "2200m")
	shrunk := time.Now()
	w.machines(1, time.Minute)
	t.Logf("%.0f s after a pod had shrunk, its room was used and the other machine gone", time.Since(shrunk).Seconds())

	if err := w.tryResize(dreams, "30"); err == nil || !strings.Contains(err.Error(), "allocatable") {
		t.Errorf("a resize to more than the node has: %v, want it refused", err)
	}
	w.deploy("batch", 1, "1", "64Mi")
	w.running(5, time.Minute)
	w.machines(2, time.Minute)
	w.resizePod(grows, "1")
	w.resizeIs(grows, "", "1")
	w.machines(1, time.Minute)
	w.running(5, time.Minute)
	if last := w.only().Status.NodeName; last != first {
		t.Errorf("the pods have moved from %s to %s", first, last)
	}
	for _, pod := range w.pods() {
		if strings.HasPrefix(pod.Name, "web-") && !slices.Contains(web, pod.Name) {
			t.Errorf("pod %s is new: pods were to be resized, not moved", pod.Name)
		}
	}
}

// machines waits until there are n, each with a node.
func (w *world) machines(n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		claims, nodes := len(w.claims()), len(w.nodes())
		return claims == n && nodes == n, fmt.Sprintf("%d claims and %d nodes, want %d\n%s", claims, nodes, n, strings.Join(w.whyKept(), "\n"))
	})
}

func (w *world) resizePod(name, cpu string) {
	w.Helper()
	w.must(w.tryResize(name, cpu))
}

// tryResize asks for other cores for the running pod, as kubectl patch --subresource resize does.
func (w *world) tryResize(name, cpu string) error {
	pod := &corev1.Pod{}
	if err := w.Get(w, client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q}}}]}}`, pod.Spec.Containers[0].Name, cpu)
	return w.SubResource("resize").Patch(w, pod, client.RawPatch("application/strategic-merge-patch+json", patch))
}

// resizeIs waits until the pod has been given so many cores, and waits for more for the reason; empty for none.
func (w *world) resizeIs(name, reason, cpu string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		pod := &corev1.Pod{}
		w.must(w.Get(w, client.ObjectKey{Namespace: "default", Name: name}, pod))
		why := ""
		if c := kube.ResizePending(pod); c != nil {
			why = c.Reason
		}
		resources := pod.Status.ContainerStatuses[0].Resources
		return why == reason && resources != nil && resources.Requests.Cpu().String() == cpu, fmt.Sprintf("%s: %q, %v", name, why, resources)
	})
}
