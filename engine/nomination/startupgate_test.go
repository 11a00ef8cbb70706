package nomination

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
)

// foyer holds nodes that open, and the pods that wait for them. Its clock stands still between steps.
type foyer struct {
	now    time.Time
	opener *StartupGate
	pods   map[types.UID]*corev1.Pod
	unseen bool // the watch does not show the nomination yet
	opened []string
	done   bool
}

const foyerStep = 25 * time.Millisecond

// newFoyer makes nodes from "name/zone: pods". A pod's name, such as web-3, consists of its ReplicaSet and the position in which kube-scheduler
// tried it.
func newFoyer(spread bool, nodes ...string) *foyer {
	f := &foyer{now: enginetest.LifeStart, pods: map[types.UID]*corev1.Pod{}}
	var openings []Opening
	for _, text := range nodes {
		where, who, _ := strings.Cut(text, ":")
		name, zone, _ := strings.Cut(where, "/")
		o := Opening{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}}
		for _, pod := range strings.Fields(who) {
			o.Pods = append(o.Pods, f.add(pod, spread))
		}
		openings = append(openings, o)
	}
	f.opener = NewStartupGate(openings, f.now)
	return f
}

func (f *foyer) add(name string, spread bool) *corev1.Pod {
	owner, tried, _ := strings.Cut(name, "-")
	control := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: tried,
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: types.UID(owner), Controller: &control}}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if spread {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1}}
	}
	f.pods[pod.UID] = pod
	return pod
}

// step carries out a step of the gate. Each write raises the version of its object.
func (f *foyer) step() GateStep {
	f.now = f.now.Add(foyerStep)
	step := f.opener.Next(f.now, func(uid types.UID) PodSight {
		return PodSight{Pod: f.pods[uid], Unseen: f.unseen && f.pods[uid].Status.NominatedNodeName != ""}
	})
	for _, n := range step.Nominate {
		f.write(n.Pod.UID, func(p *corev1.Pod) { p.Status.NominatedNodeName = n.Node })
	}
	f.opened, f.done = append(f.opened, step.Open...), step.Done
	return step
}

func (f *foyer) write(uid types.UID, change func(*corev1.Pod)) {
	highest := 100
	for _, p := range f.pods {
		version, _ := strconv.Atoi(p.ResourceVersion)
		highest = max(highest, version)
	}
	pod := f.pods[uid].DeepCopy()
	pod.ResourceVersion = fmt.Sprint(highest + 1)
	change(pod)
	f.pods[uid] = pod
}

// until makes steps until a condition holds, for at most a minute, and returns the elapsed time.
func (f *foyer) until(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	began := f.now
	for !holds() {
		if f.now.Sub(began) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
		f.step()
	}
	return f.now.Sub(began)
}

func (f *foyer) nominated() string {
	var out []string
	for uid, p := range f.pods {
		out = append(out, string(uid)+"@"+p.Status.NominatedNodeName)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (f *foyer) isNominated(uid types.UID) func() bool {
	return func() bool { return f.pods[uid].Status.NominatedNodeName != "" }
}

func TestASingleNodeOpensAtOnce(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1 web-2")
	if step := f.step(); len(step.Nominate) != 2 || len(step.Open) != 1 || !step.Opened || step.Done {
		t.Errorf("the first step is %+v", step)
	}
	for uid := range f.pods {
		f.write(uid, func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
	}
	if step := f.step(); !step.Done {
		t.Error("not done when all pods are bound")
	}
}

func TestNodesThatNobodyWaitsForOpenAtOnceToo(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a:", "n2/a:")
	if took := f.until(t, "open", func() bool { return f.done }); took > time.Second || len(f.opened) != 2 {
		t.Errorf("%v opened after %v", f.opened, took)
	}
}

func TestPodsAreNominatedWhenKubeSchedulerHasStoppedTryingThem(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1", "n2/a: job-2")
	for range 40 { // a second
		f.write("web-1", func(*corev1.Pod) {})
		if step := f.step(); len(step.Nominate)+len(step.Open) > 0 {
			t.Fatalf("%+v while a pod is being tried", step)
		}
	}
	if took := f.until(t, "nominated", f.isNominated("web-1")); took < openingCalm || took > 2*openingCalm {
		t.Errorf("nominated %v after the last try", took)
	}
}

func TestNodesOpenWhenAllNominationsAreSeenAndNothingHasHappenedForAsLong(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1", "n2/a: job-2")
	f.unseen = true
	f.until(t, "nominated", f.isNominated("web-1"))
	for range 40 { // a second
		if step := f.step(); len(step.Open) > 0 {
			t.Fatal("opened although the watch does not show the nominations")
		}
	}
	f.unseen = false
	if took := f.until(t, "open", func() bool { return len(f.opened) == 2 }); took < time.Second || took > 2*time.Second {
		t.Errorf("opened %v after the nominations were seen, which took a second", took)
	}
}

// The duration of many writes of nominations does not show how late the watch is.
func TestNodesDoNotWaitAsLongAsTheNominationsTookToBeWritten(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1", "n2/a: job-2")
	f.until(t, "nominated", f.isNominated("web-1"))
	f.now = f.now.Add(3 * time.Second) // the time at which the last nomination was written
	if took := f.until(t, "open", func() bool { return len(f.opened) == 2 }); took > time.Second {
		t.Errorf("opened %v after the nominations had been written", took)
	}
}

func TestNodesOpenEvenIfKubeSchedulerNeverRests(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1", "n2/a: job-2")
	took := f.until(t, "open", func() bool {
		f.write("web-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
		return len(f.opened) == 2
	})
	if took > 2*openingUnrest+time.Second {
		t.Errorf("opened after %v", took)
	}
}

func TestNodesOpenLastWhosePodsAreTriedFirst(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-2 job-9", "n2/a: db-1", "n3/a:", "n4/a: job-7 job-8")
	f.until(t, "open", func() bool { return len(f.opened) == 4 })
	if got := strings.Join(f.opened, " "); got != "n4 n1 n2 n3" {
		t.Errorf("opened in the order %s", got)
	}
}

func TestEqualPodsAreDealtTheirRooms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		spread      bool
		nodes       []string
		want, later string // later is for the state after the first three pods run
	}{
		{
			"not spread: one node after the other", false, []string{"n1/a: web-6 web-5", "n2/b: web-4 web-3", "n3/c: web-2 web-1"},
			"web-1@n1 web-2@n1 web-3@n2 web-4@n2 web-5@n3 web-6@n3", "web-1@ web-2@ web-3@ web-4@n2 web-5@n3 web-6@n3",
		},
		{
			"spread over zones: the zones take turns, and one pod at a time is nominated to a node", true,
			[]string{"n1/a: web-6 web-5", "n2/b: web-4 web-3", "n3/c: web-2 web-1"},
			"web-1@n1 web-2@n2 web-3@n3 web-4@ web-5@ web-6@", "web-1@ web-2@ web-3@ web-4@n1 web-5@n2 web-6@n3",
		},
		{
			"spread over zones: none is left behind, though all that is left is even", true,
			[]string{"n1/a: web-5", "n2/a: web-4", "n3/b: web-3", "n4/b: web-2", "n5/c: web-1"},
			"web-1@n1 web-2@n3 web-3@n5 web-4@n2 web-5@n4", "",
		},
		{
			"spread over zones: the nodes of a zone take turns too", true, []string{"n1/a: web-4 web-3", "n2/a: web-2 web-1"},
			"web-1@n1 web-2@n2 web-3@ web-4@", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFoyer(c.spread, c.nodes...)
			f.until(t, "nominated", f.isNominated("web-1"))
			if got := f.nominated(); got != c.want {
				t.Fatalf("nominated %s, want %s", got, c.want)
			}
			if c.later == "" {
				return
			}
			for _, uid := range []types.UID{"web-1", "web-2", "web-3"} {
				f.write(uid, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = p.Status.NominatedNodeName, "" })
			}
			f.step()
			if got := f.nominated(); got != c.later {
				t.Errorf("later nominated %s, want %s", got, c.later)
			}
		})
	}
}

func TestAPodThatLosesItsNominationGetsOneBack(t *testing.T) {
	t.Parallel()
	lose := func(p *corev1.Pod) { p.Status.NominatedNodeName = "" }
	for _, c := range []struct {
		name   string
		happen func(f *foyer)
		want   string
	}{
		{"its own room", func(f *foyer) { f.write("web-1", lose) }, "web-1@n1"},
		{"the room of an equal pod that took its own", func(f *foyer) {
			f.write("web-2", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "n1", "" })
			f.write("web-1", lose)
		}, "web-1@n2"},
		{"the room of an equal pod that went elsewhere, as its own open node would not have it", func(f *foyer) {
			f.write("web-1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "elsewhere", "" })
			f.write("web-2", lose)
		}, "web-2@n1"},
		{"none where kube-scheduler preempts for it", func(f *foyer) {
			f.write("web-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "elsewhere" })
		}, "web-1@elsewhere"},
		{"none that has ended", func(f *foyer) {
			f.write("web-1", func(p *corev1.Pod) { p.Status.NominatedNodeName, p.Status.Phase = "", corev1.PodFailed })
		}, "web-1@"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFoyer(false, "n1/a: web-1", "n2/a: web-2", "n3/a: job-3")
			f.until(t, "open", func() bool { return len(f.opened) == 3 })
			c.happen(f)
			f.step()
			if got := f.nominated(); !strings.Contains(got+" ", c.want+" ") {
				t.Errorf("nominated %s, want %s", got, c.want)
			}
		})
	}
}

// While nodes are closed, kube-scheduler refuses all pods, so a refusal does not depend on the rooms.
func TestPodsThatLoseTheirNominationsBeforeNodesOpenKeepTheirRooms(t *testing.T) {
	t.Parallel()
	f := newFoyer(true, "n1/a: web-1", "n2/b: web-2", "n3/c: web-3")
	f.until(t, "nominated", f.isNominated("web-1"))
	before := f.nominated()
	for _, uid := range []types.UID{"web-3", "web-2", "web-1"} {
		f.write(uid, func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
	}
	f.until(t, "nominated again", f.isNominated("web-1"))
	if got := f.nominated(); got != before || len(f.opened) > 0 {
		t.Errorf("nominated %s with %v open, want %s", got, f.opened, before)
	}
}

func TestNodesOpenAtOnce(t *testing.T) {
	t.Parallel()
	var nodes []string
	for i := range 50 {
		nodes = append(nodes, fmt.Sprintf("n%d/a: web-%d", i, i))
	}
	f := newFoyer(false, nodes...)
	f.until(t, "open", func() bool { return len(f.opened) > 0 })
	if len(f.opened) != len(nodes) {
		t.Errorf("%d of %d nodes open in the first step", len(f.opened), len(nodes))
	}
}

func TestAPodThatIsRefusedForEverIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFoyer(false, "n1/a: web-1", "n2/a: job-2")
	nominations := 0
	took := f.until(t, "done", func() bool {
		if f.isNominated("web-1")() && len(f.opened) == 2 {
			nominations++
			f.write("web-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
		}
		return f.done
	})
	if nominations > mostNominations || took > openingLongest {
		t.Errorf("given up after %d nominations and %v", nominations, took)
	}
}

func TestNodesWaitForTheirSiblings(t *testing.T) {
	t.Parallel()
	claim := func(name string, created time.Duration, change ...func(*v1.NodeClaim)) *v1.NodeClaim {
		return enginetest.LifeClaim(append(change, enginetest.LifePlanned, func(c *v1.NodeClaim) {
			c.Name, c.UID = name, types.UID(name)
			c.CreationTimestamp = metav1.NewTime(enginetest.LifeStart.Add(created))
		})...)
	}
	for _, c := range []struct {
		name   string
		other  *v1.NodeClaim
		waited time.Duration
		want   bool
	}{
		{name: "that starts", other: claim("b", time.Second), want: true},
		{name: "for so long", other: claim("b", time.Second), waited: openingMost},
		{name: "not for one that is open", other: claim("b", time.Second, enginetest.LifeRunning)},
		{name: "not for one that goes", other: claim("b", time.Second, enginetest.LifeDeleted)},
		{name: "not for one that was asked for much later", other: claim("b", time.Minute)},
		{name: "not for one that nobody waits for", other: enginetest.LifeClaim(func(c *v1.NodeClaim) { c.UID = "b" })},
		{name: "not for itself", other: claim("a", 0)},
	} {
		since := enginetest.LifeStart.Add(time.Minute)
		if got := AwaitSiblings([]*v1.NodeClaim{claim("a", 0)}, []*v1.NodeClaim{c.other}, since, since.Add(c.waited)); got != c.want {
			t.Errorf("%s: wait is %v", c.name, got)
		}
	}
}

func TestNodesOfAGangWaitForEachOther(t *testing.T) {
	t.Parallel()
	claim := func(name, gangs string, change ...func(*v1.NodeClaim)) *v1.NodeClaim {
		return enginetest.LifeClaim(append(change, func(c *v1.NodeClaim) {
			c.Name, c.UID, c.CreationTimestamp = name, types.UID(name), metav1.NewTime(enginetest.LifeStart)
			c.Annotations = map[string]string{v1.GangsAnnotationKey: gangs}
		})...)
	}
	for _, c := range []struct {
		name   string
		own    string // the gangs of the node that could open
		other  *v1.NodeClaim
		ready  bool
		waited time.Duration
		want   bool
	}{
		{name: "that starts", own: "a/x", other: claim("b", "a/x"), want: true},
		{name: "that starts for several", own: "a/x,a/y", other: claim("b", "a/w,a/y"), want: true},
		{name: "for minutes", own: "a/x", other: claim("b", "a/x"), waited: gangPatience - time.Second, want: true},
		{name: "not for ever", own: "a/x", other: claim("b", "a/x"), waited: gangPatience},
		{name: "not for one that could open", own: "a/x", other: claim("b", "a/x"), ready: true},
		{name: "not for one that is open", own: "a/x", other: claim("b", "a/x", enginetest.LifeRunning)},
		{name: "not for one that goes", own: "a/x", other: claim("b", "a/x", enginetest.LifeDeleted)},
		{name: "not for another gang", own: "a/x", other: claim("b", "a/y")},
		{name: "not for none", own: "", other: claim("b", "")},
		{name: "not for itself", own: "a/x", other: claim("a", "a/x")},
	} {
		got := AwaitGang(claim("a", c.own), []*v1.NodeClaim{c.other}, func(*v1.NodeClaim) bool { return c.ready }, enginetest.LifeStart.Add(c.waited))
		if got != c.want {
			t.Errorf("%s: wait is %v", c.name, got)
		}
	}
}
