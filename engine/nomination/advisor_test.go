package nomination_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// advised returns the node to which the advisor nominates pod web-1 in a cluster with one node, "-" for no change.
func advised(a *nomination.Advisor, s *engine.Snapshot) string {
	advice := a.Advise(s, engine.Options{}, provisioning.Plan(s, engine.Options{}, nil))
	for _, n := range advice {
		a.Written(n)
		n.Pod.Status.NominatedNodeName = n.Node
		if n.Pod.Name == "web-1" {
			return n.Node
		}
	}
	return "-"
}

func TestAdviceIsGivenAndTakenBack(t *testing.T) {
	t.Parallel()
	leaves := func(s *engine.Snapshot) { s.Nodes[0].Spec.Taints = []corev1.Taint{v1.DisruptedTaint()} }
	nominated := func(node string) func(*engine.Snapshot) {
		return func(s *engine.Snapshot) { scenariotest.Pod(s, "web-1").Status.NominatedNodeName = node }
	}
	for _, c := range []struct {
		name  string
		first func(*engine.Snapshot) // changes the snapshot before the first pass
		want  string                 // the result of the first pass
		then  func(*engine.Snapshot) // changes the snapshot before the second pass
		after string                 // the result of the second pass
	}{
		{name: "a pod that fits is pointed there once", want: "n1", after: "-"},
		{name: "not to a node that is still starting", first: func(s *engine.Snapshot) { delete(s.Nodes[0].Labels, v1.InitializedLabelKey) }, want: "-", after: "n1",
			then: func(s *engine.Snapshot) { s.Nodes[0].Labels[v1.InitializedLabelKey] = "true" }},
		{name: "not any more once the node is to leave", want: "n1", then: leaves, after: ""},
		{name: "kube-scheduler's own nomination stays", first: nominated("n1"), want: "-", then: leaves, after: "-"},
		{name: "but not to a node that is gone", first: nominated("gone"), want: "", after: "n1"},
		{name: "and not if it is not followed", first: nominated("n1"), want: "-", after: "",
			then: func(s *engine.Snapshot) { s.Now = s.Now.Add(16 * time.Second) }},
		{name: "unless the room is not free yet", first: nominated("n1"), want: "-", after: "-", then: func(s *engine.Snapshot) {
			s.Now = s.Now.Add(16 * time.Second)
			at := metav1.NewTime(s.Now)
			scenariotest.Pod(s, "old-1").DeletionTimestamp = &at
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n1 pool=general type=two zone=a",
				"pods old x1 cpu=500m mem=1Gi node=n1", "pods web x1 cpu=1 mem=1Gi")
			for _, f := range []func(*engine.Snapshot){c.first} {
				if f != nil {
					f(s)
				}
			}
			a := &nomination.Advisor{}
			if got := advised(a, s); got != c.want {
				t.Fatalf("first %q, want %q", got, c.want)
			}
			if c.then != nil {
				c.then(s)
			}
			if got := advised(a, s); got != c.after {
				t.Errorf("then %q, want %q", got, c.after)
			}
		})
	}
}

func TestPodsThatMustBeSpreadAreAdvisedOneAtATime(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type four cpu=4 mem=8Gi zones=a price=0.1", "node n1 pool=general type=four zone=a",
		"pods web x3 cpu=1 mem=1Gi spread=(zone) owner=StatefulSet/web", "pods job x2 cpu=100m mem=1Gi")
	advice := (&nomination.Advisor{}).Advise(s, engine.Options{}, provisioning.Plan(s, engine.Options{}, nil))
	var names []string
	for _, n := range advice {
		names = append(names, n.Pod.Name+"@"+n.Node)
	}
	if got := strings.Join(names, " "); got != "job-1@n1 job-2@n1 web-1@n1" {
		t.Errorf("advised %s", got)
	}
}

func TestNoMachineIsStartedForPodsWhoseMachineIsOpening(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*v1.NodeClaim)
		after  time.Duration // the time since the machine was ready
		want   engine.Code
	}{
		{name: "it is ready since a moment", after: time.Second, want: engine.MachineOpening},
		{name: "it is ready since long", after: 11 * time.Second},
		{name: "it is about to be ready", after: time.Second, want: engine.MachineOpening, change: notInitialized},
		{name: "it does not get ready", after: 2 * time.Minute, change: notInitialized},
		{name: "it has joined and is not registered", after: time.Second, want: engine.MachineOpening, change: notRegistered},
		{name: "it has joined and does not get registered", after: 2 * time.Minute, change: notRegistered},
	} {
		s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n1 pool=general type=two zone=a planned=web-1",
			"pods thief x1 cpu=1500m mem=1Gi node=n1", "pods web x1 cpu=1 mem=1Gi")
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) != 1 {
			t.Fatalf("%s: %d launches", c.name, len(plan.Launches))
		}
		for _, node := range s.Nodes {
			node.CreationTimestamp = metav1.NewTime(s.Now.Add(-c.after))
		}
		for _, claim := range s.NodeClaims {
			for _, condition := range []string{v1.ConditionRegistered, v1.ConditionInitialized} {
				v1.GetCondition(claim, condition).LastTransitionTime = metav1.NewTime(s.Now.Add(-c.after))
			}
			if c.change != nil {
				c.change(claim)
			}
		}
		if got := disruption.Check(plan.Launches[0], s).Code; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		plan.Launches[0].Pods = append(plan.Launches[0].Pods, engine.PodID{Name: "other"})
		if got := disruption.Check(plan.Launches[0], s).Code; got == engine.MachineOpening {
			t.Errorf("%s: a pod that never had a machine waits for another's", c.name)
		}
	}
}

// If a node is ready when it joins, one write registers and opens it, together with other nodes.
func notRegistered(c *v1.NodeClaim) {
	notInitialized(c)
	v1.GetCondition(c, v1.ConditionRegistered).Status = metav1.ConditionUnknown
}

func notInitialized(c *v1.NodeClaim) {
	v1.GetCondition(c, v1.ConditionInitialized).Status = metav1.ConditionUnknown
}
