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

// Why an overlay is not in force: the reasons of its condition ValidationSucceeded.
const (
	RuntimeValidation = "RuntimeValidation"
	Conflict          = "Conflict"
)

// Verdict is what has become of one overlay.
type Verdict struct {
	Overlay *v1alpha1.NodeOverlay
	// Reason is RuntimeValidation or Conflict for an overlay that is in force nowhere, empty for one that is in force.
	Reason string
	// Message says why it is not in force and what to do, or what it corrects.
	Message string
}

// Result is catalogs with overlays laid over them.
type Result struct {
	// Verdicts has one for each overlay, in order of name.
	Verdicts []Verdict

	inForce   []*plan
	seen      []Sighting
	corrected []corrected
}

// corrected is what overlays make of a class for some pools.
type corrected struct {
	class int // its place among the classes
	pools []string
	types []engine.InstanceType
}

// Apply lays the snapshot's overlays, and what else is known of what nodes will show, over its classes, and returns what has become of each overlay. It may be called again: it
// begins with the classes as their providers see them.
func Apply(s *engine.Snapshot) []Verdict {
	listed := s.ListedClasses()
	r := Correct(s.NodeOverlays, s.NodePools, listed, Seen(s))
	if len(r.corrected) == 0 && len(listed) == len(s.Classes) {
		return r.Verdicts
	}
	s.Classes = r.In(listed)
	return r.Verdicts
}

// Correct lays overlays over the classes that the pools buy from. An overlay is in force for everything that it selects or, if it
// is wrong or in conflict with another one of its weight anywhere, for nothing. The heavier ones come first, of equal ones the later
// name; what has been corrected stays as it is. What nodes show of accelerators comes last. Nothing that is given is changed: what is
// corrected is copied.
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

// In are the classes, which have to be those that were corrected but may say other things beside what they sell, and behind them
// one for each way in which overlays correct one of them; see engine.Class.Pools.
func (r *Result) In(classes []engine.Class) []engine.Class {
	out := slices.Clone(classes)
	for _, c := range r.corrected {
		class := classes[c.class]
		class.Pools, class.InstanceTypes = c.pools, c.types
		out = append(out, class)
	}
	return out
}

// For lays the overlays that are in force, and what nodes show, over types that are sold to a pool. The list itself is returned if
// nothing of that is about the pool.
func (r *Result) For(pool *v1.NodePool, types []engine.InstanceType) []engine.InstanceType {
	ref := pool.Spec.Template.Spec.NodeClassRef
	if r == nil || len(r.inForce) == 0 && len(r.seen) == 0 && !cutsDevices(pool) || ref == nil {
		return types
	}
	views := viewsOf(r.inForce, []*v1.NodePool{pool}, []engine.Class{{Ref: *ref, InstanceTypes: types}}, r.seen)
	for _, v := range views {
		for _, p := range r.inForce {
			alone := *p // what it finds here is not counted with what it has found before
			v.lay(&alone)
		}
		if corrected := v.types(); corrected != nil {
			return corrected
		}
	}
	return types
}

// plan is an overlay made ready to be laid over catalogs.
type plan struct {
	overlay *v1alpha1.NodeOverlay
	weight  int32
	faults  []string
	clash   *clash
	asked   []requirement.Expression

	price    *float64
	adjust   *adjustment
	unpriced bool // of the form that gives a price to types that have none
	// risk is what it says of interruptions of spot machines.
	risk interruptions

	found tally
}

// tally counts what an overlay has corrected, for its message.
type tally struct {
	selected  bool // anything at all
	offerings int
	types     int
	risks     int  // offerings of whose interruptions it says something that no heavier one says
	priced    bool // for some of them both is said: how often, and what it costs
	pools     []string
	unpriced  bool // selects offerings without a price, to which it gives none
	// part is a resource for parts of devices that it sets, whole that for whole ones, of which it says nothing.
	part, whole corev1.ResourceName
}

// plansOf reads the overlays, in the order in which they are laid over catalogs.
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
		price, _ := readPrice(*o.Spec.Price) // it has been looked at
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

// freePart is what something costs of its list price that an overlay makes free: nothing would ever be cheaper than nothing, and of
// two free machines the larger one would be as good.
const freePart = 1e-7

// priceOf is the corrected price of an offering.
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
