package engine_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// lostAtOnce says of each owner how many of its pods are on spot machines, once the plan is carried out, that may all be of one type in one
// zone; the owners' pods with a place are in total.
func lostAtOnce(s *engine.Snapshot, plan *engine.Plan) (most, total map[string]int) {
	at, total, most := map[[3]string]int{}, map[string]int{}, map[string]int{}
	owner := map[engine.PodID]string{}
	nodes := map[string]map[string]string{} // labels, of what is not registered those of its claim
	for _, n := range s.Nodes {
		nodes[n.Name] = n.Labels
	}
	for _, c := range s.NodeClaims {
		if name := cmp.Or(c.Status.NodeName, c.Name); nodes[name][v1.RegisteredLabelKey] != "true" {
			nodes[name] = c.Labels
		}
	}
	add := func(name, kind, zone string) {
		at[[3]string{name, kind, zone}]++
		most[name] = max(most[name], at[[3]string{name, kind, zone}])
	}
	runs := func(name, node string) {
		total[name]++
		if n := nodes[node]; n[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot {
			add(name, n[corev1.LabelInstanceTypeStable], n[corev1.LabelTopologyZone])
		}
	}
	for _, pod := range s.Pods {
		c := metav1.GetControllerOf(pod)
		if c == nil {
			continue
		}
		owner[engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}] = c.Kind + " " + pod.Namespace + "/" + c.Name
		if n := nodes[pod.Spec.NodeName]; n != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			runs(c.Kind+" "+pod.Namespace+"/"+c.Name, pod.Spec.NodeName)
		}
	}
	for _, p := range plan.Placements {
		if name := owner[p.Pod]; name != "" {
			runs(name, p.Node)
		}
	}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			if owner[id] == "" {
				continue
			}
			total[owner[id]]++
			for _, o := range l.Offerings {
				if o.CapacityType == v1.CapacityTypeSpot {
					add(owner[id], o.InstanceType, o.Zone)
				}
			}
		}
	}
	return most, total
}

// Whatever the cluster, machines are those of the plan without regard to what is lost together, and list no more than there: so no more of any
// owner can be lost at once, each machine is dearer by the share that is allowed at most, and nothing breaks a rule. Nothing is left out of lists
// in vain.
func TestLawWhatIsLostTogetherIsNeverMore(t *testing.T) {
	t.Parallel()
	divided, better := 0, 0
	eachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s, _ = sharing(seed, s)
		for _, share := range []float64{0, 0.1, 1e-9} {
			with := engine.Options{SpotSpreadShare: share}
			plan, without := provisioning.Plan(s, with, nil), provisioning.Plan(s, engine.Options{SpotSpreadShare: -1}, nil)
			for _, fault := range faults(s, plan) {
				t.Errorf("seed %d: %s", seed, fault)
			}
			if len(plan.Launches) != len(without.Launches) || fmt.Sprint(plan.Placements, plan.Sequence, plan.Unplaced) != fmt.Sprint(without.Placements, without.Sequence, without.Unplaced) {
				t.Fatalf("seed %d: other machines, or other places\n%s\nnot\n%s", seed, scenario.Print(plan), scenario.Print(without))
			}
			cuts, gains := 0, 0
			limit := 1 + with.EffectiveSpotSpreadShare() + 1e-12
			for i, l := range plan.Launches {
				other := without.Launches[i]
				if !slices.Equal(l.Pods, other.Pods) || l.NodePool != other.NodePool || l.Price > other.Price*limit || l.Worst() > other.Worst() {
					t.Errorf("seed %d: %s costs %v for %v, and %v for %v without", seed, l.Name, l.Price, l.Pods, other.Price, other.Pods)
				}
				for _, o := range l.Offerings {
					if !slices.Contains(other.Offerings, o) {
						t.Errorf("seed %d: %s lists %s, which it does not without", seed, l.Name, o.OfferingID)
					}
				}
				if (len(l.Offerings) < len(other.Offerings)) != (l.Why.Division != nil) {
					t.Errorf("seed %d: %s lists %d of %d, because %v", seed, l.Name, len(l.Offerings), len(other.Offerings), l.Why.Division)
				}
				if l.Why.Division != nil {
					cuts++
				}
			}
			most, total := lostAtOnce(s, plan)
			before, _ := lostAtOnce(s, without)
			for name := range total {
				if most[name] > before[name] {
					t.Errorf("seed %d: of the %d pods of %s %d can be lost at once, and %d without", seed, total[name], name, most[name], before[name])
				}
				if most[name] < before[name] {
					gains++
				}
			}
			if cuts > 0 && gains == 0 {
				t.Errorf("seed %d: %d lists are shorter, and as much as before of each owner can be lost at once", seed, cuts)
			}
			divided, better = divided+cuts, better+gains
		}
	})
	if divided < 10 || better < 10 {
		t.Errorf("%d lists are shorter, and less of %d owners can be lost at once: the random clusters do not try it", divided, better)
	}
}

// A cache that has seen the cluster without regard to that gives no other plan.
func TestLawCachesKnowWhatIsLostTogether(t *testing.T) {
	t.Parallel()
	eachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s, _ = sharing(seed, s)
		cache := &inventory.Cache{}
		for _, share := range []float64{-1, 0, 0.2} {
			opt := engine.Options{SpotSpreadShare: share}
			if got, want := text(t, provisioning.Plan(s, opt, cache)), text(t, provisioning.Plan(s, opt, nil)); got != want {
				t.Errorf("seed %d, %v: %s", seed, share, firstDifference(got, want))
			}
		}
	})
}

// Of an owner that has a machine for each of its pods no more than half are lost at once, or no more than their number makes necessary, where
// two zones or two types cost about the same; and what runs already is counted.
func TestLawNoMoreThanHalfOfAnOwnerIsLostAtOnce(t *testing.T) {
	t.Parallel()
	const within, beyond = 1.015, 1.05
	for seed := range enginetest.Draws(200) {
		rng := rand.New(rand.NewPCG(seed, 53))
		zones, types := 1+rng.IntN(4), 1+rng.IntN(4)
		if zones == 1 && types == 1 {
			zones = 2
		}
		var text strings.Builder
		text.WriteString("pool spot capacity in (spot)\n")
		cheap, cheapZones := 0, map[int]bool{}
		for kind := range types {
			fmt.Fprintf(&text, "type t%d cpu=2 mem=4Gi", kind)
			for zone := range zones {
				factor := 1.0
				if kind+zone > 0 {
					factor = []float64{1, within, beyond}[rng.IntN(3)]
				}
				if factor != beyond {
					cheapZones[zone] = true
					cheap++
				}
				fmt.Fprintf(&text, " offer=(zone=z%d capacity=spot price=%v)", zone, 0.02*factor)
			}
			text.WriteString("\n")
		}
		replicas, running := 2+rng.IntN(9), rng.IntN(4)
		fmt.Fprintf(&text, "pods web x%d cpu=1500m owner=Deployment/web\n", replicas)
		for i := range running {
			fmt.Fprintf(&text, "node n%d pool=spot type=t0 zone=z0 capacity=spot\npod old-%d cpu=1500m owner=Deployment/web node=n%d\n", i, i, i)
		}
		f, err := scenario.Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		plan := provisioning.Plan(f.Snapshot, engine.Options{}, nil)
		most, total := lostAtOnce(f.Snapshot, plan)
		name := "ReplicaSet default/web"
		if n := total[name]; n != replicas+running || len(plan.Launches) != replicas {
			t.Fatalf("seed %d: %d pods on %d machines\n%s", seed, n, len(plan.Launches), text.String())
		}
		allowed := replicas + running
		if len(cheapZones) > 1 || zones == 1 && cheap > 1 {
			allowed = max(running, (replicas+running+1)/2)
		}
		if most[name] > allowed {
			t.Errorf("seed %d: %d of %d can be lost at once, %d zones cost about the same\n%s\n%s", seed, most[name], total[name], len(cheapZones), text.String(), scenario.Print(plan))
		}
	}
}

// Machines that cost nothing are divided for nothing.
func TestWhatCostsNothingIsNoDearer(t *testing.T) {
	t.Parallel()
	s := clusterOf(t, "pool general capacity in (spot)", "type small cpu=2 mem=4Gi zones=a,b spot=0", "pods web x2 cpu=1500m owner=Deployment")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	text(t, plan) // which no number that is none survives
	if n := len(plan.Launches); n != 2 || plan.Launches[0].Offerings[0].Zone == plan.Launches[1].Offerings[0].Zone || plan.Launches[1].Why.Division.Dearer != 0 {
		t.Errorf("%s", scenario.Print(plan))
	}
}

// What can be lost at once, and what that costs, in a catalog like EC2's: forty owners, five seeds.
func TestWhatFewerLossesCost(t *testing.T) {
	t.Parallel()
	var clusters []*engine.Snapshot
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed+1, 1))
		lines := []string{"catalog aws", "pool general karpenter.k8s.aws/instance-category in (c,m,r) arch in (amd64) karpenter.k8s.aws/instance-generation > 4 capacity in (spot,on-demand)"}
		for o := range 40 {
			lines = append(lines, fmt.Sprintf("pods w%d x%d cpu=%dm mem=%dMi owner=Deployment", o, 2+rng.IntN(20), 250*(1+rng.IntN(8)), 512*(1+rng.IntN(16))))
		}
		clusters = append(clusters, clusterOf(t, lines...))
	}
	measure := func(share float64) (cost, mean float64) {
		owners, listed, machines := 0, 0, 0
		for _, s := range clusters {
			plan := provisioning.Plan(s, engine.Options{SpotSpreadShare: share}, nil)
			cost += plan.Cost.LaunchesPerHour
			most, total := lostAtOnce(s, plan)
			for name, n := range total {
				mean += float64(most[name]) / float64(n)
				owners++
			}
			for _, l := range plan.Launches {
				listed, machines = listed+len(l.Offerings), machines+1
			}
		}
		mean /= float64(owners)
		t.Logf("share %v: %.2f USD/h, %.0f %% of an owner can be lost at once, %.1f offerings for each of %d machines", share, cost, 100*mean, float64(listed)/float64(machines), machines)
		return cost, mean
	}
	cost, mean := measure(-1)
	for _, share := range []float64{0.02, 0.05, 0.15} {
		if c, m := measure(share); c > cost*(1+share) || m > mean-0.1 {
			t.Errorf("share %v: %v USD/h and %.2f of an owner, %v and %.2f without", share, c, m, cost, mean)
		}
	}
}
