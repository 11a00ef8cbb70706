package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
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
	for _, path := range scenarioFiles(t) {
		f := loadScenario(t, path)
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
	for _, path := range scenarioFiles(t) {
		f := loadScenario(t, path)
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
	for _, path := range scenarioFiles(t) {
		f := loadScenario(t, path)
		if len(f.Snapshot.PodGroups) > 0 {
			continue
		}
		basic := inGangs(f.Snapshot, 1)
		for _, group := range basic.PodGroups {
			group.Spec.SchedulingPolicy = schedulingv1alpha3.SchedulingPolicy{Basic: &schedulingv1alpha3.BasicSchedulingPolicy{}}
		}
		if want, got := said(provisioning.Plan(f.Snapshot, f.Options, nil)), said(provisioning.Plan(basic, f.Options, nil)); got != want {
			t.Errorf("%s: got\n%swant\n%s", filepath.Base(path), got, want)
		}
		if want, got := said(disruption.Plan(f.Snapshot, f.Options, nil)), said(disruption.Plan(basic, f.Options, nil)); got != want {
			t.Errorf("%s, disruption: got\n%swant\n%s", filepath.Base(path), got, want)
		}
	}
}

// Machines of a gang that could not get all of them go like others that did not take their pods: the next attempt waits, longer each time.
func TestAGangThatGetsTooFewMachinesBacksOff(t *testing.T) {
	t.Parallel()
	attempt := func(soldOut string, annotations map[string]string) (*engine.Snapshot, *engine.Plan) {
		s := clusterOf(t, "pool general consolidate-after=0s budget=100%",
			"type two cpu=2 mem=8Gi zones=a price=0.1 "+soldOut, "gang train min=3",
			"node n1 pool=general type=two zone=a age=2m planned=train-1", "node n2 pool=general type=two zone=a age=2m planned=train-2",
			"pods train x3 cpu=1500m gang=train")
		ready(s, time.Minute)
		s.NodePools[0].Annotations = annotations
		return s, provisioning.Plan(s, engine.Options{}, nil)
	}
	s, plan := attempt("sold-out", nil)
	if len(plan.Launches)+len(plan.Placements) > 0 || len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 {
		t.Fatalf("two of three machines have come: %+v", plan)
	}
	if why := plan.Backoffs[0].Found[0].Why; !strings.Contains(why, "group default/train") {
		t.Errorf("what is found out: %s", why)
	}
	carryOut(s, plan)
	for _, x := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
		s.Nodes = slices.DeleteFunc(s.Nodes, func(n *corev1.Node) bool { return slices.Contains(x.Nodes, n.Name) })
		s.NodeClaims = slices.DeleteFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return slices.Contains(x.Claims, c.Name) })
	}
	if len(s.Nodes) > 0 {
		t.Errorf("%d machines stay that run nothing", len(s.Nodes))
	}
	written := s.NodePools[0].Annotations
	next := clusterOf(t, "pool general", "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3", "pods train x3 cpu=1500m gang=train", "pod web cpu=1500m")
	next.NodePools[0].Annotations = written
	if plan := provisioning.Plan(next, engine.Options{}, nil); len(plan.Launches) != 1 || plan.Launches[0].Pods[0].Name != "web" {
		t.Errorf("the type can be had again, and %v is started at once, want a machine for web alone", plan.Launches)
	}
	next.Now = next.Now.Add(2 * time.Minute)
	if plan := provisioning.Plan(next, engine.Options{}, nil); len(plan.Launches) != 4 {
		t.Errorf("after the wait %d machines are started, want 4", len(plan.Launches))
	}
}

// Where one of a gang's launches cannot be made any more, none is; where one has become needless, the others are.
func TestAGangIsLaunchedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	lines := func(limit, pods string) *engine.Snapshot {
		return clusterOf(t, "pool general limits=cpu:"+limit, "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3",
			"pods train x"+pods+" cpu=1500m gang=train", "pod train-untried cpu=1500m gang=train untried", "pod web cpu=1500m")
	}
	plan := provisioning.Plan(lines("10", "3"), engine.Options{}, nil)
	if len(plan.Launches) != 5 {
		t.Fatalf("%d launches, want 5", len(plan.Launches))
	}
	for _, l := range plan.Launches {
		if claim := kube.NewClaim(lines("10", "3").NodePools[0], l); !slices.Equal(kube.GangsOf(claim), l.Gangs) || (l.Pods[0].Name == "web") != (l.Gangs == nil) {
			t.Errorf("launch of %v: gangs %v, its claim says %v", l.Pods, l.Gangs, kube.GangsOf(claim))
		}
	}
	for _, c := range []struct {
		limit, pods string
		right       int
		why         string
	}{
		{"10", "3", 5, "nothing has changed"},
		{"8", "3", 1, "the limit is lower: only the pod by itself has its machine"},
		{"10", "2", 4, "one pod is gone, and enough are left"},
		{"10", "1", 1, "too few pods are left"},
	} {
		right := 0
		for _, r := range disruption.NewChecker(lines(c.limit, c.pods)).CheckLaunches(plan.Launches) {
			if r.OK() {
				right++
			}
		}
		if right != c.right {
			t.Errorf("%s: %d launches are right, want %d", c.why, right, c.right)
		}
	}
}

func TestExplainSaysThatAGangIsTooSmall(t *testing.T) {
	t.Parallel()
	s := clusterOf(t, "pool general", "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3", "pods train x2 cpu=1 gang=train untried")
	got := explain.ExplainPod(s, engine.Options{}, provisioning.Plan(s, engine.Options{}, nil), s.Pods[0])
	if got.Outcome != explain.OutcomeUntried || !strings.Contains(got.Summary, "once 3 of its pods exist, and there are 2") {
		t.Errorf("%s: %s", got.Outcome, got.Summary)
	}
}
