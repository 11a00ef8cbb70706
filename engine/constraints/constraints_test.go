package constraints_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario/scenariotest"
)

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// readerOf returns a reader of the snapshot's pods.
func readerOf(s *engine.Snapshot, opt engine.Options) *constraints.Reader {
	return constraints.NewReader(s, opt, (*inventory.Cache)(nil).Take(s, 1), nil)
}

// written returns the constraints of the pod as text: rules, then preferences in the order in which they are dropped, then the objection.
func written(c *constraints.PodConstraints) string {
	var out []string
	for _, term := range c.Terms {
		if text := kube.TermText(term); text != "" {
			out = append(out, text)
		}
	}
	for _, s := range c.Spreads {
		out = append(out, fmt.Sprintf("spread %s %d", s.Key, s.MaxSkew))
	}
	for _, a := range c.Affinity {
		out = append(out, "near "+a.Key)
	}
	for _, a := range c.Anti {
		out = append(out, "apart "+a.Key)
	}
	for _, p := range c.Soft {
		switch {
		case p.Near != nil:
			out = append(out, fmt.Sprintf("~near %s %d", p.Near.Key, p.Weight))
		case p.Apart != nil:
			out = append(out, fmt.Sprintf("~apart %s %d", p.Apart.Key, p.Weight))
		case p.Spread != nil:
			out = append(out, "~spread "+p.Spread.Key)
		case p.Node != nil:
			out = append(out, fmt.Sprintf("~%s %d", kube.TermText(p.Node), p.Weight))
		case p.Tolerate:
			out = append(out, "~tolerate")
		}
	}
	if !c.Objection.OK() {
		out = append(out, string(c.Objection.Code))
	}
	return strings.NewReplacer("topology.kubernetes.io/", "", "kubernetes.io/", "").Replace(strings.Join(out, "; "))
}

func TestWhatPodsAskForBesideResources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		lines      []string
		opt        engine.Options
	}{
		{name: "nothing", lines: []string{"pod p cpu=1"}},
		{name: "a place", lines: []string{"pod p cpu=1 zone in (a,b)"}, want: "zone In (a, b)"},
		{name: "rules between pods", lines: []string{"pod p cpu=1 apart=hostname spread=zone"}, want: "spread zone 1; apart hostname"},
		{name: "preferences of nodes, the heaviest first", lines: []string{"pod p cpu=1 prefer=(zone in (a) weight=10) prefer=(arch in (arm64) weight=90)"}, want: "~arch In (arm64) 90; ~zone In (a) 10"},
		{name: "preferences that nobody is to look at", lines: []string{"pod p cpu=1 prefer=(zone in (a) weight=10)"}, opt: engine.Options{Preferences: engine.Ignore}},
		{name: "pools that should rather be avoided", lines: []string{"pool avoided taint=x:PreferNoSchedule", "pod p cpu=1 prefer=(zone in (a) weight=10)"}, want: "~zone In (a) 10; ~tolerate"},
	} {
		s := scenariotest.Cluster(t, append([]string{"pool general", "type two cpu=2 mem=4Gi zones=a,b price=0.1"}, c.lines...)...)
		if got := written(readerOf(s, c.opt).Of(s.Pods[0])); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Preferences are dropped in one order: affinity to pods, anti-affinity to pods, nodes, each the heaviest first, then soft spreads.
func TestPreferencesHaveOneOrder(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.1", "pod p cpu=1 prefer=(zone in (a) weight=100)")
	pod := s.Pods[0]
	pod.Labels = map[string]string{"app": "p"}
	term := func(weight int32, key string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "p")}}
	}
	pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term(1, corev1.LabelHostname), term(2, corev1.LabelTopologyZone)}}
	pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term(7, corev1.LabelHostname)}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector("app", "p")}}
	want := "~near zone 2; ~near hostname 1; ~apart hostname 7; ~zone In (a) 100; ~spread zone"
	if got := written(readerOf(s, engine.Options{}).Of(pod)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Pods with the same constraints share one PodConstraints, so planning sees one kind.
func TestPodsThatAskForTheSameShareTheirConstraints(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.1", "pods web x2 cpu=1 spread=zone", "pod other cpu=1 zone in (a)", "pod large cpu=2 zone in (a)")
	r := readerOf(s, engine.Options{})
	a, b, other, large := r.Of(s.Pods[0]), r.Of(s.Pods[1]), r.Of(s.Pods[2]), r.Of(s.Pods[3])
	if a != b || a == other || other != large {
		t.Errorf("web-1, web-2, other and large are %d, %d, %d and %d", a.ID, b.ID, other.ID, large.ID)
	}
}

// After the first failure, another type may be tried at once. From the second failure on, no machine is started for the previous wait, and
// each wait is twice as long, up to an hour. For a driver that publishes nothing, the first wait is half an hour.
func TestHowLongFailuresLast(t *testing.T) {
	t.Parallel()
	last := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		shape         string
		count         int
		until, closed time.Duration
	}{
		{"s", 1, time.Minute, 0}, {"s", 2, 2 * time.Minute, time.Minute}, {"s", 3, 4 * time.Minute, 2 * time.Minute},
		{"s", 6, 32 * time.Minute, 16 * time.Minute}, {"s", 7, time.Hour, 32 * time.Minute}, {"s", 1000, time.Hour, time.Hour},
		{constraints.DriverShape("gpu"), 1, inventory.ResourceTimeout, 0}, {constraints.DriverShape("gpu"), 2, 2 * inventory.ResourceTimeout, inventory.ResourceTimeout},
		{constraints.DriverShape("gpu"), 1000, 8 * time.Hour, 8 * time.Hour},
	} {
		f := constraints.LaunchFailure{Shape: c.shape, Count: c.count, Last: last}
		closed := time.Duration(0)
		if !f.Closed().IsZero() {
			closed = f.Closed().Sub(last)
		}
		if until := f.Until().Sub(last); until != c.until || closed != c.closed {
			t.Errorf("%s, %d in a row: until %v, closed %v; want %v and %v", c.shape, c.count, until, closed, c.until, c.closed)
		}
	}
}

// A NodePool's record counts for a day, for machines of its template, and only if it can be read. A clock may be wrong by an hour.
func TestWhatAPoolRemembersHasAnEnd(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.1")
	pool := s.NodePools[0]
	begin := s.Now
	text := (&constraints.LaunchBackoff{Failures: []constraints.LaunchFailure{{Shape: "s", InstanceTypes: []string{"two"}, Count: 3, Last: begin}}}).Text(s, pool)
	for _, c := range []struct {
		later time.Duration
		text  string
		want  int
	}{{0, text, 1}, {24*time.Hour - time.Second, text, 1}, {24 * time.Hour, text, 0}, {-time.Hour, text, 1}, {-2 * time.Hour, text, 0}, {0, "{", 0}, {0, "", 0},
		{0, strings.Replace(text, `"for":"`, `"for":"other`, 1), 0}} {
		s.Now, pool.Annotations = begin.Add(c.later), map[string]string{v1.LaunchBackoffAnnotationKey: c.text}
		if got := constraints.LaunchFailures(s, pool); len(got) != c.want {
			t.Errorf("%v later, %.40q: %+v, want %d", c.later, c.text, got, c.want)
		}
	}
}
