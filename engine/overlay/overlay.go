package overlay

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// The reasons of the condition ValidationSucceeded of an overlay that is not in force.
const (
	RuntimeValidation = "RuntimeValidation"
	Conflict          = "Conflict"
)

// Verdict is the result for one overlay.
type Verdict struct {
	Overlay *v1alpha1.NodeOverlay
	// Reason is RuntimeValidation or Conflict for an overlay that is in force nowhere, empty for one that is in force.
	Reason string
	// Message explains why the overlay is not in force and how to correct that. For an overlay in force, it lists the prices and resources that the
	// overlay corrects.
	Message string
}

// Result holds the catalogs that overlays correct.
type Result struct {
	// Verdicts has one verdict for each overlay, sorted by name.
	Verdicts []Verdict

	inForce   []*plan
	seen      []Sighting
	corrected []corrected
}

// corrected is the corrected list of instance types of a class, for some pools.
type corrected struct {
	class int // the index of the class
	pools []string
	types []engine.InstanceType
}

// Apply corrects the snapshot's classes by its overlays and by the accelerators that nodes show or will show. It returns a verdict for each
// overlay. It may be called again, because it starts with the classes as their providers list them.
func Apply(s *engine.Snapshot) []Verdict {
	listed := s.ListedClasses()
	r := Correct(s.NodeOverlays, s.NodePools, listed, Seen(s))
	if len(r.corrected) == 0 && len(listed) == len(s.Classes) {
		return r.Verdicts
	}
	s.Classes = r.In(listed)
	return r.Verdicts
}

// Correct applies overlays to the classes of the pools. An overlay that is faulty has no effect at all. The same holds if it anywhere corrects
// the same value as an overlay of the same weight that is in force. Heavier overlays come first, overlays of equal weight in reverse order of
// name. A corrected value is not corrected again. The accelerators that nodes show come last. Correct copies the values that it corrects, and
// changes none of its arguments.
func Correct(overlays []*v1alpha1.NodeOverlay, pools []*v1.NodePool, classes []engine.Class, seen []Sighting) *Result {
	r := &Result{seen: seen}
	plans := plansOf(overlays)
	if len(plans) == 0 && len(seen) == 0 && !slices.ContainsFunc(pools, cutsDevices) {
		return r
	}
	views := viewsOf(plans, pools, classes, seen)
	for _, p := range plans {
		if len(p.faults) == 0 && slices.ContainsFunc(r.inForce, func(other *plan) bool { return other.weight == p.weight }) {
			p.clash = p.clashIn(views)
		}
		if len(p.faults) > 0 || p.clash != nil {
			continue
		}
		r.inForce = append(r.inForce, p)
		for _, v := range views {
			v.lay(p)
		}
	}
	for _, v := range views {
		if types := v.types(); types != nil {
			r.corrected = append(r.corrected, corrected{v.class, v.pools, types})
		}
	}
	slices.SortFunc(plans, func(a, b *plan) int { return cmp.Compare(a.overlay.Name, b.overlay.Name) })
	for _, p := range plans {
		r.Verdicts = append(r.Verdicts, p.verdict())
	}
	return r
}

// In returns the classes, and after them one class for each corrected list of instance types; see engine.Class.Pools. classes must be the
// classes that were corrected, but fields besides the instance types may differ.
func (r *Result) In(classes []engine.Class) []engine.Class {
	out := slices.Clone(classes)
	for _, c := range r.corrected {
		class := classes[c.class]
		class.Pools, class.InstanceTypes = c.pools, c.types
		out = append(out, class)
	}
	return out
}

// For applies the overlays that are in force, and the accelerators that nodes show, to types that are sold to a pool. It returns the same slice
// if neither concerns the pool.
func (r *Result) For(pool *v1.NodePool, types []engine.InstanceType) []engine.InstanceType {
	ref := pool.Spec.Template.Spec.NodeClassRef
	if r == nil || len(r.inForce) == 0 && len(r.seen) == 0 && !cutsDevices(pool) || ref == nil {
		return types
	}
	views := viewsOf(r.inForce, []*v1.NodePool{pool}, []engine.Class{{Ref: *ref, InstanceTypes: types}}, r.seen)
	for _, v := range views {
		for _, p := range r.inForce {
			alone := *p // the matches found here are not added to the earlier counts
			v.lay(&alone)
		}
		if corrected := v.types(); corrected != nil {
			return corrected
		}
	}
	return types
}

// plan is an overlay with its fields parsed.
type plan struct {
	overlay *v1alpha1.NodeOverlay
	weight  int32
	faults  []string
	clash   *clash
	asked   []requirement.Expression

	price    *float64
	adjust   *adjustment
	unpriced bool // the overlay has the form that sets prices of types without a price
	// risk holds the overlay's figures for interruptions of spot machines.
	risk interruptions

	found tally
}

// tally counts the overlay's corrections, for its message.
type tally struct {
	selected  bool // the overlay selects at least one offering
	offerings int
	types     int
	risks     int  // offerings whose interruptions it sets, except where heavier overlays have done so
	priced    bool // for some of these offerings both the rate and the cost are set
	pools     []string
	unpriced  bool // it selects offerings without a price, and sets no price for them
	// part is a resource for parts of devices that the overlay sets. whole is the resource for whole devices, which it does not set.
	part, whole corev1.ResourceName
}

// plansOf parses the overlays, and returns them in the order in which they are applied.
func plansOf(overlays []*v1alpha1.NodeOverlay) []*plan {
	out := make([]*plan, 0, len(overlays))
	for _, o := range overlays {
		if o.DeletionTimestamp == nil {
			out = append(out, planOf(o))
		}
	}
	slices.SortFunc(out, func(a, b *plan) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.overlay.Name, a.overlay.Name))
	})
	return out
}

func planOf(o *v1alpha1.NodeOverlay) *plan {
	p := &plan{overlay: o, faults: faultsOf(o)}
	if o.Spec.Weight != nil {
		p.weight = *o.Spec.Weight
	}
	for _, r := range o.Spec.Requirements {
		p.asked = append(p.asked, kube.PoolExpression(v1.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values}))
	}
	if len(p.faults) > 0 {
		return p
	}
	if o.Spec.Price != nil {
		price, _ := readPrice(*o.Spec.Price) // faultsOf has checked the price
		p.price = &price
		p.unpriced = len(p.asked) == 1 && p.asked[0].Key == instanceType && p.asked[0].Op == requirement.In && len(o.Spec.Capacity) == 0
	}
	p.risk, _ = interruptionsOf(o)
	if o.Spec.PriceAdjustment != nil {
		a, _ := readAdjustment(*o.Spec.PriceAdjustment)
		p.adjust = &a
	}
	return p
}

func (p *plan) setsPrice() bool { return p.price != nil || p.adjust != nil }

// freePart is the share of its list price that a machine costs if an overlay makes it free. With a price of 0, no machine could be cheaper, and
// the larger of two free machines would be as good as the smaller.
const freePart = 1e-7

// priceOf returns the corrected price of an offering.
func (p *plan) priceOf(o *engine.Offering) float64 {
	usd := 0.0
	if p.price != nil {
		usd = *p.price
	} else {
		usd = o.Price*p.adjust.factor + p.adjust.more
	}
	if usd <= 0 {
		usd = max(o.Price, freePart) * freePart
	}
	return usd
}
