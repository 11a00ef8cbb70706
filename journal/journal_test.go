package journal_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/journal"
)

// A world is a clock, a journal and the claims of a cluster.
type world struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	journal *journal.Journal
	claims  map[string]*v1.NodeClaim
	nodes   []*corev1.Node
	pods    []*corev1.Pod
}

func newWorld(t *testing.T) *world {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC))
	return &world{t: t, clock: clock, journal: journal.New(clock), claims: map[string]*v1.NodeClaim{}}
}

// claim adds a machine of a type with true conditions.
func (w *world) claim(name, kind string, conditions ...string) *v1.NodeClaim {
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.clock.Now()),
		Labels: map[string]string{v1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "on-demand"}}}
	c.Status.NodeName = "node-" + name
	for _, condition := range conditions {
		w.condition(c, condition, metav1.ConditionTrue, "")
	}
	w.claims[name] = c
	return c
}

func (w *world) condition(c *v1.NodeClaim, condition string, status metav1.ConditionStatus, message string) {
	v1.SetCondition(c, condition, status, "Because", message, w.clock.Now())
}

func (w *world) delete(c *v1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(w.clock.Now())) }

func (w *world) snapshot() *engine.Snapshot {
	s := &engine.Snapshot{Now: w.clock.Now(), Nodes: w.nodes, Pods: w.pods}
	for _, name := range []string{"small", "large"} {
		price := map[string]float64{"small": 1, "large": 4}[name]
		s.Classes = append(s.Classes, engine.Class{InstanceTypes: []engine.InstanceType{{Name: name,
			Offerings: []engine.Offering{{Zone: "a", CapacityType: "on-demand", Price: price}}}}})
	}
	for _, c := range w.claims {
		s.NodeClaims = append(s.NodeClaims, c.DeepCopy())
	}
	slices.SortFunc(s.NodeClaims, func(a, b *v1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// pass makes one pass of disruption in which some of a plan's disruptions begin.
func (w *world) pass(plan *engine.Plan) {
	s := w.snapshot()
	w.clock.Step(time.Second)
	w.journal.Passed(s, plan, plan.Disruptions)
}

func (w *world) idle() { w.pass(&engine.Plan{}) }

func (w *world) only() journal.Record {
	w.t.Helper()
	d := w.journal.Document(journal.Filter{})
	if len(d.Records) != 1 {
		w.t.Fatalf("%d records: %+v", len(d.Records), d.Records)
	}
	return d.Records[0]
}

func steps(r journal.Record) string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.Claim+" "+string(s.What))
	}
	return strings.Join(out, ", ")
}

func launchOf(kind string, price float64) engine.Launch {
	l := engine.Launch{Name: "general-1", NodePool: "general", Price: price, InstanceTypes: []string{kind}}
	l.Offerings = []engine.LaunchOffering{{OfferingID: engine.OfferingID{InstanceType: kind, Zone: "a", CapacityType: "on-demand"}, Price: price}}
	l.Why = engine.Choice{Considered: 7, RunnerUp: engine.OfferingID{InstanceType: "medium", Zone: "a", CapacityType: "on-demand"}, PriceDifference: 1}
	return l
}

func replacing() *engine.Plan {
	return &engine.Plan{
		Disruptions: []engine.Disruption{{Nodes: []string{"node-old"}, Claims: []string{"old"}, Reason: v1.Underutilized, SavingPerHour: 3,
			Replacements: []engine.Launch{launchOf("small", 1)}, Pods: []engine.PodID{{Namespace: "shop", Name: "web-1"}}}},
		Kept: []engine.Kept{{Node: "node-other", NodePool: "general", Reason: engine.Reason{Code: engine.NoCheaperPlace}}, {Node: "elsewhere", NodePool: "gpu", Reason: engine.Reason{Code: engine.NoCheaperPlace}}},
	}
}

// begun returns a world in which the machine old will be replaced, with the mark on its claim.
func begun(t *testing.T) (*world, inventory.Mark) {
	w := newWorld(t)
	old := w.claim("old", "large", v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized)
	plan := replacing()
	mark := inventory.NewMark(plan.Disruptions[0], []*v1.NodeClaim{old}, w.clock.Now())
	w.pass(plan)
	old.Annotations = map[string]string{inventory.DisruptionAnnotation: mark.String()}
	w.condition(old, v1.ConditionDisruptionReason, metav1.ConditionTrue, "")
	return w, mark
}

func TestAReplacementIsFollowedToItsEndAndSavesWhatItSaves(t *testing.T) {
	t.Parallel()
	w, mark := begun(t)
	r := w.only()
	if r.Kind != journal.Disruption || r.Reason != "Underutilized" || r.PriceBefore != 4 || r.PriceAfter != 1 || r.SavingPerHour != 3 || r.Pods != 1 {
		t.Errorf("the decision is %+v", r)
	}
	if len(r.Rejected) != 2 || r.Rejected[0].Code != "RunnerUp" || r.Rejected[1].Code != "NoCheaperPlace" || r.Rejected[1].Count != 1 {
		t.Errorf("rejected: %+v", r.Rejected)
	}
	come := w.claim(mark.Replacements[0], "small", v1.ConditionLaunched)
	w.clock.Step(time.Minute)
	w.idle() // the claim's name is now known
	w.idle()
	w.clock.Step(time.Hour - 62*time.Second)
	if r = w.only(); r.Outcome != journal.InProgress || r.Machines[1].Claim != come.Name || r.Machines[1].Node != "node-"+come.Name || math.Abs(r.Saved+1) > 0.01 {
		t.Errorf("an hour with both it is %+v", r)
	}
	w.condition(come, v1.ConditionRegistered, metav1.ConditionTrue, "")
	w.condition(come, v1.ConditionInitialized, metav1.ConditionTrue, "")
	old := w.claims["old"]
	w.delete(old)
	w.condition(old, v1.ConditionDrained, metav1.ConditionUnknown, "PodDisruptionBudget shop/web lets no pod go")
	w.idle()
	w.idle() // without new steps
	w.condition(old, v1.ConditionDrained, metav1.ConditionTrue, "")
	w.idle()
	delete(w.claims, "old")
	w.idle()
	r = w.only()
	if want := "NEW asked for, NEW launched, old told to go, old drain held, NEW registered, NEW ready, old drained, old removed"; strings.ReplaceAll(steps(r), come.Name, "NEW") != want {
		if alt := "NEW asked for, NEW launched, old told to go, NEW registered, NEW ready, old drain held, old drained, old removed"; strings.ReplaceAll(steps(r), come.Name, "NEW") != alt {
			t.Errorf("steps: %s", steps(r))
		}
	}
	if i := slices.IndexFunc(r.Steps, func(s journal.Step) bool { return s.What == journal.Draining }); i < 0 || !strings.Contains(r.Steps[i].Says, "shop/web") {
		t.Errorf("what held the drain is not named: %+v", r.Steps)
	}
	before := r.Saved
	w.clock.Step(2 * time.Hour)
	if r = w.only(); r.Outcome != journal.Done || math.Abs(r.Saved-before-6) > 0.01 {
		t.Errorf("%s, saved %f more in two hours at 3 an hour", r.Outcome, r.Saved-before)
	}
	sums := w.journal.Document(journal.Filter{}).Savings
	if len(sums) != 1 || sums[0].Saved != r.Saved || sums[0].SavingPerHour != 3 {
		t.Errorf("by reason: %+v", sums)
	}
}

func TestWhatIsTakenBackIsSaidToBe(t *testing.T) {
	t.Parallel()
	w, _ := begun(t)
	w.claims["old"].Annotations = nil
	v1.RemoveCondition(w.claims["old"], v1.ConditionDisruptionReason, w.clock.Now())
	w.idle()
	if r := w.only(); r.Outcome != journal.TakenBack || r.Saved != 0 {
		t.Errorf("%s, %s", r.Outcome, steps(r))
	}
}

func TestLaunchesAreFollowedAndThoseThatFailAreRecordedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := &engine.Plan{Launches: []engine.Launch{launchOf("small", 1), launchOf("small", 1), launchOf("small", 1)}}
	w.claim("a", "small")
	b := w.claim("b", "small")
	old := w.snapshot()
	w.journal.Planned(w.snapshot(), plan, []string{"a", "b", ""})
	old.NodeClaims, old.Now = nil, old.Now.Add(-time.Second)
	w.journal.Passed(old, &engine.Plan{}, nil) // from before the request
	w.condition(w.claims["a"], v1.ConditionLaunched, metav1.ConditionTrue, "")
	w.condition(w.claims["a"], v1.ConditionRegistered, metav1.ConditionTrue, "")
	w.condition(w.claims["a"], v1.ConditionInitialized, metav1.ConditionTrue, "")
	w.condition(b, v1.ConditionLaunched, metav1.ConditionUnknown, "sold out in zone a")
	w.delete(b)
	w.idle()
	w.idle()
	r := w.only()
	if r.Kind != journal.Launch || r.Outcome != journal.InPart || len(r.Machines) != 2 || r.PriceAfter != 2 {
		t.Errorf("%+v", r)
	}
	if last := r.Steps[len(r.Steps)-1]; last.What != journal.Lost || !strings.Contains(last.Says, "sold out in zone a") {
		t.Errorf("the last step is %+v", last)
	}
}

func TestFiftyInterruptedMachinesAreOneRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 50 {
		c := w.claim(fmt.Sprintf("c%02d", i), "small", v1.ConditionLaunched)
		w.nodes = append(w.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Status.NodeName, Annotations: map[string]string{v1.NoticeAnnotationKey: "spot"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{v1.DisruptedTaint()}}})
	}
	for i := range 50 {
		w.delete(w.claims[fmt.Sprintf("c%02d", i)])
		if i == 20 {
			w.idle()
			w.clock.Step(5 * time.Second)
		}
	}
	w.idle()
	r := w.only()
	if r.Kind != journal.Removal || r.Reason != journal.Interrupted || len(r.Machines) != 50 || !strings.Contains(r.Says, "50 machines") || r.PriceBefore != 50 {
		t.Errorf("%s %s: %d machines, %s", r.Kind, r.Reason, len(r.Machines), r.Says)
	}
	clear(w.claims)
	w.idle()
	if r = w.only(); r.Outcome != journal.Done {
		t.Errorf("%s", r.Outcome)
	}
}

// Empty nodes of a pool that go in one pass share a record. A node whose room yields to a pod has a record of its own, which names the pod.
func TestWhoseRoomYieldedIsRecorded(t *testing.T) {
	t.Parallel()
	w, plan := newWorld(t), &engine.Plan{}
	for _, name := range []string{"one", "two", "room"} {
		w.claim(name, "large", v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized)
		plan.Disruptions = append(plan.Disruptions, engine.Disruption{Nodes: []string{"node-" + name}, Claims: []string{name}, Reason: v1.Empty, SavingPerHour: 1})
	}
	plan.Disruptions[2].YieldsTo = []engine.PodID{{Namespace: "shop", Name: "web-1"}, {Namespace: "shop", Name: "web-2"}}
	w.pass(plan)
	var says []string
	for _, r := range w.journal.Document(journal.Filter{}).Records {
		says = append(says, r.Says)
	}
	slices.Sort(says)
	want := []string{"Empty, saves $1.0000/h, its room yields to pod shop/web-1 and 1 more at the pool's limits", "Empty: 2 nodes, saves $2.0000/h"}
	if !slices.Equal(says, want) {
		t.Errorf("%q, want %q", says, want)
	}
}

func TestSavingsEndWhereThePoolBuysAgain(t *testing.T) {
	t.Parallel()
	at := func(hours float64) time.Time {
		return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(hours * float64(time.Hour)))
	}
	gone := func(id, pool string, price, hour float64) journal.Record {
		return journal.Record{ID: id, Time: at(hour), Kind: journal.Disruption, Reason: "Empty", NodePools: []string{pool},
			Machines: []journal.Machine{{Claim: id, NodePool: pool, PricePerHour: &price}}, Steps: []journal.Step{{Time: at(hour), Claim: id, What: journal.Removed}}}
	}
	bought := func(id, pool string, price, hour float64) journal.Record {
		return journal.Record{ID: id, Time: at(hour), Kind: journal.Launch, NodePools: []string{pool},
			Machines: []journal.Machine{{Comes: true, Claim: id, NodePool: pool, PricePerHour: &price}}, Steps: []journal.Step{{Time: at(hour), Claim: id, What: journal.Launched}}}
	}
	records := []journal.Record{gone("first", "p", 2, 0), gone("second", "p", 2, 1), gone("other", "q", 1, 0), bought("morning", "p", 3, 5)}
	got := journal.Savings(records, at(10))
	// second: 4 hours at 2; first: 5 hours at 2, then 5 at 1; other: 10 at 1.
	for id, want := range map[string]float64{"second": 8, "first": 15, "other": 10} {
		if math.Abs(got[id]-want) > 1e-9 {
			t.Errorf("%s saved %f, want %f", id, got[id], want)
		}
	}
}

func TestPodsThatNothingCanRunAreToldOnceAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var unplaced []engine.Unplaced
	for i := range 3 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("train-%d", i), UID: types.UID(fmt.Sprint(i)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train", Controller: new(true)}}}}
		w.pods = append(w.pods, p)
		unplaced = append(unplaced, engine.Unplaced{Pod: engine.PodID{Namespace: "ml", Name: p.Name, UID: p.UID}, Reasons: []engine.Reason{{Code: engine.NoNodePools}}})
	}
	tell := func(n int) {
		w.journal.Planned(w.snapshot(), &engine.Plan{Unplaced: unplaced[:n]}, nil)
		w.clock.Step(10 * time.Second)
	}
	tell(2)
	tell(3) // one more of the same
	r := w.only()
	if r.Kind != journal.Refusal || r.Pods != 2 || len(r.Rejected) != 1 || r.Rejected[0].Count != 2 || r.Rejected[0].Code != "NoNodePools" || r.Outcome != journal.Done {
		t.Errorf("%+v", r)
	}
	w.clock.Step(61 * time.Minute)
	tell(3)
	if n := len(w.journal.Document(journal.Filter{}).Records); n != 2 {
		t.Errorf("%d records an hour later", n)
	}
}

// Pods with different reasons are counted separately, because no pod has all the reasons.
func TestARefusalCountsPodsByTheirReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var unplaced []engine.Unplaced
	for i, reason := range []engine.Reason{{Code: engine.NoNodePools}, {Code: engine.NoNodePools}, {Code: engine.LimitReached, NodePool: "gpu", Key: "nvidia.com/gpu", Need: "1", Have: "0"}} {
		unplaced = append(unplaced, engine.Unplaced{Pod: engine.PodID{Namespace: "ml", Name: fmt.Sprintf("train-%d", i), UID: types.UID(fmt.Sprint(i))}, Reasons: []engine.Reason{reason}})
	}
	w.journal.Planned(w.snapshot(), &engine.Plan{Unplaced: unplaced}, nil)
	first, second := engine.Sentence(unplaced[0].Reasons), engine.Sentence(unplaced[2].Reasons)
	if got, want := w.only().Says, "nothing can run 3 pods; 2 of them: "+first+"; 1 of them: "+second; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Steps are in order of time, whatever the order of their discovery.
func TestStepsAreInOrderOfTime(t *testing.T) {
	t.Parallel()
	r := decided(0, 0, []journal.Machine{coming("a", 1), coming("b", 2)}, "5 a launched", "20 a registered", "6 b launched")
	d := journal.NewDocument([]journal.Record{r}, morning.Add(time.Hour), journal.Filter{})
	if got := steps(d.Records[0]); got != "a launched, b launched, a registered" {
		t.Error(got)
	}
}

func TestTheRingIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.snapshot()
	for i := range 10_050 {
		w.journal.Planned(s, &engine.Plan{Launches: []engine.Launch{launchOf("small", 1)}}, []string{fmt.Sprint("c", i)})
		w.clock.Step(time.Second)
	}
	d := w.journal.Document(journal.Filter{})
	if len(d.Records) != 10_000 || d.Records[9_999].Machines[0].Claim != "c10049" {
		t.Errorf("%d records, the last of %s", len(d.Records), d.Records[len(d.Records)-1].Machines[0].Claim)
	}
}

func TestFiltersChoose(t *testing.T) {
	t.Parallel()
	w, _ := begun(t)
	w.clock.Step(time.Minute)
	later := w.clock.Now()
	w.claim("new", "small")
	w.journal.Planned(w.snapshot(), &engine.Plan{Launches: []engine.Launch{launchOf("small", 1)}}, []string{"new"})
	for _, c := range []struct {
		filter journal.Filter
		want   int
	}{
		{journal.Filter{}, 2}, {journal.Filter{Since: later}, 1}, {journal.Filter{Reason: "Underutilized"}, 1}, {journal.Filter{NodePool: "general"}, 2},
		{journal.Filter{NodePool: "gpu"}, 0}, {journal.Filter{Node: "node-old"}, 1}, {journal.Filter{Node: "new"}, 1}, {journal.Filter{Most: 1}, 1},
	} {
		d := w.journal.Document(c.filter)
		if len(d.Records) != c.want {
			t.Errorf("%+v takes %d, want %d", c.filter, len(d.Records), c.want)
		}
		if n := len(w.journal.Document(journal.Filter{}).Narrow(c.filter).Records); c.filter.Most == 0 && n != c.want {
			t.Errorf("narrowed by %+v: %d, want %d", c.filter, n, c.want)
		}
	}
}
