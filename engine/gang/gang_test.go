package gang_test

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// inGangs is the snapshot with its pods in gangs: every pod of a namespace in one of so many, by turns, of which all have to start.
func inGangs(s *engine.Snapshot, gangs int) *engine.Snapshot {
	out := *s
	out.Pods, out.PodGroups = nil, nil
	count := map[string]int32{}
	groups := map[string]*schedulingv1alpha3.PodGroup{}
	for i, pod := range s.Pods {
		if kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) || !kube.IsActive(pod) || len(pod.Spec.SchedulingGates) > 0 {
			out.Pods = append(out.Pods, pod)
			continue
		}
		name := fmt.Sprintf("law-%d", i%gangs)
		pod = pod.DeepCopy()
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		out.Pods = append(out.Pods, pod)
		key := pod.Namespace + "/" + name
		if count[key]++; groups[key] == nil {
			groups[key] = &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name}}
			out.PodGroups = append(out.PodGroups, groups[key])
		}
		groups[key].Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.GangSchedulingPolicy{MinCount: count[key]}
	}
	return &out
}

// TestGangsSayHowFarTheyHaveCome makes gangs of the pods of every scenario: what plans say of them agrees with what they do.
func TestGangsSayHowFarTheyHaveCome(t *testing.T) {
	t.Parallel()
	met := map[engine.GangProgress]int{}
	for _, path := range scenariotest.Files(t, "..") {
		f := scenariotest.Load(t, path)
		for _, s := range []*engine.Snapshot{f.Snapshot, inGangs(f.Snapshot, 1), inGangs(f.Snapshot, 3)} {
			gangs := gang.Read(s)
			if gangs == nil {
				continue
			}
			plan := provisioning.Plan(s, f.Options, nil)
			if len(plan.Gangs) != len(gangs.List) {
				t.Fatalf("%s: %d of %d gangs", path, len(plan.Gangs), len(gangs.List))
			}
			for i, g := range plan.Gangs {
				met[g.Progress]++
				if of := gangs.List[i]; g.Namespace+"/"+g.Name != of.Name() || g.Running+g.Existing+g.Coming+g.Left != of.Exist() || g.Left < 0 {
					t.Errorf("%s: %+v of %d pods", path, g, of.Exist())
				}
				found := g.Running + g.Existing + g.Coming
				starts := g.Progress == engine.GangStarts || g.Progress == engine.GangStarted
				if starts != (found >= g.MinCount) || !starts && found > g.Running {
					t.Errorf("%s: %+v", path, g)
				}
				if why := g.Progress == engine.GangWaits || g.Progress == engine.GangTooFew; why != (len(g.Reasons) > 0) && !starts || why != (g.Advice() != "") {
					t.Errorf("%s: %+v: %q", path, g, g.Advice())
				}
			}
		}
	}
	if met[engine.GangWaits] == 0 || met[engine.GangStarts] == 0 || met[engine.GangTooFew] == 0 || met[engine.GangStarted] == 0 || met[engine.GangUntried] == 0 {
		t.Error(met)
	}
}

// TestGangsStartWholeOrNotAtAll makes gangs of the pods of every scenario: in a plan as many of one as have to have a place, or none.
func TestGangsStartWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	whole, none := 0, 0
	for _, path := range scenariotest.Files(t, "..") {
		f := scenariotest.Load(t, path)
		for _, gangs := range []int{1, 3} {
			s := inGangs(f.Snapshot, gangs)
			plan := provisioning.Plan(s, f.Options, nil)
			placed := map[engine.PodID]bool{}
			for _, l := range plan.Launches {
				for _, id := range l.Pods {
					placed[id] = true
				}
			}
			for _, p := range plan.Placements {
				placed[p.Pod] = true
			}
			gangs := gang.Read(s)
			if gangs == nil {
				continue
			}
			for _, g := range gangs.List {
				n := 0
				for _, pod := range g.Waiting {
					if placed[kube.PodID(pod)] {
						n++
					}
				}
				switch {
				case n == 0:
					none++
				case !g.Suffices(n):
					t.Errorf("%s: of gang %s %d run and %d would start, but %d have to", filepath.Base(path), g.Name(), len(g.Running), n, g.Group.MinCount())
				default:
					whole++
				}
			}
		}
	}
	if whole < 100 || none < 100 {
		t.Errorf("%d gangs start and %d do not: that proves little", whole, none)
	}
}

// TestGroupsThatAskForNothingChangeNoPlan puts the pods of every scenario into a group with the policy basic, and into gangs of one.
func TestGroupsThatAskForNothingChangeNoPlan(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Drawn(t, "..") {
		f := scenariotest.Load(t, path)
		if len(f.Snapshot.PodGroups) > 0 {
			continue
		}
		basic := inGangs(f.Snapshot, 1)
		for _, group := range basic.PodGroups {
			group.Spec.SchedulingPolicy = schedulingv1alpha3.SchedulingPolicy{Basic: &schedulingv1alpha3.BasicSchedulingPolicy{}}
		}
		if want, got := scenariotest.Said(provisioning.Plan(f.Snapshot, f.Options, nil)), scenariotest.Said(provisioning.Plan(basic, f.Options, nil)); got != want {
			t.Errorf("%s: got\n%swant\n%s", filepath.Base(path), got, want)
		}
		if want, got := scenariotest.Said(disruption.Plan(f.Snapshot, f.Options, nil)), scenariotest.Said(disruption.Plan(basic, f.Options, nil)); got != want {
			t.Errorf("%s, disruption: got\n%swant\n%s", filepath.Base(path), got, want)
		}
	}
}
