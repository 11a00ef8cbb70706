package simulator

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario"
)

// before lets a world come to rest and hands it out together with the launch that could stand in for its only node.
func before(t *testing.T, more string) (*World, engine.Disruption) {
	t.Helper()
	file, err := scenario.Parse("catalog kwok\ncloud fixed30\npool general budget=100% capacity in (on-demand)\ndeployment web x6 cpu=500m mem=1Gi\npdb web max=2\n" + more)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Seed: 1, For: time.Hour, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, w, 10*time.Minute)
	if len(w.cluster.claims.list) != 1 || len(w.cluster.unbound.list) != 0 {
		t.Fatalf("%d machines and %d waiting pods to begin with", len(w.cluster.claims.list), len(w.cluster.unbound.list))
	}
	claim := w.cluster.claims.list[0]
	s := w.cluster.snapshot(t.Context())
	s.Nodes, s.NodeClaims = nil, nil
	s.Pods = slices.Clone(s.Pods) // the list is the world's
	for i, pod := range s.Pods {
		free := *pod
		free.Spec.NodeName = ""
		free.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		s.Pods[i] = &free
	}
	plan := provisioning.Plan(s, engine.Options{}, nil)
	return w, engine.Disruption{Nodes: []string{claim.Name}, Claims: []string{claim.Name}, Reason: v1.Drifted, Replacements: plan.Launches}
}

// goOn lets time pass.
func goOn(t *testing.T, w *World, d time.Duration) {
	t.Helper()
	end := w.agenda.now.Add(d)
	w.settle(t.Context())
	for next, ok := w.agenda.next(); ok && !next.After(end); next, ok = w.agenda.next() {
		w.agenda.now = next
		w.agenda.take().do()
		w.settle(t.Context())
		if len(w.laws.broken) > 0 {
			t.Fatal(w.laws.broken)
		}
	}
	w.agenda.now = end
}

func TestANodeGoesOnlyOnceItsReplacementIsReady(t *testing.T) {
	t.Parallel()
	w, d := before(t, "")
	old := d.Claims[0]
	w.orders.begin(d)
	claim, _ := w.cluster.claims.get(old)
	if claim.DeletionTimestamp != nil || claim.Annotations[v1.DisruptionAnnotationKey] == "" || !v1.IsTrue(claim, v1.ConditionDisruptionReason) {
		t.Fatalf("at first the claim is only marked: %+v", claim.ObjectMeta)
	}
	if !slices.ContainsFunc(w.cluster.seats[old].node.Spec.Taints, isDisrupted) {
		t.Error("the node still takes pods")
	}
	goOn(t, w, 20*time.Second)
	if claim, _ := w.cluster.claims.get(old); claim.DeletionTimestamp != nil {
		t.Error("the node goes before its replacement is there")
	}
	for range 40 { // all the while at most two of the six may be missing
		goOn(t, w, 5*time.Second)
		if ready := w.cluster.shapes.list[0].ready; ready < 4 {
			t.Fatalf("only %d pods are ready", ready)
		}
	}
	if _, there := w.cluster.claims.get(old); there {
		t.Error("the node never went")
	}
	if len(w.cluster.claims.list) != 1 || w.cluster.claims.list[0].Annotations[v1.ReplacesAnnotationKey] == "" || len(w.cluster.unbound.list) != 0 {
		t.Errorf("%d machines, %d waiting pods", len(w.cluster.claims.list), len(w.cluster.unbound.list))
	}
	if got := w.meter.Evictions["drifted"]; got != 6 {
		t.Errorf("%d evictions, not one for each of the six pods", got)
	}
}

// A broken machine's pods have no more time than was decided, and it waits for what replaces it no longer than that.
func TestABrokenMachineGoesThoughItsReplacementNeverComes(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{0, 5 * time.Minute} {
		w, d := before(t, "fault never-register at=10m count=2\npdb all select=app:web max=0\n")
		d.Reason, d.DrainWithin = v1.Unhealthy, &within
		w.orders.begin(d)
		goOn(t, w, max(within-time.Second, 0))
		if claim, there := w.cluster.claims.get(d.Claims[0]); within > 0 && (!there || claim.DeletionTimestamp != nil) {
			t.Errorf("within %v: the node did not wait", within)
		}
		goOn(t, w, within+2*time.Minute)
		if _, there := w.cluster.claims.get(d.Claims[0]); there {
			t.Errorf("within %v: the node is still there", within)
		}
		goOn(t, w, 30*time.Minute)
		if w.cluster.shapes.list[0].ready != 6 {
			t.Errorf("within %v: %d pods are ready", within, w.cluster.shapes.list[0].ready)
		}
	}
}

func TestANodeStaysIfItsReplacementNeverComes(t *testing.T) {
	t.Parallel()
	w, d := before(t, "fault never-register at=10m count=1")
	w.orders.begin(d)
	goOn(t, w, 30*time.Minute)
	claim, there := w.cluster.claims.get(d.Claims[0])
	if !there || claim.DeletionTimestamp != nil || claim.Annotations[v1.DisruptionAnnotationKey] != "" {
		t.Fatal("the node does not stay as it was")
	}
	if slices.ContainsFunc(w.cluster.seats[claim.Name].node.Spec.Taints, isDisrupted) {
		t.Error("the node takes no pods any more")
	}
	if w.meter.TakenBack != 1 || len(w.cluster.claims.list) != 1 || w.cluster.shapes.list[0].ready != 6 {
		t.Errorf("%d taken back, %d machines, %d pods ready", w.meter.TakenBack, len(w.cluster.claims.list), w.cluster.shapes.list[0].ready)
	}
}

// The scheduler remembers what it knows of pods; it must place them as one does that sees the same for the first time.
func TestTheSchedulerPlacesPodsAsOneWithoutMemory(t *testing.T) {
	t.Parallel()
	w := runningFor(t, 10*time.Minute, `catalog kwok
cloud fixed30
pool general capacity in (on-demand)
deployment a x20 cpu=500m mem=1Gi spread=(zone soft)
deployment b x15 cpu=300m mem=2Gi spread=zone
deployment c x8 cpu=1 mem=1Gi apart=(hostname of=app:b weight=100)
deployment d x5 stateful cpu=1 mem=4Gi apart=hostname
deployment e x9 cpu=200m mem=128Mi together=(zone of=app:d weight=50)
daemonset agent cpu=100m mem=64Mi tolerate=*
`)
	for _, l := range w.workloads.list {
		for range 4 {
			w.workloads.makePod(l, 100+l.made, nil)
		}
		r := w.scheduler.replay(t.Context(), w.cluster.unbound.list)
		want := placements(r.Land())
		for range 2 {
			if got := placements(r.LandAgain(w.passes.cache)); got != want {
				t.Errorf("%s: with memory\n%s\nwithout\n%s", l.key, got, want)
			}
		}
		for _, u := range slices.Clone(w.cluster.unbound.list) {
			w.pods.drop(u)
		}
	}
}

// Pods that are left out of a round find no node in a round of all pods either.
func TestOnlyPodsThatNoNodeTakesAreNotTried(t *testing.T) {
	t.Parallel()
	w := runningFor(t, 10*time.Minute, `catalog kwok
cloud fixed30
pool general capacity in (on-demand)
pool other taint=other:NoSchedule labels=tier:other capacity in (on-demand)
deployment small x12 cpu=300m mem=256Mi
deployment spread x9 cpu=300m mem=256Mi spread=zone
deployment tolerant x4 cpu=300m mem=256Mi tolerate=other
deployment selective x4 cpu=300m mem=256Mi tolerate=other select=tier:other
deployment huge x1 cpu=5000
`)
	for i, u := range slices.Clone(w.cluster.units.list) {
		if i%2 == 0 { // there is room on nodes of both pools
			w.pods.drop(u)
		}
	}
	for _, l := range w.workloads.list {
		for range 30 {
			w.workloads.makePod(l, 100+l.made, nil)
		}
	}
	r, hopeful := w.scheduler.replay(t.Context(), w.cluster.unbound.list), w.scheduler.hopeful()
	landed := r.Land().Placements
	if len(landed) == 0 || len(hopeful) == len(w.cluster.unbound.list) {
		t.Fatalf("of %d pods %d land, %d are tried: that shows nothing", len(w.cluster.unbound.list), len(landed), len(hopeful))
	}
	for _, p := range landed {
		if !slices.ContainsFunc(hopeful, func(u *unit) bool { return u.pod.UID == p.Pod.UID }) {
			t.Errorf("%s is not tried, and fits on %s", p.Pod, p.Node)
		}
	}
}

// runningFor is the world of a scenario after so long.
func runningFor(t *testing.T, d time.Duration, words string) *World {
	t.Helper()
	file, err := scenario.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Seed: 1, For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, w, d)
	return w
}

func placements(l scheduler.Landing) string {
	list := slices.Clone(l.Placements)
	slices.SortFunc(list, func(a, b engine.Placement) int { return cmp.Compare(a.Pod.String(), b.Pod.String()) })
	var lines []string
	for _, p := range list {
		lines = append(lines, p.Pod.String()+" "+p.Node)
	}
	return strings.Join(lines, "\n")
}
