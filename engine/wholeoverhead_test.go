package engine_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// The cost of each node beside its machine has the same effect, and the same reports, as a higher price of each machine: in launches with their
// bound, in disruption, in savings, and in reports about pools, pods and nodes.
func TestLawWhatEveryNodeCostsIsAsGoodAsDearerMachines(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		with := paysAnyPrice(s)
		with.NodeOverheadPrice = 0.0625
		dear := dearer(with, with.NodeOverheadPrice)
		for name, of := range map[string]func(s *engine.Snapshot) any{
			"provision": func(s *engine.Snapshot) any { return provisioning.Plan(s, engine.Options{}, nil) },
			"disrupt":   func(s *engine.Snapshot) any { return disruption.Plan(s, engine.Options{}, nil) },
			"savings":   func(s *engine.Snapshot) any { return explain.NewSavings(s, engine.Options{}) },
			"pools": func(s *engine.Snapshot) any {
				var out []any
				plan := provisioning.Plan(s, engine.Options{}, nil)
				for _, p := range s.NodePools {
					out = append(out, explain.ExplainPool(s, plan, nil, p))
				}
				return out
			},
			"nodes": func(s *engine.Snapshot) any {
				out := map[string]float64{}
				for _, n := range s.Nodes {
					out[n.Name], _ = inventory.NewPriceBook(s).Price(n.Labels, nil)
				}
				return out
			},
		} {
			if got, want := jsonOf(t, of(with)), jsonOf(t, of(dear)); got != want {
				t.Errorf("seed %d, %s: %s", seed, name, scenariotest.FirstDifference(got, want))
			}
		}
	})
}

// A cache that has seen other prices gives the same plan.
func TestLawCachesKnowWhatNodesCost(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		cache := &inventory.Cache{}
		for _, usd := range []float64{0, 0.5, 0.01, 0} {
			with := *s
			with.NodeOverheadPrice = usd
			if got, want := scenariotest.Text(t, provisioning.Plan(&with, engine.Options{}, cache)), scenariotest.Text(t, provisioning.Plan(&with, engine.Options{}, nil)); got != want {
				t.Errorf("seed %d, %v: %s", seed, usd, scenariotest.FirstDifference(got, want))
			}
			if got, want := scenariotest.Text(t, disruption.Plan(&with, engine.Options{}, cache)), scenariotest.Text(t, disruption.Plan(&with, engine.Options{}, nil)); got != want {
				t.Errorf("seed %d, %v, disrupt: %s", seed, usd, scenariotest.FirstDifference(got, want))
			}
		}
	})
}

// paysAnyPrice returns the snapshot without pools whose pods wait for usual prices, because the multiple of the usual price depends on the
// machine alone.
func paysAnyPrice(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.NodePools = nil
	for _, p := range s.NodePools {
		p = p.DeepCopy()
		p.Annotations = maps.Clone(p.Annotations)
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[v1.PricePatienceAnnotationKey] = "0s"
		out.NodePools = append(out.NodePools, p)
	}
	return &out
}

// dearer returns the snapshot with the amount added to each price instead of each node.
func dearer(s *engine.Snapshot, usd float64) *engine.Snapshot {
	out := *s
	out.NodeOverheadPrice = 0
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
			for k := range types[j].Offerings {
				types[j].Offerings[k].Price += usd
			}
		}
		out.Classes[i].InstanceTypes = types
	}
	return &out
}

// Each machine costs its overlay's price plus the cost of each node. Without an overlay, it costs the list price plus the cost of each node.
func TestOverlaysAndWhatNodesCostAddUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overlay string
		want    float64
	}{
		{"", 0.5 + 0.25},
		{"overlay o price=0.125", 0.125 + 0.25},
		{"overlay o adjust=-50%", 0.25 + 0.25},
		{"overlay o adjust=+0.5", 1 + 0.25},
		{"overlay o adjust=-100%", 0.5*1e-7 + 0.25},
	} {
		s := scenariotest.Cluster(t, "node-overhead-price 0.25", "pool p", "type t cpu=4 mem=8Gi price=0.5", c.overlay, "node n pool=p type=t", "pod big cpu=3", "pod bound cpu=3 node=n")
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) != 1 || plan.Launches[0].Price != c.want || plan.Launches[0].Offerings[0].Price != c.want || plan.Cost.LaunchesPerHour != c.want {
			t.Errorf("%q: %s, want one launch for %v", c.overlay, scenariotest.Text(t, plan), c.want)
		}
		book := inventory.NewPriceBook(s)
		if got, known := book.Price(s.Nodes[0].Labels, nil); c.overlay == "" && (!known || got != c.want) {
			t.Errorf("a node of any class costs %v, want %v", got, c.want)
		}
		if got, known := book.Price(s.Nodes[0].Labels, s.NodePools[0].Spec.Template.Spec.NodeClassRef); !known || got != c.want {
			t.Errorf("%q: the node costs %v, want %v", c.overlay, got, c.want)
		}
		if got := book.ListPrice(s.Nodes[0].Labels, s.NodePools[0].Spec.Template.Spec.NodeClassRef); got != 0.5 {
			t.Errorf("%q: its list price is %v", c.overlay, got)
		}
	}
}

// DaemonSets' requests reduce the room of each machine. They count without any price.
func TestDaemonSetsMakeFewLargeMachinesWorthTheirPrice(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p", "type small cpu=2 mem=8Gi price=0.10", "type large cpu=8 mem=32Gi price=0.405", "pods web x4 cpu=1500m"}
	if n := len(provisioning.Plan(scenariotest.Cluster(t, lines...), engine.Options{}, nil).Launches); n != 4 {
		t.Errorf("%d machines without DaemonSets, want 4 small ones", n)
	}
	plan := provisioning.Plan(scenariotest.Cluster(t, append(lines, "daemonset agent cpu=600m")...), engine.Options{}, nil)
	if len(plan.Launches) != 1 || plan.Launches[0].InstanceTypes[0] != "large" {
		t.Errorf("with a DaemonSet: %s", scenariotest.Text(t, plan))
	}
	if got := plan.Launches[0].Requests[corev1.ResourceCPU]; got.MilliValue() != 6600 {
		t.Errorf("the machine is asked for %s", got.String())
	}
}

func jsonOf(t *testing.T, x any) string {
	t.Helper()
	out, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// An offering with an unknown price has no price, even while it is sold out, which removes the mark of the unknown price.
func TestAnUnknownPriceIsNotWhatNodesCostBeside(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node-overhead-price 0.02", "pool p", "type one cpu=2 mem=8Gi price=0.10", "node n pool=p type=one zone=a")
	for _, c := range []struct {
		offering engine.Offering
		want     float64
	}{{engine.Offering{Price: 0.10}, 0.12}, {engine.Offering{Unpriced: true}, 0}, {engine.Offering{SoldOut: true}, 0}, {engine.Offering{Price: 0.10, SoldOut: true}, 0.12}} {
		o := &s.Classes[0].InstanceTypes[0].Offerings[0]
		o.Price, o.Unpriced, o.SoldOut = c.offering.Price, c.offering.Unpriced, c.offering.SoldOut
		usd, known := inventory.NewPriceBook(s).Price(s.Nodes[0].Labels, nil)
		if math.Abs(usd-c.want) > 1e-9 || known != (c.want > 0) {
			t.Errorf("%+v: %v, known %v", c.offering, usd, known)
		}
	}
}
