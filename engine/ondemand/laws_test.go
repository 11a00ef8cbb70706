package ondemand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// shareCount counts an owner's pods: all, on on-demand machines that stay, on spot machines, and without a machine.
type shareCount struct{ pods, demand, spot, waits, selectSpot int }

func sharesHeld(s *engine.Snapshot) map[string]*shareCount {
	spot, stays := map[string]bool{}, map[string]bool{}
	leaving := map[string]bool{}
	for _, c := range s.NodeClaims {
		leaving[c.Status.NodeName] = leaving[c.Status.NodeName] || c.DeletionTimestamp != nil
	}
	for _, n := range s.Nodes {
		spot[n.Name] = n.Labels[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot
		stays[n.Name] = n.DeletionTimestamp == nil && !leaving[n.Name]
	}
	out := map[string]*shareCount{}
	for _, pod := range s.Pods {
		if !kube.IsReschedulable(pod) || len(pod.OwnerReferences) == 0 || !slices.Contains([]string{"ReplicaSet", "StatefulSet"}, pod.OwnerReferences[0].Kind) {
			continue
		}
		name := pod.OwnerReferences[0].Name
		c := out[name]
		if c == nil {
			c = &shareCount{}
			out[name] = c
		}
		c.pods++
		switch node := pod.Spec.NodeName; {
		case node == "" || !stays[node]:
			c.waits++
		case spot[node]:
			c.spot++
		default:
			c.demand++
		}
		if selectsSpot(pod) {
			c.selectSpot++
		}
	}
	return out
}

// selectsSpot reports whether the pod requires spot machines, as some random pods do.
func selectsSpot(pod *corev1.Pod) bool {
	return slices.ContainsFunc(kube.RequiredTerms(&pod.Spec), func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == v1.CapacityTypeLabelKey && slices.Contains(e.Values, v1.CapacityTypeSpot)
		})
	})
}

// After a plan each owner has its share on demand, or one of its pods waits for an on-demand machine with the reason. The exception is an owner
// whose missing pods already run on spot machines. Then the plan places no other of its pods on a spot machine.
func TestLawOwnersHaveTheirShareOnDemand(t *testing.T) {
	t.Parallel()
	held, short := 0, 0
	law := func(seed uint64, s *engine.Snapshot, shares map[string]func(int) int) {
		cache := &inventory.Cache{}
		plan := provisioning.Plan(s, engine.Options{}, cache)
		before, after := sharesHeld(s), sharesHeld(scenario.CarryOut(s, plan))
		for name, c := range after {
			need := shares[name](c.pods)
			if need == 0 || c.selectSpot > 0 {
				continue
			}
			if c.demand >= need {
				held++
				continue
			}
			short++
			if c.spot > before[name].spot && c.waits < need-c.demand {
				t.Errorf("seed %d: %s has %d of %d on demand, of %d pods %d wait, and the plan puts %d on spot machines\n%s", seed, name, c.demand, need, c.pods, c.waits, c.spot-before[name].spot, scenario.Print(plan))
			}
			asks := slices.ContainsFunc(plan.Unplaced, func(u engine.Unplaced) bool {
				return slices.ContainsFunc(u.Reasons, func(r engine.Reason) bool { return r.Code == engine.OnDemandShare })
			})
			if c.spot > before[name].spot && !asks {
				t.Errorf("seed %d: %s has %d of %d on demand, and no pod waits for it with a reason\n%s", seed, name, c.demand, need, scenario.Print(plan))
			}
		}
		next := scenario.CarryOut(s, plan)
		if got, want := scenariotest.Text(t, provisioning.Plan(next, engine.Options{}, cache)), scenariotest.Text(t, provisioning.Plan(next, engine.Options{}, nil)); got != want {
			t.Errorf("seed %d: with a cache another plan:\n%s", seed, scenariotest.FirstDifference(got, want))
		}
	}
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, random *engine.Snapshot) {
		s, shares := scenariotest.Sharing(seed, random)
		law(seed, s, shares)
		s, shares = sharedCluster(t, seed)
		law(seed, s, shares)
	})
	if held < 10 || short == 0 {
		t.Errorf("%d owners have their share, %d have not: that proves little", held, short)
	}
}

// sharedCluster returns on-demand and spot nodes, each with a few pods of two ReplicaSets and a StatefulSet that request a share. Some of the
// nodes have drifted and some are leaving. Some pods are being evicted, and some wait.
func sharedCluster(t *testing.T, seed uint64) (s *engine.Snapshot, shares map[string]func(pods int) int) {
	t.Helper()
	d := rand.New(rand.NewPCG(seed, 0x54a4e))
	lines := []string{"pool mixed budget=100% capacity in (spot,on-demand)", "type two cpu=2 mem=8Gi zones=a,b price=0.10 spot=0.03",
		"type four cpu=4 mem=16Gi zones=a,b price=0.20 spot=0.06", "type eight cpu=8 mem=32Gi zones=a,b price=0.40 spot=0.11"}
	shares = map[string]func(int) int{}
	var words []string
	for i := range 3 {
		percent := []int{0, 25, 50, 100}[d.IntN(4)]
		shares[fmt.Sprintf("o%d", i)] = func(pods int) int { return (pods*percent + 99) / 100 }
		words = append(words, fmt.Sprintf(" owner=%s/o%d on-demand-share=%d%%", []string{"Deployment", "Deployment", "StatefulSet"}[i], i, percent))
	}
	pod := func() string { return fmt.Sprintf("cpu=%dm age=%dh%s", 200+d.IntN(700), 3+d.IntN(5), words[d.IntN(3)]) }
	for i := range 3 + d.IntN(6) {
		capacity, drifted := []string{"spot", "on-demand", "on-demand"}[d.IntN(3)], []string{"", "", "", " drifted", " deleting"}[d.IntN(5)]
		lines = append(lines, fmt.Sprintf("node n%d pool=mixed type=%s zone=%s capacity=%s quiet=10m age=9h%s", i, []string{"four", "eight"}[d.IntN(2)], []string{"a", "b"}[d.IntN(2)], capacity, drifted))
		for j := range d.IntN(4) {
			lines = append(lines, fmt.Sprintf("pod run-%d-%d node=n%d %s%s", i, j, i, pod(), []string{"", "", " deleting grace=30s"}[d.IntN(3)]))
		}
	}
	for i := range d.IntN(3) * 4 {
		lines = append(lines, fmt.Sprintf("pod wait-%d %s", i, pod()))
	}
	return scenariotest.Cluster(t, lines...), shares
}

// movedOver returns the snapshot in which the pods that the plan moves run in their new places: on existing nodes, or on one node for each
// replacement.
func movedOver(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot {
	out := *s
	out.Pods, out.Nodes = slices.Clone(s.Pods), slices.Clone(s.Nodes)
	to := map[engine.PodID]string{}
	for i, d := range plan.Disruptions {
		for _, m := range d.Moves {
			to[m.Pod] = m.Node
		}
		for j, l := range d.Replacements {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("replacement-%d-%d", i, j), Labels: map[string]string{v1.CapacityTypeLabelKey: l.Offerings[0].CapacityType}}}
			out.Nodes = append(out.Nodes, n)
			for _, id := range l.Pods {
				to[id] = n.Name
			}
		}
	}
	for i, pod := range out.Pods {
		if node := to[scenariotest.ID(pod)]; node != "" {
			pod = pod.DeepCopy()
			pod.Spec.NodeName = node
			out.Pods[i] = pod
		}
	}
	return &out
}

// If an owner has its share, no disruption takes it away. If an owner has less, no disruption reduces that. Disruptions may remove pods beyond
// the share.
func TestLawNoDisruptionTakesFromAShare(t *testing.T) {
	t.Parallel()
	moved, spots, kept := 0, 0, 0
	law := func(name string, s *engine.Snapshot, shares map[string]func(int) int) {
		plan := disruption.Plan(s, engine.Options{}, nil)
		before, after := sharesHeld(s), sharesHeld(movedOver(s, plan))
		for _, d := range plan.Disruptions {
			moved += len(d.Moves)
			for _, l := range d.Replacements {
				if l.Offerings[0].CapacityType == v1.CapacityTypeSpot {
					spots++
				}
			}
		}
		for _, k := range plan.Kept {
			if k.Reason.Code == engine.OnDemandShareLost {
				kept++
			}
		}
		for owner, c := range after {
			b := before[owner]
			if need := shares[owner](c.pods); b.selectSpot == 0 && c.demand < min(need, b.demand) {
				t.Errorf("%s: %s had %d on demand, needs %d, and has %d\n%s", name, owner, b.demand, need, c.demand, scenario.Print(plan))
			}
		}
	}
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, random *engine.Snapshot) {
		s, shares := scenariotest.Sharing(seed, random)
		law(fmt.Sprintf("random %d", seed), s, shares)
		law(fmt.Sprintf("random %d, drifted", seed), scenariotest.Drifting(s), shares)
	})
	for seed := range enginetest.Draws(400) {
		s, shares := sharedCluster(t, seed)
		law(fmt.Sprintf("shared %d", seed), s, shares)
		law(fmt.Sprintf("shared %d, planned", seed), scenario.CarryOut(s, provisioning.Plan(s, engine.Options{}, nil)), shares)
	}
	if moved < 20 || spots == 0 || kept == 0 {
		t.Errorf("%d pods move, %d replacements are spot machines, %d nodes stay because kube-scheduler would take from a share: that proves little", moved, spots, kept)
	}
}

// If another pod that ran on demand is gone, a pod has to run on demand after all. It is planned anew, although a spot machine was started for
// it. The check before the action agrees with that plan.
func TestAPodThatHasToRunOnDemandAfterAllIsPlannedAnew(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool mixed capacity in (spot,on-demand)", "type four cpu=4 mem=8Gi zones=a price=0.20 spot=0.06",
		"node n1 pool=mixed type=four zone=a capacity=spot planned=web ready=5s", "claim c2 pool=mixed type=four zone=a capacity=on-demand age=20s", "pod web cpu=1 owner=Deployment on-demand-share=1")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Placements) != 1 || plan.Placements[0].Claim != "c2" {
		t.Fatalf("the plan is\n%s", scenario.Print(plan))
	}
	if r := disruption.Check(plan.Placements[0], s); !r.OK() {
		t.Errorf("the plan is not right any more: %s", r)
	}
}

// Machines in reservations that their owner may take back are no place for pods that have to run on demand, however cheap they are. That holds
// for waiting pods and for pods that consolidation moves.
func TestInterruptibleReservationsHoldNoShare(t *testing.T) {
	t.Parallel()
	types := func(back bool) []string {
		label := fmt.Sprintf("labels=%s:%v", kube.InterruptibleReservation, back)
		return []string{"pool p budget=100% capacity in (reserved,on-demand)",
			"type two cpu=2 mem=8Gi price=0.20 offer=(zone=a reserved=cr-1 slots=9 price=0.0000001 " + label + ")", "type eight cpu=8 mem=32Gi price=0.80", "type sixteen cpu=16 mem=64Gi price=1.60 offer=(zone=a reserved=cr-2 slots=1 price=0.0000001 " + label + ")"}
	}
	for _, back := range []bool{true, false} {
		s := scenariotest.Cluster(t, append(types(back)[:3], "pod a cpu=1500m owner=Deployment/web on-demand-share=1", "pod b cpu=1500m owner=Deployment/web on-demand-share=1")...)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		var kinds []string
		for _, l := range plan.Launches {
			kinds = append(kinds, l.Offerings[0].CapacityType)
		}
		slices.Sort(kinds)
		if want := map[bool][]string{true: {"on-demand", "reserved"}, false: {"reserved", "reserved"}}[back]; !slices.Equal(kinds, want) {
			t.Errorf("taken back %v: %v, want %v; %+v", back, kinds, want, plan.Unplaced)
		}
		// kube-scheduler would bind web to the replacement of other's node, which is emptier.
		s = scenariotest.Cluster(t, append(types(back), "node n1 pool=p type=eight zone=a quiet=1h", "pod web cpu=500m node=n1 owner=Deployment/web on-demand-share=1 age=5h",
			"node n2 pool=p type=eight zone=a quiet=1h", "pod big cpu=6 node=n2 owner=Deployment/big do-not-disrupt age=5h",
			"node n3 pool=p type=sixteen zone=a capacity=on-demand quiet=1h", "pod other cpu=3 mem=2Gi node=n3 owner=Deployment/other age=5h")...)
		for _, machine := range []string{"new", "there"} {
			if machine == "there" { // the machine to which kube-scheduler would bind the pod exists already
				s = scenariotest.Cluster(t, append(types(back)[:3], "node n1 pool=p type=eight zone=a quiet=1h", "pod web cpu=500m node=n1 owner=Deployment/web on-demand-share=1 age=5h",
					"node n2 pool=p type=eight zone=a quiet=1h", "pod big cpu=6 node=n2 owner=Deployment/big do-not-disrupt age=5h",
					"node n3 pool=p type=eight zone=a quiet=1h", "pod other cpu=3 node=n3 owner=Deployment/other age=5h do-not-disrupt",
					fmt.Sprintf("patch node n3 labels=karpenter.sh/capacity-type:reserved,%s:%v", kube.InterruptibleReservation, back))...)
			}
			stays := slices.ContainsFunc(disruption.Plan(s, engine.Options{}, nil).Kept, func(k engine.Kept) bool { return k.Node == "n1" && k.Reason.Code == engine.OnDemandShareLost })
			if stays != back {
				t.Errorf("%s, taken back %v: n1 stays %v", machine, back, stays)
			}
		}
	}
}

// A share of 0 changes nothing.
func TestLawAShareOfNothingChangesNothing(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		with := *s
		with.Pods = nil
		for i, pod := range s.Pods {
			pod = pod.DeepCopy()
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.OnDemandShareAnnotationKey, []string{"0%", "none", "-1"}[i%3])
			with.Pods = append(with.Pods, pod)
		}
		for name, of := range map[string]func(s *engine.Snapshot) *engine.Plan{
			"provision": func(s *engine.Snapshot) *engine.Plan { return provisioning.Plan(s, engine.Options{}, nil) },
			"disrupt":   func(s *engine.Snapshot) *engine.Plan { return disruption.Plan(s, engine.Options{}, nil) },
		} {
			got, want := of(&with), of(s)
			got.Notes, want.Notes = nil, nil
			if a, b := scenariotest.Text(t, got), scenariotest.Text(t, want); a != b {
				t.Errorf("seed %d, %s: %s", seed, name, scenariotest.FirstDifference(a, b))
			}
		}
	})
}

// If kube-scheduler would bind many pods to spot machines, their nodes stay for the reason OnDemandShareLost, and not for WouldStrand.
func TestNodesOfManyLostSharesSayWhatKeepsThem(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p budget=100% capacity in (spot,on-demand)", "type two cpu=2 mem=8Gi price=0.10 spot=0.03", "type big cpu=400 mem=1600Gi price=20 spot=6",
		"node full pool=p type=big zone=a capacity=on-demand quiet=1h", "pod big cpu=300 node=full owner=Deployment/big do-not-disrupt age=5h",
		"node empty pool=p type=big zone=a capacity=spot quiet=1h", "pod mid cpu=150 node=empty owner=Deployment/mid do-not-disrupt age=5h"}
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("node n%d pool=p type=two zone=a capacity=on-demand quiet=1h", i), fmt.Sprintf("pod p%d cpu=1500m node=n%d owner=Deployment/o%d on-demand-share=1 age=5h", i, i, i))
	}
	codes := map[engine.Code]int{}
	for _, k := range disruption.Plan(scenariotest.Cluster(t, lines...), engine.Options{}, nil).Kept {
		codes[k.Reason.Code]++
	}
	if codes[engine.WouldStrand] > 0 || codes[engine.OnDemandShareLost] < 50 {
		t.Errorf("%v keep nodes, want OnDemandShareLost", codes)
	}
}
