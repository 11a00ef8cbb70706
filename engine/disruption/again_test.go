package disruption_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// passes makes disruption passes. Each pass gets the results of the one before, as a file would keep them.
type passes struct {
	testing.TB
	left  *engine.EarlierPasses
	cache inventory.Cache
}

var sameButForZones = conversion.EqualitiesOrDie(time.Time.Equal)

func newPasses(t testing.TB) *passes { return &passes{TB: t, left: &engine.EarlierPasses{}} }

func (p *passes) plan(s *engine.Snapshot, opt engine.Options) *engine.Plan {
	p.Helper()
	next := *s
	next.EarlierPasses = p.left
	plan := disruption.Plan(&next, opt, &p.cache)
	text, err := json.Marshal(plan.Passes)
	if err == nil {
		p.left = &engine.EarlierPasses{}
		err = json.Unmarshal(text, p.left)
	}
	if err != nil {
		p.Fatal(err)
	}
	if !sameButForZones.DeepEqual(plan.Passes, p.left) {
		p.Errorf("a pass left\n%+v\nof which a file keeps\n%+v", plan.Passes, p.left)
	}
	return plan
}

// After a pass without a result, the next pass finds the machine that pods have left, and gives the others the reasons from before.
func TestPassesAfterOneThatFoundNothingSeeWhatHasChanged(t *testing.T) {
	t.Parallel()
	opt := engine.Options{LargestCPU: 8}
	s := consolidated(workload.ScaledDown(workload.Cost(workload.CPU, 4000, 1, v1.CapacityTypeOnDemand), opt, 0.1, 1), opt)
	if len(s.Nodes) < 400 {
		t.Fatalf("the cluster has %d nodes: too few to be looked at in part", len(s.Nodes))
	}
	passes := newPasses(t)
	first := passes.plan(s, opt)
	if len(first.Disruptions) > 0 {
		t.Fatal("there is something to be had")
	}
	next := *s
	next.Now = s.Now.Add(10 * time.Second)
	same := passes.plan(&next, opt)
	if len(same.Disruptions) > 0 || !slices.Equal(same.Kept, first.Kept) {
		t.Error("nothing has changed, and the plan is another one")
		for i := range same.Kept {
			if same.Kept[i] != first.Kept[i] {
				t.Log(same.Kept[i], first.Kept[i])
			}
		}
	}

	bare := s.Nodes[len(s.Nodes)/2].Name // all its pods but one leave
	left := 0
	next.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		if p.Spec.NodeName == bare {
			left++
		}
		return p.Spec.NodeName == bare && left > 1
	})
	next.Now = s.Now.Add(20 * time.Second)
	plan := passes.plan(&next, opt)
	if !slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return slices.Contains(d.Nodes, bare) }) {
		t.Errorf("%s has one pod left of %d, and stays: %+v", bare, left, plan.Disruptions)
	}

	next.Pods, next.Now = s.Pods, s.Now.Add(2*time.Minute)
	later, whole := passes.plan(&next, opt), disruption.Plan(&next, opt, nil)
	if !slices.Equal(later.Kept, whole.Kept) {
		t.Error("a minute later not everything was looked at")
	}
}

// receding is a cluster in which n1 can go once the pod that fills n2 has left. Only a pass that looks at all machines then sees the room on n2,
// because n2 is not to be disrupted.
func receding(t *testing.T) (full, free *engine.Snapshot) {
	t.Helper()
	full = scenariotest.Cluster(t,
		"pool general budget=100%",
		"type two cpu=2 mem=4Gi zones=a price=0.05",
		"type four cpu=4 mem=8Gi zones=a price=0.10",
		"node n1 pool=general type=two zone=a quiet=10m",
		"node n2 pool=general type=two zone=a quiet=10m annotations=karpenter.sh/do-not-disrupt:true",
		"pod web cpu=1 node=n1 owner=Deployment age=10h",
		"pod filler cpu=1500m node=n2 owner=Deployment age=10h")
	free = new(*full)
	free.Now = full.Now.Add(time.Minute)
	free.Pods = slices.DeleteFunc(slices.Clone(full.Pods), func(p *corev1.Pod) bool { return p.Name == "filler" })
	return full, free
}

// A machine that stays for its owner's share on demand counts as examined without success, like a machine whose pods would be stranded.
func TestThatAShareWouldBeLostIsRememberedAsALookInVain(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/share_would_be_lost_to_kube_scheduler.txt")
	if err != nil {
		t.Fatal(err)
	}
	f, err := scenario.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	passes := newPasses(t)
	passes.plan(f.Snapshot, engine.Options{LookAgain: time.Minute})
	found := 0
	for key, m := range passes.left.Look.Machines {
		if m.Why.Code == engine.OnDemandShareLost {
			found++
			if !m.Failed.Equal(f.Snapshot.Now) {
				t.Errorf("%s: failed at %s, want the time of the pass", key, m.Failed)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d machines stay for a share on demand, want one", found)
	}
}

func TestWhatIsSoldOutSinceTheLastLookMakesNoOtherOne(t *testing.T) {
	t.Parallel()
	sells := func(s *engine.Snapshot, change func(o *engine.Offering)) *engine.Snapshot {
		out := *s
		out.Classes = slices.Clone(s.Classes)
		types := slices.Clone(s.Classes[0].InstanceTypes)
		for i := range types {
			types[i].Offerings = slices.Clone(types[i].Offerings)
			if types[i].Name == "four" {
				change(&types[i].Offerings[0])
			}
		}
		out.Classes[0].InstanceTypes = types
		return &out
	}
	same := func(*engine.Offering) {}
	soldOut := func(o *engine.Offering) { o.SoldOut = true }
	dearer := func(o *engine.Offering) { o.Price *= 2 }
	for _, c := range []struct {
		name          string
		before, after func(o *engine.Offering)
		looks         bool
	}{
		{"the same list, read anew", same, same, false},
		{"sold out since then", same, soldOut, false},
		{"to be had again", soldOut, same, true},
		{"another price", same, dearer, true},
	} {
		full, free := receding(t)
		passes := newPasses(t)
		if plan := passes.plan(sells(full, c.before), engine.Options{LookAgain: time.Hour}); len(plan.Disruptions) > 0 {
			t.Fatalf("%s: n1 goes though there is no room: %v", c.name, plan.Disruptions)
		}
		free = sells(free, c.after)
		if plan := disruption.Plan(free, engine.Options{}, nil); len(plan.Disruptions) != 1 {
			t.Fatalf("%s: n1 does not go though there is room: %v", c.name, plan.Kept)
		}
		for range 2 { // the next pass remembers the last one's findings about a list
			plan := passes.plan(free, engine.Options{LookAgain: time.Hour})
			if looked := len(plan.Disruptions) > 0; looked != c.looks {
				t.Errorf("%s: all machines were looked at: %v", c.name, looked)
			}
		}
	}
}

// A pass in which every machine goes leaves no result for any. The list in a file is then missing.
func TestAPassAfterOneInWhichEveryMachineGoes(t *testing.T) {
	t.Parallel()
	full, free := receding(t)
	passes, opt := newPasses(t), engine.Options{LookAgain: time.Hour}
	if plan := passes.plan(free, opt); len(plan.Disruptions) != 1 {
		t.Fatalf("n1 does not go though there is room: %v", plan.Kept)
	}
	full.Now = free.Now.Add(time.Minute)
	if plan := passes.plan(full, opt); len(plan.Disruptions) > 0 || len(plan.Kept) != 2 {
		t.Errorf("n1 goes though there is no room any more: %v, kept %v", plan.Disruptions, plan.Kept)
	}
}

// A machine that lost pods while the cheap type was sold out is looked at again once the type is available.
func TestWhatWasLookedAtWhileSomethingWasSoldOutIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general budget=100%",
		"type two cpu=2 mem=4Gi zones=a price=0.05",
		"type eight cpu=8 mem=16Gi zones=a price=0.40",
		"node big pool=general type=eight zone=a quiet=10m",
		"pod web cpu=1 node=big owner=Deployment age=10h",
		"pod filler cpu=6500m node=big owner=Deployment age=10h")
	types := s.Classes[0].InstanceTypes
	sells := func(soldOut bool) {
		list := slices.Clone(types)
		for i := range list {
			list[i].Offerings = slices.Clone(list[i].Offerings)
			list[i].Offerings[0].SoldOut = soldOut && list[i].Name == "two"
		}
		s.Classes = slices.Clone(s.Classes)
		s.Classes[0].InstanceTypes = list
	}
	passes := newPasses(t)
	goes := func() bool {
		s.Now = s.Now.Add(time.Minute)
		return len(passes.plan(s, engine.Options{LookAgain: time.Hour}).Disruptions) > 0
	}
	if goes() {
		t.Fatal("big goes though it is full")
	}
	sells(true)
	s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Name == "filler" })
	if goes() {
		t.Fatal("big goes though everything cheaper is sold out")
	}
	sells(false)
	if !goes() {
		t.Error("big stays though a cheaper machine is to be had again")
	}
}

// Within Options.LookAgain, a pass does not look again at machines that have not changed, even if a budget puts off many others.
func TestHowOftenAllMachinesAreLookedAtIsUpToTheCaller(t *testing.T) {
	t.Parallel()
	lines := []string{
		"pool general budget=100% labels=tier:shop",
		"pool idle budget=1 labels=tier:idle",
		"type two cpu=2 mem=4Gi zones=a price=0.05",
		"node n1 pool=general type=two zone=a quiet=10m labels=tier:shop",
		"node n2 pool=general type=two zone=a quiet=10m labels=tier:shop annotations=karpenter.sh/do-not-disrupt:true",
		"pod web cpu=1 node=n1 select=tier:shop owner=Deployment age=10h",
		"pod filler cpu=1500m node=n2 owner=Deployment age=10h",
	}
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("node idle-%d pool=idle type=two zone=a quiet=10m labels=tier:idle", i),
			fmt.Sprintf("pod small-%d cpu=100m node=idle-%d select=tier:idle owner=Deployment age=10h", i, i))
	}
	s := scenariotest.Cluster(t, lines...)
	passes := newPasses(t)
	goes := func() bool {
		return slices.ContainsFunc(passes.plan(s, engine.Options{LookAgain: time.Hour}).Disruptions, func(d engine.Disruption) bool { return slices.Contains(d.Nodes, "n1") })
	}
	if goes() {
		t.Fatal("n1 goes though there is no room")
	}
	s.Now = s.Now.Add(time.Minute)
	s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Name == "filler" })
	if goes() {
		t.Error("a minute later all machines were looked at")
	}
	s.Now = s.Now.Add(time.Hour)
	if !goes() {
		t.Error("an hour later n1 stays though there is room for its pod")
	}
}

// Nodes are looked at again once commitments have more left, because other machines gave some back or the file changed.
func TestNodesAreLookedAtAgainOnceCommitmentsHaveMoreLeft(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p budget=100% zone in (a)", "pool q budget=100% consolidation=WhenEmpty", "type two cpu=2 mem=8Gi price=0.10 zones=a,b",
		"node other pool=q type=two zone=a quiet=1h", "pod o cpu=1900m node=other owner=Deployment age=5h",
		"node m pool=p type=two zone=b quiet=1h", "pod a cpu=1900m node=m owner=Deployment age=5h"}
	lookAgain := engine.Options{LookAgain: time.Hour}
	passes := newPasses(t)
	s := scenariotest.Cluster(t, append(lines, "commitment plan amount=0.06 discount=0.5 topology.kubernetes.io/zone in (a)")...)
	for range 2 {
		if plan := passes.plan(s, lookAgain); len(plan.Disruptions) > 0 {
			t.Fatalf("%+v go while the commitment has 0.01 left and a machine takes 0.05", plan.Disruptions)
		}
	}
	gone := *s
	gone.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *corev1.Node) bool { return n.Name == "other" })
	gone.NodeClaims = slices.DeleteFunc(slices.Clone(s.NodeClaims), func(c *v1.NodeClaim) bool { return c.Name == "other" })
	gone.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Name == "o" })
	more := *s
	more.Commitments = slices.Clone(s.Commitments)
	more.Commitments[0].AmountPerHour = 0.11
	for name, s := range map[string]*engine.Snapshot{"other is gone": &gone, "the file says more": &more} {
		again := *passes
		again.cache = inventory.Cache{}
		if plan := again.plan(s, lookAgain); len(plan.Disruptions) != 1 || plan.Disruptions[0].Replacements[0].Commitment != "plan" {
			t.Errorf("%s: %+v, want m in the place of what the commitment pays for", name, plan.Disruptions)
		}
	}
}
