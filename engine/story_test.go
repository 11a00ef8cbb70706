package engine_test

import (
	"encoding/json"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario"
)

// Whatever there is in a cluster, it can be explained, the record can be written, and explaining it changes nothing.
func TestEverythingCanBeExplained(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(30) {
		s := scenario.Random(seed, scenario.Size{})
		before := written(t, s)
		plan, disrupt := provisioning.Plan(s, engine.Options{}, nil), disruption.Plan(s, engine.Options{}, nil)
		record := func(story any, summary string) {
			if summary == "" {
				t.Errorf("seed %d: no summary of %+v", seed, story)
			}
			written(t, story)
		}
		for _, pod := range s.Pods {
			story := explain.ExplainPod(s, engine.Options{}, plan, pod)
			record(story, story.Summary)
		}
		for _, node := range s.Nodes {
			story, ok := explain.ExplainNode(s, plan, disrupt, node.Name)
			if !ok {
				t.Errorf("seed %d: node %s is not known", seed, node.Name)
			}
			record(story, story.Summary)
		}
		for _, claim := range s.NodeClaims {
			story, ok := explain.ExplainNode(s, plan, disrupt, claim.Name)
			if !ok {
				t.Errorf("seed %d: claim %s is not known", seed, claim.Name)
			}
			record(story, story.Summary)
		}
		for _, pool := range s.NodePools {
			story := explain.ExplainPool(s, plan, pool)
			record(story, story.Summary)
		}
		written(t, explain.NewSavings(s, engine.Options{}))
		written(t, explain.NewSavings(explain.AssumePools(s, explain.SoldHere(s, catalog.KWOK())), engine.Options{}))
		if written(t, s) != before {
			t.Errorf("seed %d: explaining changed the snapshot", seed)
		}
	}
}

func written(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The pools' shares add up, and no plan costs less than the bound.
func TestAnAccountAddsUp(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(30) {
		s := scenario.Random(seed, scenario.Size{})
		for name, s := range map[string]*engine.Snapshot{"pools": s, "assumed": explain.AssumePools(s, explain.SoldHere(s, catalog.KWOK()))} {
			a := explain.NewSavings(s, engine.Options{})
			now, planned, nodes := 0.0, 0.0, len(a.Unpriced)+a.Outside
			for _, p := range a.Pools {
				now, planned, nodes = now+p.NowPerHour, planned+p.PlannedPerHour, nodes+p.Nodes
			}
			if math.Abs(now-a.NowPerHour) > 1e-9 || math.Abs(planned-a.PlannedPerHour) > 1e-9 || nodes != len(s.Nodes) {
				t.Errorf("seed %d, %s: pools cost %v now and %v planned with %d nodes, want %v, %v and %d",
					seed, name, now, planned, nodes, a.NowPerHour, a.PlannedPerHour, len(s.Nodes))
			}
			if a.BoundPerHour != nil && *a.BoundPerHour > a.PlannedPerHour+1e-6 {
				t.Errorf("seed %d, %s: the plan costs %v, less than the bound %v", seed, name, a.PlannedPerHour, *a.BoundPerHour)
			}
		}
	}
}

// A price is that of the very offering, or it is not known: a wrong one would be worse.
func TestPricesAreThoseOfTheCatalogOrUnknown(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`pool general
type large cpu=8 mem=16Gi offer=(zone=a price=0.17) offer=(zone=a price=0.02 labels=reservation:r1) offer=(zone=b price=0)
`)
	if err != nil {
		t.Fatal(err)
	}
	book := inventory.NewPriceBook(file.Snapshot)
	for name, c := range map[string]struct {
		labels map[string]string
		want   float64
	}{
		"as it says":                   {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a"}, 0.17},
		"by the names of old clusters": {map[string]string{"beta.kubernetes.io/instance-type": "large", "failure-domain.beta.kubernetes.io/zone": "a"}, 0.17},
		"of its reservation":           {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a", "reservation": "r1"}, 0.02},
		"not spot":                     {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a", "eks.amazonaws.com/capacityType": "SPOT"}, 0},
		"without a price":              {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "b"}, 0},
		"of another type":              {map[string]string{"node.kubernetes.io/instance-type": "huge", "topology.kubernetes.io/zone": "a"}, 0},
		"without labels":               {nil, 0},
	} {
		if got, known := book.Price(c.labels, nil); got != c.want || known != (c.want > 0) {
			t.Errorf("a node %s costs %v (known: %v), want %v", name, got, known, c.want)
		}
	}
}

func TestAmountsReadWell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resource, amount, want string }{
		{"cpu", "1500m", "1.5"}, {"memory", "1536Mi", "1.5Gi"}, {"memory", "0", "0"}, {"memory", "17179869184", "16Gi"},
		{"hugepages-2Mi", "4Mi", "4Mi"}, {"pods", "110", "110"}, {"nvidia.com/gpu", "8", "8"},
	} {
		if got := engine.AmountWords(corev1.ResourceName(c.resource), resource.MustParse(c.amount)); got != c.want {
			t.Errorf("%s %s reads %s, want %s", c.amount, c.resource, got, c.want)
		}
	}
	for usd, want := range map[float64]string{0.0335: "$0.0335", 0: "$0.0000", 0.000012: "$0.000012", -1.5: "-$1.5000", 12: "$12.0000"} {
		if got := engine.Dollars(usd); got != want {
			t.Errorf("%v reads %s, want %s", usd, got, want)
		}
	}
	price := engine.ResourcePrice{Resource: "cpu", Unit: "core", PerHour: 0.0335}
	if got, want := price.Sentence(), "a core is worth $0.0335/h here"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
