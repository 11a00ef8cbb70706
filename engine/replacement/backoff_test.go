package replacement

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
)

func TestReplacementsThatFailAreTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	claim, now := enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifeStart
	s := &engine.Snapshot{NodeClaims: []*v1.NodeClaim{claim}}
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		text, ok := NextFailure(claim, v1.Drifted, engine.Reason{Code: engine.ReplacementGone, Need: "x"}, now)
		if !ok {
			t.Fatal("not written down")
		}
		claim.Annotations = map[string]string{v1.DisruptionBackoffAnnotationKey: text}
		s.Now = now
		list := Backoffs(s)
		if len(list) != 1 || list[0].NodePool != "general" || list[0].Until.Sub(now) != want*time.Minute {
			t.Fatalf("got %+v, want %d minutes", list, want)
		}
		now = list[0].Until
		s.Now = now
		if len(Backoffs(s)) != 0 {
			t.Error("the backoff does not end")
		}
	}
	text, _ := NextFailure(claim, v1.Drifted, engine.Reason{Code: engine.ReplacementLate}, now.Add(2*time.Hour))
	claim.Annotations[v1.DisruptionBackoffAnnotationKey] = text
	if f, _ := failureOf(claim); f.Count != 1 {
		t.Errorf("a failure long ago still counts: %+v", f)
	}
}

func TestOnlyReplacementsThatFailedMakeAPoolWait(t *testing.T) {
	t.Parallel()
	for _, code := range []engine.Code{engine.DoNotDisrupt, engine.OrderBroken, engine.NodePoolNotFound, ""} {
		if _, ok := NextFailure(enginetest.LifeClaim(), v1.Drifted, engine.Reason{Code: code}, enginetest.LifeStart); ok {
			t.Errorf("%s counts as a failure", code)
		}
	}
	for _, text := range []string{"", "{", `{"count":0}`, `{"count":-3}`, `{"count":"x"}`} {
		claim := enginetest.LifeClaim()
		claim.Annotations = map[string]string{v1.DisruptionBackoffAnnotationKey: text}
		if list := Backoffs(&engine.Snapshot{Now: enginetest.LifeStart, NodeClaims: []*v1.NodeClaim{claim}}); len(list) > 0 {
			t.Errorf("%q: %+v", text, list)
		}
	}
}

func TestADisruptionThatStrandsAPodWaitsAlone(t *testing.T) {
	t.Parallel()
	claim, now := enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifeStart
	write := func(why engine.Code) bool {
		text, ok := NextFailure(claim, v1.Drifted, engine.Reason{Code: why, Key: "default/web"}, now)
		if ok {
			claim.Annotations = map[string]string{v1.DisruptionBackoffAnnotationKey: text}
		}
		return ok
	}
	s := &engine.Snapshot{NodeClaims: []*v1.NodeClaim{claim}}
	m := &inventory.Machine{MachineInfo: &inventory.MachineInfo{Claim: claim}}
	for _, minutes := range []time.Duration{1, 2, 4} {
		if !write(engine.PodStranded) {
			t.Fatal("not written down")
		}
		s.Now = now.Add(minutes*time.Minute - time.Second)
		if list := Backoffs(s); len(list) > 0 {
			t.Errorf("the pool waits: %+v", list)
		}
		if r := TakenBack(m, s.Now); r.Code != engine.TakenBack || r.Have != "pod default/web would have no place to run" {
			t.Errorf("a second before %v minutes are over: %+v", minutes, r)
		}
		now = now.Add(minutes * time.Minute)
		s.Now = now
		if r := TakenBack(m, s.Now); !r.OK() {
			t.Errorf("after %v minutes: %+v", minutes, r)
		}
	}
	if !write(engine.ReplacementLate) || !TakenBack(m, s.Now).OK() {
		t.Error("the claim waits for another reason")
	}
	if list := Backoffs(s); len(list) != 1 || list[0].Count != 1 || list[0].Until.Sub(now) != time.Minute {
		t.Errorf("replacements that are late once make the pool wait like this: %+v", list)
	}
	if write(engine.PodStranded) || len(Backoffs(s)) != 1 {
		t.Error("a pod that is stranded ends the pool's waiting")
	}
}

func TestOrdersHaveTimeByTheNumberOfClaims(t *testing.T) {
	t.Parallel()
	for claims, want := range map[int]time.Duration{
		0: 10 * time.Minute, 100: 10 * time.Minute, 4_000: 10 * time.Minute, 10_000: 13*time.Minute + 20*time.Second,
		40_000: 53*time.Minute + 20*time.Second, 80_000: time.Hour, 100_000: time.Hour,
	} {
		if got := patienceFor(claims); got != want {
			t.Errorf("%d claims: %v, want %v", claims, got, want)
		}
	}
}

// Replacements that are given up use up budgets on which the plan of the same pass relied.
func TestNothingBeginsInAPoolThatGivesUpNodes(t *testing.T) {
	t.Parallel()
	s := &engine.Snapshot{}
	for _, name := range []string{"a-old", "a-ready", "a-empty", "b-starting", "b-empty"} {
		c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.NodePoolLabelKey: name[:1]}}}
		if name != "b-starting" {
			v1.SetCondition(c, v1.ConditionInitialized, metav1.ConditionTrue, "", "", time.Time{})
		}
		s.NodeClaims = append(s.NodeClaims, c)
	}
	wanted := []engine.Disruption{{Claims: []string{"a-empty"}}, {Claims: []string{"b-empty"}}}
	of := func(names ...string) string {
		var left []string
		for _, d := range Beside(s, []Order{{Surrender: names}}, wanted) {
			left = append(left, d.Claims...)
		}
		return strings.Join(left, " ")
	}
	if got := of("a-ready"); got != "b-empty" {
		t.Errorf("beside a-ready, which is given up, %q go", got)
	}
	if got := of("b-starting"); got != "a-empty b-empty" { // it is no node yet
		t.Errorf("beside b-starting, which is given up, %q go", got)
	}
}
