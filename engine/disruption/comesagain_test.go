package disruption_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// idle is a cluster of one machine, which was started for an owner's pods, took 45 seconds to boot, and is empty now and then.
type idle struct {
	testing.TB
	*engine.Snapshot
	passes *engine.EarlierPasses
	begun  time.Time
}

func newIdle(t testing.TB, more string) *idle {
	t.Helper()
	file, err := scenario.Parse("pool general consolidate-after=0s " + more + "\ntype two cpu=2 mem=4Gi zones=a price=0.05\nnode n1 pool=general type=two zone=a quiet=1h\n")
	if err != nil {
		t.Fatal(err)
	}
	c := &idle{TB: t, Snapshot: file.Snapshot, passes: &engine.EarlierPasses{}, begun: file.Snapshot.Now}
	claim := c.NodeClaims[0]
	claim.CreationTimestamp = metav1.NewTime(c.begun)
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(c.begun)
		if claim.Status.Conditions[i].Type == v1.ConditionInitialized {
			claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(c.begun.Add(45 * time.Second))
		}
	}
	return c
}

// at makes a pass at this time after the beginning, with pods of these owners that came then. It returns why the machine stays, "" if it
// goes.
func (c *idle) at(after time.Duration, owners ...string) string {
	c.Helper()
	s := *c.Snapshot
	s.Now, s.EarlierPasses = c.begun.Add(after), c.passes
	var uids []string
	for i, owner := range owners {
		kind, name, _ := strings.Cut(owner, "/")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d-%d", name, i, after), UID: types.UID(fmt.Sprintf("%s-%d-%d", name, i, after)), CreationTimestamp: metav1.NewTime(s.Now),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}},
		}}
		pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
		s.Pods, uids = append(slices.Clone(s.Pods), pod), append(uids, string(pod.UID))
	}
	if known := c.NodeClaims[0].Annotations[kube.PlannedPodsAnnotation]; known == "" && len(uids) > 0 {
		claim := c.NodeClaims[0].DeepCopy()
		claim.Annotations = kube.With(claim.Annotations, kube.PlannedPodsAnnotation, strings.Join(uids, ","))
		c.NodeClaims = []*v1.NodeClaim{claim}
		s.NodeClaims = c.NodeClaims
	}
	plan := disruption.Plan(&s, engine.Options{}, nil)
	c.passes = plan.Passes
	for _, k := range plan.Kept {
		if k.Node == "n1" {
			return k.Reason.String()
		}
	}
	return ""
}

func TestAnEmptyMachineStaysForAnOwnerThatComesAgainSoon(t *testing.T) {
	t.Parallel()
	job := func(minute int) string { return fmt.Sprintf("Job/report-%d", 29384756+minute) }
	const soon = "pod of CronJob default/report, which comes again at about"
	for name, c := range map[string]struct {
		pool    string
		every   time.Duration
		owners  func(run int) []string
		after   time.Duration // since the last run, when the machine is empty
		stays   bool
		runs    int
		forgets bool
		tainted bool
	}{
		"after two runs":                    {every: time.Minute, runs: 2, after: 12 * time.Second, stays: true},
		"after one run nobody knows":        {every: time.Minute, runs: 1, after: 12 * time.Second},
		"until it is late":                  {every: time.Minute, runs: 3, after: 74 * time.Second, stays: true},
		"and no longer":                     {every: time.Minute, runs: 3, after: 75 * time.Second},
		"not for too long":                  {every: 3 * time.Minute, runs: 3, after: 20 * time.Second},
		"once it is soon":                   {every: 3 * time.Minute, runs: 3, after: 100 * time.Second, stays: true},
		"not in a pool of another pace":     {every: time.Minute, runs: 3, after: 12 * time.Second, stays: true, pool: "budget=100%"},
		"not for two owners":                {every: time.Minute, runs: 3, after: 12 * time.Second, owners: func(run int) []string { return []string{job(run), "StatefulSet/db"} }},
		"not for Jobs that are no series":   {every: time.Minute, runs: 3, after: 12 * time.Second, owners: func(run int) []string { return []string{fmt.Sprintf("Job/migrate-%c", 'a'+run)} }},
		"not where somebody has tainted it": {every: time.Minute, runs: 3, after: 12 * time.Second, tainted: true},
		"not for what has no clock":         {every: time.Minute, runs: 3, after: 12 * time.Second, owners: func(int) []string { return []string{"Workflow/nightly"} }},
		"nor without earlier passes":        {every: time.Minute, runs: 3, after: 12 * time.Second, forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world := newIdle(t, c.pool)
			last := time.Minute
			for run := range c.runs {
				owners := []string{job(run)}
				if c.owners != nil {
					owners = c.owners(run)
				}
				last = time.Minute + time.Duration(run)*c.every
				world.at(last, owners...)
				if run < c.runs-1 {
					world.at(last + 10*time.Second)
				}
			}
			if c.forgets {
				world.passes = &engine.EarlierPasses{}
			}
			if c.tainted {
				node := world.Nodes[0].DeepCopy()
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "others", Effect: corev1.TaintEffectNoSchedule})
				world.Nodes = []*corev1.Node{node}
			}
			if why := world.at(last + c.after); c.stays != strings.Contains(why, soon) || c.stays == (why == "") {
				t.Errorf("it stays because %q", why)
			}
		})
	}
}

// The earlier passes come from a file, which may hold anything.
func TestEarlierPassesOfAFileAreReadWithCare(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "x", "general", " ", "another CronJob default/report"} {
		world := newIdle(t, "")
		uid := string(world.NodeClaims[0].UID)
		world.passes = &engine.EarlierPasses{Comings: map[string]engine.Comings{key: {Machines: []string{uid, uid}, Times: []time.Time{world.begun, world.begun.Add(time.Minute)}, Boot: time.Minute}}}
		world.at(time.Minute + 10*time.Second)
	}
}
