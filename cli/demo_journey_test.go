package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// trip drives a journey. Each sighting is one second after the one before.
type trip struct {
	*journey
	now time.Time
}

func newTrip(replicas int) *trip {
	return &trip{newJourney(replicas, 30*time.Second, 0), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (r *trip) pod(i int, phase corev1.PodPhase, node string, deleted bool) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("inflate-%d", i), UID: types.UID(fmt.Sprint(i))}}
	pod.Status.Phase, pod.Spec.NodeName = phase, node
	r.now = r.now.Add(time.Second)
	r.see(pod, deleted, r.now)
}

// claim shows a claim for the pods in its name after the dash: "default-12" for 1 and 2.
func (r *trip) claim(name string, deleted bool, conditions ...string) {
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		kube.PlannedPodsAnnotation: strings.Join(strings.Split(strings.TrimPrefix(name, "default-"), ""), ","),
	}}}
	for _, c := range conditions {
		v1.SetCondition(claim, c, metav1.ConditionTrue, "", "", r.now)
	}
	r.now = r.now.Add(time.Second)
	r.see(claim, deleted, r.now)
}

func (r *trip) node(name string, deleted bool) {
	r.now = r.now.Add(time.Second)
	r.see(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, deleted, r.now)
}

func (r *trip) stagesReached() string {
	var names []string
	for s := range stage(stages) {
		if !r.reached[s].IsZero() {
			names = append(names, stageNames[s])
		}
	}
	return strings.Join(names, ", ")
}

func (r *trip) want(t *testing.T, names ...string) {
	t.Helper()
	if got := r.stagesReached(); got != strings.Join(names, ", ") {
		t.Errorf("stages reached: %s\nwant: %s", got, strings.Join(names, ", "))
	}
}

func TestDemoNotesEachStageOfTheRoundTrip(t *testing.T) {
	t.Parallel()
	r := newTrip(2)
	r.pod(1, corev1.PodPending, "", false)
	r.want(t)
	r.pod(2, corev1.PodPending, "", false)
	r.claim("default-12", false)
	r.claim("default-12", false, v1.ConditionLaunched)
	r.node("default-12", false)
	r.claim("default-12", false, v1.ConditionLaunched, v1.ConditionRegistered)
	r.claim("default-12", false, v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized)
	r.pod(1, corev1.PodRunning, "default-12", false)
	r.want(t, "pods pending", "NodeClaim", "launched", "registered", "initialised")
	r.pod(2, corev1.PodRunning, "default-12", false)
	r.want(t, "pods pending", "NodeClaim", "launched", "registered", "initialised", "pods running")

	r.scaled(r.now)
	r.pod(1, corev1.PodRunning, "default-12", true)
	r.pod(2, corev1.PodRunning, "default-12", true)
	r.claim("default-12", false, v1.ConditionDisruptionReason)
	r.claim("default-12", true, v1.ConditionDisruptionReason, v1.ConditionDrained)
	r.want(t, "pods pending", "NodeClaim", "launched", "registered", "initialised", "pods running",
		"scaled to 0", "node empty", "disrupted", "drained")
	r.node("default-12", true)
	if r.reached[gone] != r.now {
		t.Errorf("gone at %v, want %v, when the node went after its claim", r.reached[gone], r.now)
	}
}

func TestDemoWaitsForEveryMachine(t *testing.T) {
	t.Parallel()
	r := newTrip(2)
	r.pod(1, corev1.PodPending, "", false)
	r.pod(2, corev1.PodPending, "", false)
	r.claim("default-1", false, v1.ConditionLaunched)
	r.want(t, "pods pending")
	r.claim("default-2", false)
	r.want(t, "pods pending", "NodeClaim")
	r.claim("default-2", false, v1.ConditionLaunched)
	r.want(t, "pods pending", "NodeClaim", "launched")
}

func TestDemoSaysWhatItSawLast(t *testing.T) {
	t.Parallel()
	r := newTrip(1)
	r.pod(1, corev1.PodPending, "", false)
	r.claim("default-a", false, v1.ConditionLaunched)
	r.node("default-a", true)
	got := strings.Join(r.lastSeen(), "\n")
	for _, want := range []string{"pod inflate-1: Pending", "NodeClaim default-a: ", "Launched=True", "node default-a: gone"} {
		if !strings.Contains(got, want) {
			t.Errorf("last seen:\n%s\nlacks %q", got, want)
		}
	}
}

func TestDemoAllowsForKnownWaits(t *testing.T) {
	t.Parallel()
	j := newJourney(5, 30*time.Second, 20*time.Second)
	if got, want := j.limit(disrupted), stageLimit+30*time.Second; got != want {
		t.Errorf("limit of %s is %s, want %s", stageNames[disrupted], got, want)
	}
	if got, want := j.limit(registered), stageLimit+20*time.Second; got != want {
		t.Errorf("limit of %s is %s, want %s", stageNames[registered], got, want)
	}
	if got := j.limit(launched); got != stageLimit {
		t.Errorf("limit of %s is %s, want %s", stageNames[launched], got, stageLimit)
	}
}
