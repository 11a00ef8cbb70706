package overlay

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
)

const instanceType = corev1.LabelInstanceTypeStable

// view is a class for pools that are alike for all overlays: their labels have the same values for all keys that overlays require.
type view struct {
	class  int // the index of the class
	sold   *catalog
	pools  []string
	labels map[string]string // the pools' labels that overlays require

	price [][]*plan  // by type and offering, the overlay that sets the price; nil for types without any
	free  []int      // by type, the number of offerings without a corrected price; 0 for types that have none in price
	added []added    // by type
	risks [][]risk   // by type and offering; nil for types without any
	seen  []Sighting // of nodes of these pools
}

// added holds, for each resource of a type that an overlay sets, this overlay.
type added map[corev1.ResourceName]*plan

// viewsOf lists the views of all pools, in the order of the classes and of the pools' names.
func viewsOf(plans []*plan, pools []*v1.NodePool, classes []engine.Class, seen []Sighting) []*view {
	looked := map[string]bool{accelerator.MIGConfigLabel: true, accelerator.MIGStrategyLabel: true}
	for _, p := range plans {
		for _, e := range p.asked {
			looked[e.Key] = true
		}
	}
	var out []*view
	for i := range classes {
		sold := newCatalog(classes[i].InstanceTypes)
		byLabels := map[string]*view{}
		for _, pool := range kube.ByName(pools) {
			if ref := pool.Spec.Template.Spec.NodeClassRef; ref == nil || *ref != classes[i].Ref {
				continue
			}
			labels := labelsOf(pool, looked)
			shown := seenIn(pool.Name, seen)
			key := kube.LabelText(labels)
			if len(shown) > 0 {
				key += "\n" + pool.Name
			}
			v := byLabels[key]
			if v == nil {
				v = &view{class: i, sold: sold, labels: labels, seen: shown, price: make([][]*plan, len(sold.types)), free: make([]int, len(sold.types)), added: make([]added, len(sold.types)), risks: make([][]risk, len(sold.types))}
				byLabels[key] = v
				out = append(out, v)
			}
			v.pools = append(v.pools, pool.Name)
		}
	}
	return out
}

// labelsOf returns the labels in the pool's template, and the pool's own label, as far as looked contains their keys.
func labelsOf(pool *v1.NodePool, looked map[string]bool) map[string]string {
	out := map[string]string{}
	for key, value := range pool.Spec.Template.Labels {
		if key = v1.NormalizeLabel(key); looked[key] {
			out[key] = value
		}
	}
	if looked[v1.NodePoolLabelKey] {
		out[v1.NodePoolLabelKey] = pool.Name
	}
	return out
}

// matches returns the instance types that the overlay selects in the view. It returns none if the overlay does not select the view's pools.
func (v *view) matches(p *plan) []match {
	for _, e := range p.asked {
		if value, there := v.labels[e.Key]; there && !e.Admits(value, true) {
			return nil
		}
	}
	return v.sold.find(p, v.labels)
}

// lay corrects the values that the overlay selects, unless a heavier overlay has corrected them.
func (v *view) lay(p *plan) {
	matches := v.matches(p)
	if len(matches) == 0 {
		return
	}
	p.found.selected = true
	before := p.found.offerings + p.found.types + p.found.risks
	for _, m := range matches {
		if p.setsPrice() {
			v.layPrice(p, m)
		}
		if p.risk.said() {
			v.layRisk(p, m)
		}
		if len(p.overlay.Spec.Capacity) > 0 {
			v.layCapacity(p, m.kind)
		}
	}
	if p.found.offerings+p.found.types+p.found.risks > before {
		p.found.pools = append(p.found.pools, v.pools...)
	}
}

func (v *view) layPrice(p *plan, m match) {
	if v.price[m.kind] != nil && v.free[m.kind] == 0 {
		return
	}
	kind := &v.sold.types[m.kind]
	for i := range m.each(len(kind.Offerings)) {
		if kind.Offerings[i].Unpriced && !p.unpriced {
			p.found.unpriced = true
			continue
		}
		if v.price[m.kind] == nil {
			v.price[m.kind], v.free[m.kind] = make([]*plan, len(kind.Offerings)), len(kind.Offerings)
		}
		if v.price[m.kind][i] == nil {
			v.price[m.kind][i] = p
			v.free[m.kind]--
			p.found.offerings += len(v.pools)
		}
	}
}

func (v *view) layCapacity(p *plan, kind int) {
	set := false
	for name := range p.overlay.Spec.Capacity {
		if v.added[kind] == nil {
			v.added[kind] = added{}
		}
		if v.added[kind][name] == nil {
			v.added[kind][name] = p
			set = true
		}
		if whole := accelerator.Whole(name); whole != "" {
			_, has := v.sold.types[kind].Capacity[whole]
			if _, says := p.overlay.Spec.Capacity[whole]; has && !says {
				p.found.part, p.found.whole = name, whole
			}
		}
	}
	if set {
		p.found.types += len(v.pools)
	}
}

// types returns the class's instance types with the corrections. It returns nil if there are no corrections.
func (v *view) types() []engine.InstanceType {
	var out []engine.InstanceType
	for i := range v.sold.types {
		shows := v.devices(i)
		if v.price[i] == nil && v.added[i] == nil && v.risks[i] == nil && shows == nil {
			continue
		}
		if out == nil {
			out = slices.Clone(v.sold.types)
		}
		v.correct(i, &out[i])
		if shows != nil {
			shows.write(&out[i])
		}
	}
	return out
}

// correct writes the corrections of a type into a copy of it.
func (v *view) correct(i int, t *engine.InstanceType) {
	if v.price[i] != nil || v.risks[i] != nil {
		t.Offerings = slices.Clone(t.Offerings)
	}
	for j := range v.risks[i] {
		r := v.risks[i][j]
		t.Offerings[j].InterruptionLoss = r.loss()
		if r.rate != nil && r.cost != nil {
			r.rate.found.priced, r.cost.found.priced = true, true
		}
	}
	if v.price[i] != nil {
		for j, p := range v.price[i] {
			if p == nil {
				continue
			}
			o := &t.Offerings[j]
			o.Overlay, o.ListPrice, o.Price = p.overlay.Name, o.KnownPrice(), p.priceOf(o)
			o.PriceUnknown = o.PriceUnknown && p.price == nil
			if o.Unpriced {
				o.Unpriced, o.SoldOut = false, false
			}
		}
	}
	if v.added[i] == nil {
		return
	}
	t.Capacity, t.Added = maps.Clone(t.Capacity), map[corev1.ResourceName]string{}
	if t.Capacity == nil {
		t.Capacity = corev1.ResourceList{}
	}
	for name, p := range v.added[i] {
		t.Capacity[name], t.Added[name] = p.overlay.Spec.Capacity[name].DeepCopy(), p.overlay.Name
	}
}
