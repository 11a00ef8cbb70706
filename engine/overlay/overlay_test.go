package overlay_test

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// cluster returns a cluster whose overlays have not been applied yet.
func cluster(t testing.TB, text string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s := *f.Snapshot
	s.Classes = s.ListedClasses()
	return &s
}

const market = `
pool blue labels=team:blue
pool green labels=team:green zone in (a)
type one cpu=2 mem=4Gi zones=a,b price=5 spot=2 labels=family:x,gen:3
type gpu cpu=8 mem=32Gi nvidia.com/gpu=1 zones=a price=10 labels=family:y
`

// prices returns the prices of a pool's offerings as text.
func prices(s *engine.Snapshot, pool string) string {
	var out []string
	for _, t := range kube.ClassOf(s, kube.FindPool(s, pool)).InstanceTypes {
		for _, o := range t.Offerings {
			out = append(out, fmt.Sprintf("%s/%s/%s=%.4g", t.Name, o.Zone, o.CapacityType, o.Price))
		}
	}
	return strings.Join(out, " ")
}

func verdicts(list []overlay.Verdict) string {
	var out []string
	for _, v := range list {
		out = append(out, strings.TrimSuffix(v.Overlay.Name+":"+v.Reason, ":"))
	}
	return strings.Join(out, " ")
}

func TestPricesAreCorrectedWhereRequirementsSay(t *testing.T) {
	t.Parallel()
	const plain = "gpu/a/on-demand=10 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2"
	for name, c := range map[string]struct{ overlay, blue, green string }{
		"none":               {"", plain, plain},
		"a price":            {"overlay o price=1.5", "gpu/a/on-demand=1.5 one/a/on-demand=1.5 one/a/spot=1.5 one/b/on-demand=1.5 one/b/spot=1.5", "same"},
		"more percent":       {"overlay o adjust=+10% type in (one)", "gpu/a/on-demand=10 one/a/on-demand=5.5 one/a/spot=2.2 one/b/on-demand=5.5 one/b/spot=2.2", "same"},
		"more than double":   {"overlay o adjust=+250% type in (gpu)", "gpu/a/on-demand=35 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"less percent":       {"overlay o adjust=-10% capacity in (spot)", "gpu/a/on-demand=10 one/a/on-demand=5 one/a/spot=1.8 one/b/on-demand=5 one/b/spot=1.8", "same"},
		"nothing":            {"overlay o adjust=-100% type in (gpu)", "gpu/a/on-demand=1e-06 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"an amount more":     {"overlay o adjust=+.05 type in (gpu)", "gpu/a/on-demand=10.05 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"below zero":         {"overlay o adjust=-7.5 type in (one) zone in (a)", "gpu/a/on-demand=10 one/a/on-demand=5e-07 one/a/spot=2e-07 one/b/on-demand=5 one/b/spot=2", "same"},
		"a label of types":   {"overlay o price=1 family in (y)", "gpu/a/on-demand=1 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"a number":           {"overlay o price=1 gen >= 3", "gpu/a/on-demand=10 one/a/on-demand=1 one/a/spot=1 one/b/on-demand=1 one/b/spot=1", "same"},
		"a pool":             {"overlay o price=1 pool in (blue) type in (gpu)", "gpu/a/on-demand=1 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", plain},
		"a label of pools":   {"overlay o price=1 team in (green) type in (gpu)", plain, "gpu/a/on-demand=1 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2"},
		"an unknown key":     {"overlay o price=1 nobody in (has)", plain, plain},
		"not an unknown key": {"overlay o price=1 nobody notin (has) type in (gpu)", "gpu/a/on-demand=1 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"unknown and absent": {"overlay o price=1 nobody absent type in (gpu)", "gpu/a/on-demand=1 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2", "same"},
		"unknown, there":     {"overlay o price=1 nobody exists", plain, plain},
		"unknown number":     {"overlay o price=1 nobody > 0", plain, plain},
		"heavier first":      {"overlay a price=1 weight=10 type in (one) zone in (b)\noverlay b price=3", "gpu/a/on-demand=3 one/a/on-demand=3 one/a/spot=3 one/b/on-demand=1 one/b/spot=1", "same"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t, market+c.overlay+"\n")
			for _, v := range overlay.Apply(s) {
				if v.Reason != "" {
					t.Errorf("%s: %s", v.Reason, v.Message)
				}
			}
			if got := prices(s, "blue"); got != c.blue {
				t.Errorf("blue: %s, want %s", got, c.blue)
			}
			if want := strings.ReplaceAll(c.green, "same", c.blue); prices(s, "green") != want {
				t.Errorf("green: %s, want %s", prices(s, "green"), want)
			}
		})
	}
}

func TestOverlaysOfOneWeightConflict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ overlays, verdicts, says string }{
		"one price, one offering":           {"overlay a price=1\noverlay b price=1", "a:Conflict b", "conflict with NodeOverlay b, which has the same weight (0) and sets the price of gpu/a/on-demand in NodePool blue too"},
		"other offerings":                   {"overlay a price=1 zone in (a)\noverlay b price=1 zone in (b)", "a b", ""},
		"in one pool of two":                {"overlay a price=1\noverlay b price=2 pool in (green)", "a:Conflict b", "in NodePool green"},
		"other weights":                     {"overlay a price=1 weight=1\noverlay b price=2", "a b", ""},
		"heavier, beside one of its weight": {"overlay a price=1 x.io/z=1 weight=2\noverlay b price=2 x.io/z=2\noverlay c x.io/y=1", "a b c", ""},
		"price and capacity":                {"overlay a price=1\noverlay b x.io/y=1", "a b", ""},
		"other resources":                   {"overlay a x.io/y=1\noverlay b x.io/z=1", "a b", ""},
		"with one before the last": {"overlay a x.io/y=1\noverlay b x.io/z=1\noverlay c x.io/y=2", "a:Conflict b c",
			"conflict with NodeOverlay c, which has the same weight (0) and sets x.io/y of gpu in NodePool blue too"},
		"what lost is not in the way": {"overlay a price=1 type in (one)\noverlay b price=1 type in (one,gpu)\noverlay c price=1 type in (gpu)", "a b:Conflict c", "NodeOverlay c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t, market+c.overlays+"\n")
			list := overlay.Apply(s)
			if got := verdicts(list); got != c.verdicts {
				t.Errorf("got %s, want %s", got, c.verdicts)
			}
			for _, v := range list {
				if v.Reason != "" && !strings.Contains(v.Message, c.says) {
					t.Errorf("%s: %s", v.Overlay.Name, v.Message)
				}
			}
		})
	}
	s := cluster(t, market+"overlay a price=1\noverlay b price=2 pool in (green)\n")
	overlay.Apply(s)
	if got := prices(s, "blue"); strings.Contains(got, "=1") && !strings.Contains(got, "gpu/a/on-demand=10") {
		t.Errorf("an overlay that lost in one pool is in force in another: %s", got)
	}
}

func TestCapacityReplacesWhatTheTypeHas(t *testing.T) {
	t.Parallel()
	s := cluster(t, market+"overlay a nvidia.com/gpu=4 type in (gpu) zone in (a)\noverlay b hugepages-2Mi=2Gi type in (one) weight=2\noverlay c x.io/y=3\n")
	list := overlay.Apply(s)
	class := kube.ClassOf(s, s.NodePools[0])
	gpu, one := &class.InstanceTypes[0], &class.InstanceTypes[1]
	if n := gpu.Capacity["nvidia.com/gpu"]; n.Value() != 4 || gpu.Added["nvidia.com/gpu"] != "a" {
		t.Errorf("gpu: %v %v", gpu.Capacity, gpu.Added)
	}
	if n := one.Capacity["x.io/y"]; n.Value() != 3 {
		t.Errorf("one: %v", one.Capacity)
	}
	if memory := one.Allocatable()[corev1.ResourceMemory]; memory.Value() != 2<<30 {
		t.Errorf("memory left beside huge pages: %s", memory.String())
	}
	if !strings.Contains(list[0].Message, "do not narrow it further") || strings.Contains(list[1].Message, "narrow") {
		t.Errorf("messages: %q, %q", list[0].Message, list[1].Message)
	}
	before := cluster(t, market)
	if base := kube.FindClass(s, s.NodePools[0].Spec.Template.Spec.NodeClassRef); !reflect.DeepEqual(base.InstanceTypes, before.Classes[0].InstanceTypes) {
		t.Error("the provider's own catalog has changed")
	}
}

func TestWhatIsWrongIsInForceNowhere(t *testing.T) {
	t.Parallel()
	price := func(text string) func(*v1alpha1.NodeOverlay) {
		return func(o *v1alpha1.NodeOverlay) { o.Spec.Price = &text }
	}
	adjust := func(text string) func(*v1alpha1.NodeOverlay) {
		return func(o *v1alpha1.NodeOverlay) { o.Spec.PriceAdjustment = &text }
	}
	capacity := func(name, amount string) func(*v1alpha1.NodeOverlay) {
		return func(o *v1alpha1.NodeOverlay) {
			o.Spec.Capacity = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
		}
	}
	requires := func(key string, op v1.Operator, values ...string) func(*v1alpha1.NodeOverlay) {
		return func(o *v1alpha1.NodeOverlay) {
			o.Spec.Requirements = append(o.Spec.Requirements, v1alpha1.Requirement{Key: key, Operator: op, Values: values})
		}
	}
	for says, wrong := range map[string][]func(*v1alpha1.NodeOverlay){
		`spec.price is "-1": write a price`:                 {price("-1")},
		`spec.price is "NaN": write a price`:                {price("NaN")},
		`it must be at most 1000000`:                        {price(strings.Repeat("9", 400))},
		`spec.priceAdjustment is "5": write an amount`:      {adjust("5")},
		`spec.priceAdjustment is "+5%%": write an amount`:   {adjust("+5%%")},
		`spec.priceAdjustment is "+1.": write an amount`:    {adjust("+1.")},
		`"-101%": a price cannot fall by more than 100%`:    {adjust("-101%")},
		`"+9999999%": it must be at most`:                   {adjust("+9999999%")},
		`cannot both be set`:                                {price("1"), adjust("+1")},
		`spec.capacity[cpu]: cpu, memory`:                   {capacity("cpu", "1")},
		`spec.capacity[nodes]: nodes are counted`:           {capacity("nodes", "1")},
		`spec.capacity[x.io/y] is -1: it must be 0 or more`: {capacity("x.io/y", "-1")},
		`spec.capacity[x.io/y] is 2500m: no node`:           {capacity("x.io/y", "2500m")},
		`spec.capacity[x.io/y] is 9e30`:                     {capacity("x.io/y", "9e30")},
		`no resource can have this name`:                    {capacity("x io", "1")},
		`(kubernetes.io/hostname): every machine`:           {requires("kubernetes.io/hostname", v1.Exists)},
		`(karpenter.kwok.sh/kwoknodeclass): node classes`:   {requires("karpenter.kwok.sh/kwoknodeclass", v1.In, "x")},
		`operator In needs at least one value`:              {requires("zone", v1.In)},
		`compares with a whole number of 0 or more`:         {requires("gen", v1.Gt, "-1")},
		`operator Exists takes no values`:                   {requires("gen", v1.Exists, "1")},
		`there is no operator "Near"`:                       {requires("gen", "Near", "1")},
		`no label can have the value "a b"`:                 {requires("gen", v1.In, "a b")},
		`no label can have this key`:                        {requires("a b", v1.Exists)},
		`spec.requirements[1] (b b): `:                      {requires("gen", v1.Exists), requires("b b", v1.Exists)},
	} {
		s := cluster(t, market+"overlay fine price=3 type in (gpu)\n")
		o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}}
		for _, f := range wrong {
			f(o)
		}
		s.NodeOverlays = append(s.NodeOverlays, o)
		list := overlay.Apply(s)
		if got := verdicts(list); got != "fine wrong:RuntimeValidation" || !strings.Contains(list[1].Message, says) {
			t.Errorf("%s: %s, %q", says, got, list[1].Message)
		}
		if got := prices(s, "green"); got != "gpu/a/on-demand=3 one/a/on-demand=5 one/a/spot=2 one/b/on-demand=5 one/b/spot=2" {
			t.Errorf("%s: prices %s", says, got)
		}
	}
}

func TestTypesWithoutAPriceBecomeUsable(t *testing.T) {
	t.Parallel()
	for text, usable := range map[string]bool{
		"overlay o price=3 type in (gpu)":             true,
		"overlay o price=3 type in (gpu) zone in (a)": false,
		"overlay o price=3":                           false,
		"overlay o adjust=+3 type in (gpu)":           false,
		"overlay o price=3 x.io/y=1 type in (gpu)":    false,
	} {
		s := cluster(t, market+text+"\n")
		o := &s.Classes[0].InstanceTypes[0].Offerings[0]
		o.Price, o.SoldOut, o.Unpriced = 0, true, true
		list := overlay.Apply(s)
		got := kube.ClassOf(s, s.NodePools[0]).InstanceTypes[0].Offerings[0]
		if usable && (got.SoldOut || got.Price != 3 || got.ListPrice != 0) || !usable && (!got.SoldOut || got.Price != 0) {
			t.Errorf("%s: %+v", text, got)
		}
		if said := strings.Contains(list[0].Message, "what has no price stays without one"); said == usable {
			t.Errorf("%s: %s", text, list[0].Message)
		}
	}
}

func TestMessagesSayWhatAnOverlayDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"overlay o adjust=-10% type in (one)":             "corrects the price of 8 offerings in 2 NodePools: blue, green",
		"overlay o adjust=-10% pool in (blue)":            "corrects the price of 5 offerings in 1 NodePool: blue",
		"overlay o x.io/y=1 price=1 pool in (blue)":       "corrects the price of 5 offerings and sets x.io/y of 2 instance types in 1 NodePool: blue",
		"overlay o price=1 type in (t9.huge)":             "it selects nothing: no NodePool buys an instance type that meets its requirements",
		"overlay o type in (one)":                         "it has no effect: set price, priceAdjustment or capacity, or the annotations tenon.sh/interruption-rate and tenon.sh/interruption-cost",
		"overlay o price=1\noverlay p price=2 weight=3":   "it has no effect: heavier overlays correct all that it selects",
		"overlay o nvidia.com/gpu.shared=4 type in (gpu)": "nodes that show nvidia.com/gpu.shared usually show 0 of nvidia.com/gpu",
	} {
		s := cluster(t, market+text+"\n")
		if list := overlay.Apply(s); !strings.Contains(list[0].Message, want) {
			t.Errorf("%s: %q, want %q", text, list[0].Message, want)
		}
	}
}

func TestNodesThatShowSomethingElseAreNamed(t *testing.T) {
	t.Parallel()
	s := cluster(t, market+"overlay o nvidia.com/gpu=4\noverlay p x.io/y=1\nnode n pool=blue type=gpu\nnode starting pool=blue type=gpu uninitialized allocatable=x.io/y:0\n")
	s.Nodes[0] = s.Nodes[0].DeepCopy()
	s.Nodes[0].Status.Capacity["nvidia.com/gpu"] = resource.MustParse("8")
	overlay.Apply(s)
	got := overlay.Differing(s)
	if len(got) != 1 || got[0].Overlay.Name != "o" || !strings.Contains(got[0].Message, "it says 4 of nvidia.com/gpu for gpu, and node n shows 8") {
		t.Errorf("%+v", got)
	}
	key := got[0].Key
	for i := range 4 {
		n := s.Nodes[0].DeepCopy()
		n.Name, n.Status.Capacity["nvidia.com/gpu"] = "a"+strconv.Itoa(i), resource.MustParse(strconv.Itoa(8+i))
		s.Nodes = append(s.Nodes, n)
		got = overlay.Differing(s)
		if len(got) != 1 || (got[0].Key == key) != (i == 0) || !strings.Contains(got[0].Message, "node a0 shows 8") {
			t.Errorf("%d other nodes differ: %+v, it was %q", i+1, got, key)
		}
		key = got[0].Key
	}
	if !strings.Contains(got[0].Message, "; and 1 more: correct the overlay") {
		t.Error(got[0].Message)
	}
}

func TestMemoHandsOutTheSameCatalogs(t *testing.T) {
	t.Parallel()
	var m overlay.Memo
	s := cluster(t, market+"overlay o price=1\n")
	first, second := *s, *s
	if m.Lay(&first) != m.Lay(&second) || &first.Classes[1].InstanceTypes[0] != &second.Classes[1].InstanceTypes[0] {
		t.Error("nothing has changed, and catalogs are other ones")
	}
	second = *s
	second.Classes = s.ListedClasses()
	second.Classes[0].Problem = "gone"
	if m.Lay(&second); second.Classes[1].Problem != "gone" {
		t.Error("what a class says beside what it sells is out of date")
	}
	second = *s
	o := s.NodeOverlays[0].DeepCopy()
	two := "2"
	o.Spec.Price, o.ResourceVersion = &two, "7"
	second.NodeOverlays = []*v1alpha1.NodeOverlay{o}
	if m.Lay(&second); kube.ClassOf(&second, s.NodePools[0]).InstanceTypes[0].Offerings[0].Price != 2 {
		t.Error("another overlay changes nothing")
	}
}

func TestLaunchesBuyFromCorrectedCatalogs(t *testing.T) {
	t.Parallel()
	s := cluster(t, market+"overlay o price=1 x.io/y=2 pool in (blue)\noverlay wrong price=9 pool in (blue)\n")
	types := s.Classes[0].InstanceTypes
	r := overlay.Correct(s.NodeOverlays, s.NodePools, s.Classes, nil)
	blue, green := r.For(kube.FindPool(s, "blue"), types[:1]), r.For(kube.FindPool(s, "green"), types)
	if len(blue) != 1 || blue[0].Offerings[0].Price != 9 || blue[0].Added["x.io/y"] != "" {
		t.Errorf("blue buys %+v", blue) // the overlay with the later name is in force, the other one nowhere
	}
	if &green[0] != &types[0] {
		t.Error("a pool that no overlay is about buys from another catalog")
	}
}

func TestMachinesGetWhatOverlaysAdd(t *testing.T) {
	t.Parallel()
	s := cluster(t, market+"overlay o hugepages-2Mi=1Gi x.io/y=2 type in (one)\n")
	overlay.Apply(s)
	kind := &kube.ClassOf(s, s.NodePools[0]).InstanceTypes[1]
	m := engine.Machine{Capacity: s.Classes[0].InstanceTypes[1].Capacity, Allocatable: s.Classes[0].InstanceTypes[1].Allocatable()}
	for range 2 { // a resource that a provider has added is not added again
		overlay.AddTo(&m, kind)
	}
	y, memory := m.Allocatable["x.io/y"], m.Allocatable[corev1.ResourceMemory]
	if y.Value() != 2 || memory.Value() != 3<<30 {
		t.Errorf("%v", m.Allocatable)
	}
	if _, ok := s.Classes[0].InstanceTypes[1].Capacity["x.io/y"]; ok {
		t.Error("the catalog has changed")
	}
}

// TestOrderDoesNotMatter applies the same overlays to the same classes in another order.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	text := market + "overlay a price=1\noverlay b price=2 zone in (a)\noverlay c x.io/y=1\noverlay d x.io/y=2 type in (gpu)\noverlay e adjust=+3 weight=4 pool in (blue)\n"
	s, other := cluster(t, text), cluster(t, text)
	for i, j := 0, len(other.NodeOverlays)-1; i < j; i, j = i+1, j-1 {
		other.NodeOverlays[i], other.NodeOverlays[j] = other.NodeOverlays[j], other.NodeOverlays[i]
	}
	other.NodePools[0], other.NodePools[1] = other.NodePools[1], other.NodePools[0]
	a, b := overlay.Apply(s), overlay.Apply(other)
	for i := range a {
		if a[i].Reason != b[i].Reason || a[i].Message != b[i].Message {
			t.Errorf("%s: %q, in another order %q", a[i].Overlay.Name, a[i].Message, b[i].Message)
		}
	}
	if !reflect.DeepEqual(s.Classes, other.Classes) {
		t.Error("catalogs differ")
	}
}

// many returns all types of EC2, in so many pools, with so many overlays. Each overlay corrects the price of half of the types.
func many(pools, overlays int) *engine.Snapshot {
	ref := v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	s := &engine.Snapshot{Classes: []engine.Class{{Ref: ref, InstanceTypes: workload.Catalog()}}}
	for i := range pools {
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool-%d", i)}}
		p.Spec.Template.Spec.NodeClassRef = &ref
		s.NodePools = append(s.NodePools, p)
	}
	for i := range overlays {
		weight, more := int32(i+1), fmt.Sprintf("-%d%%", i%50+1)
		o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("overlay-%d", i)}}
		o.Spec.Weight, o.Spec.PriceAdjustment = &weight, &more
		o.Spec.Requirements = []v1alpha1.Requirement{{Key: v1.NodePoolLabelKey, Operator: v1.NotIn, Values: []string{fmt.Sprintf("pool-%d", i%pools)}},
			{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{[]string{"amd64", "arm64"}[i%2]}}}
		s.NodeOverlays = append(s.NodeOverlays, o)
	}
	return s
}

func BenchmarkManyOverlays(b *testing.B) {
	s := many(20, 200)
	for b.Loop() {
		overlay.Correct(s.NodeOverlays, s.NodePools, s.Classes, nil)
	}
	b.ReportMetric(float64(len(s.Classes[0].InstanceTypes)), "types")
}

func FuzzOverlaysNeverBreakCatalogs(f *testing.F) {
	f.Add("1.5", "+10%", "nvidia.com/gpu", "4", "zone", "In", "a", int32(3))
	f.Add("-1", "-101%", "cpu", "-4", "kubernetes.io/hostname", "Gt", "", int32(-3))
	f.Add("", "+.5", "hugepages-2Mi", "9e99", "a b", "Exists", "x", int32(0))
	f.Fuzz(func(t *testing.T, price, adjust, name, amount, key, op, value string, weight int32) {
		s := cluster(t, market)
		o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "o"}}
		o.Spec.Weight = &weight
		if price != "" {
			o.Spec.Price = &price
		}
		if adjust != "" {
			o.Spec.PriceAdjustment = &adjust
		}
		if q, err := resource.ParseQuantity(amount); err == nil {
			o.Spec.Capacity = corev1.ResourceList{corev1.ResourceName(name): q}
		}
		o.Spec.Requirements = []v1alpha1.Requirement{{Key: key, Operator: v1.Operator(op), Values: []string{value}}}
		s.NodeOverlays = []*v1alpha1.NodeOverlay{o}
		list := overlay.Apply(s)
		if len(list) != 1 || list[0].Message == "" {
			t.Fatalf("%+v", list)
		}
		for _, c := range s.Classes {
			for _, kind := range c.InstanceTypes {
				for _, x := range kind.Offerings {
					if !(x.Price > 0) || math.IsInf(x.Price, 0) {
						t.Errorf("a price of %v", x.Price)
					}
				}
			}
		}
	})
}

// A price that an overlay sets is known. A price that an overlay raises by a share is unknown if the price before is.
func TestOverlaysSetPricesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	for text, unknown := range map[string]bool{"overlay o price=3 type in (gpu)": false, "overlay o adjust=+10% type in (gpu)": true} {
		s := cluster(t, market+text+"\n")
		o := &s.Classes[0].InstanceTypes[0].Offerings[0]
		o.Price, o.PriceUnknown = 999, true
		overlay.Apply(s)
		if got := kube.ClassOf(s, s.NodePools[0]).InstanceTypes[0].Offerings[0]; got.PriceUnknown != unknown || got.ListPrice != 0 || got.Overlay != "o" {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
