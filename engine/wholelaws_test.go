package engine_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

func TestEveryPlacementFits(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for _, fault := range faults(s, plan) {
			t.Errorf("seed %d: %s", seed, fault)
		}
	})
}

func TestEveryPendingPodIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		answers := map[engine.PodID]int{}
		for _, l := range plan.Launches {
			for _, p := range l.Pods {
				answers[p]++
			}
		}
		for _, p := range plan.Placements {
			answers[p.Pod]++
		}
		for _, u := range plan.Unplaced {
			answers[u.Pod]++
			if len(u.Reasons) == 0 {
				t.Errorf("seed %d: %s is refused without a reason", seed, u.Pod)
			}
		}
		for _, p := range s.Pods {
			id := engine.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
			if n := answers[id]; kube.IsPending(p) && n != 1 || n > 1 {
				t.Errorf("seed %d: %s is in the plan %d times", seed, id, n)
			}
		}
	})
}

func TestPlanningAgainAfterApplyingGivesNothing(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		again := provisioning.Plan(scenario.CarryOut(s, plan), engine.Options{}, nil)
		if len(again.Launches)+len(again.Placements) > 0 {
			t.Errorf("seed %d: after\n%swas carried out, the engine wants\n%s", seed, scenario.Print(plan), scenario.Print(again))
		}
	})
}

func TestPlanningAgainWhileMachinesStartLaunchesNothing(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		// kube-scheduler binds pods that fit existing nodes at once. The machines start later.
		bound := scenario.CarryOut(s, &engine.Plan{Placements: plan.Placements})
		again := provisioning.Plan(scenario.WriteDown(bound, plan), engine.Options{}, nil)
		// Pods that kube-scheduler has not tried are planned for after other pods have taken the room that was left for them.
		untried := map[engine.PodID]bool{}
		for _, p := range s.Pods {
			untried[scenariotest.ID(p)] = kube.IsUntried(p)
		}
		again.Launches = slices.DeleteFunc(again.Launches, func(l engine.Launch) bool {
			return !slices.ContainsFunc(l.Pods, func(id engine.PodID) bool { return !untried[id] })
		})
		if len(again.Launches) > 0 {
			t.Errorf("seed %d: after\n%swas written down, the engine wants\n%s", seed, scenario.Print(plan), scenario.Print(again))
		}
	})
}

func TestInputOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	check := func(name any, s *engine.Snapshot) {
		want := scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil))
		wantDisrupt := scenariotest.Text(t, disruption.Plan(s, engine.Options{}, nil))
		for seed := range uint64(4) {
			other := scenariotest.Shuffle(s, seed)
			if got := scenariotest.Text(t, provisioning.Plan(other, engine.Options{}, nil)); got != want {
				t.Fatalf("%v: another plan with order %d:\n%s", name, seed, scenariotest.FirstDifference(got, want))
			}
			if got := scenariotest.Text(t, disruption.Plan(other, engine.Options{}, nil)); got != wantDisrupt {
				t.Fatalf("%v: another disruption with order %d:\n%s", name, seed, scenariotest.FirstDifference(got, wantDisrupt))
			}
		}
	}
	for _, file := range scenariotest.Drawn(t, ".") {
		check(file, scenariotest.Load(t, file).Snapshot)
	}
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) { check(seed, s) })
}

func TestASnapshotFileGivesTheSamePlan(t *testing.T) {
	t.Parallel()
	check := func(name any, s *engine.Snapshot) {
		var file bytes.Buffer
		if err := scenario.Write(&file, s, engine.Options{}); err != nil {
			t.Fatal(err)
		}
		documents, err := scenario.Documents(scenario.Source{Name: "snapshot.yaml", Data: file.Bytes()})
		if err != nil {
			t.Fatalf("%v: %v", name, err)
		}
		r, err := scenario.Read(scenario.Input{Documents: documents})
		if err != nil {
			t.Fatalf("%v: %v", name, err)
		}
		if want, got := scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil)), scenariotest.Text(t, provisioning.Plan(r.Snapshot, r.Options, nil)); got != want {
			t.Errorf("%v: the file gives\n%s\nnot\n%s", name, got, want)
		}
		if want, got := scenariotest.Text(t, disruption.Plan(s, engine.Options{}, nil)), scenariotest.Text(t, disruption.Plan(r.Snapshot, r.Options, nil)); got != want {
			t.Errorf("%v: the file gives\n%s\nnot\n%s", name, got, want)
		}
	}
	for _, file := range scenariotest.Drawn(t, ".") {
		check(file, scenariotest.Load(t, file).Snapshot)
	}
	for seed := range enginetest.Draws(20) {
		check(seed, scenario.Random(seed, scenario.Size{}))
	}
}

// A power of two changes no digit of a price, so the plan must be exactly the same.
func TestScalingAllPricesChangesOnlyPrices(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		want := provisioning.Plan(s, engine.Options{}, nil)
		got := provisioning.Plan(scaled(s, 8), engine.Options{}, nil)
		scalePlan(want, 8)
		if scenariotest.Text(t, got) != scenariotest.Text(t, want) {
			t.Errorf("seed %d: eight times the prices give\n%snot\n%s", seed, scenario.Print(got), scenario.Print(want))
		}
	})
}

func TestPodsOfAPlanPassTheCheckOfTheSameSnapshot(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for _, l := range plan.Launches {
			if r := disruption.Check(l, s); !r.OK() {
				t.Errorf("seed %d: launch %s: %s", seed, l.Name, r)
			}
		}
		for _, p := range plan.Placements {
			if r := disruption.Check(p, s); !r.OK() {
				t.Errorf("seed %d: placement of %s on %s: %s", seed, p.Pod, p.Node, r)
			}
		}
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			if r := disruption.Check(d, s); !r.OK() {
				t.Errorf("seed %d: disruption of %v: %s", seed, d.Nodes, r)
			}
		}
	})
}

func scaled(s *engine.Snapshot, factor float64) *engine.Snapshot {
	out := *s
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
			for k := range types[j].Offerings {
				types[j].Offerings[k].Price *= factor
			}
		}
		out.Classes[i].InstanceTypes = types
	}
	return &out
}

func scalePlan(p *engine.Plan, factor float64) {
	p.Cost.LaunchesPerHour *= factor
	p.Cost.Bound *= factor
	p.Cost.Worst *= factor
	for i := range p.Cost.Prices {
		p.Cost.Prices[i].PerHour *= factor
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		l.Price *= factor
		l.Why.PriceDifference *= factor
		for j := range l.Offerings {
			l.Offerings[j].Price *= factor
		}
	}
}

// If no pod waits, there is nothing to solve. The reports about the pools are the same.
func TestAtRestPoolsAreToldOfAsEver(t *testing.T) {
	t.Parallel()
	notes := 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		resting := *s
		resting.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
		for _, pool := range []*v1.NodePool{nil, impossible()} {
			if pool != nil {
				pool.Spec.Template.Spec.NodeClassRef = s.NodePools[0].Spec.Template.Spec.NodeClassRef
				resting.NodePools = append(slices.Clone(s.NodePools), pool)
			}
			busy := resting
			busy.Pods = append(slices.Clone(resting.Pods), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "waits", Namespace: "default", UID: "waits"},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
			})
			got, want := provisioning.Plan(&resting, engine.Options{}, nil).Notes, provisioning.Plan(&busy, engine.Options{}, nil).Notes
			if !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: %+v, with a pod that waits %+v", seed, got, want)
			}
			notes += len(got)
		}
	})
	if notes == 0 {
		t.Error("no pool has anything to be told")
	}
}

// impossible is a pool whose requirements no type meets.
func impossible() *v1.NodePool {
	pool := &v1.NodePool{}
	pool.Name, pool.UID = "impossible", "impossible"
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"no-such-type"}}}
	return pool
}
