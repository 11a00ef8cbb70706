package offering

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// table lists a pool's options as far as they follow from its catalog and its requirements. The catalog keeps it, because most problems have the
// same table.
type table struct {
	rules    optionRules
	overhead float64 // each node's cost besides its machine, in model's prices
	cover    []Cover
	options  []Option
	// model is the packing's data of each option, without sizes, places and quotas.
	model []packing.Option
	// spans are the ranges of options by type.
	spans []tableSpan
	// settled holds, for the labels requested so far, the options with each value.
	settled map[string][]tableValue
	pass    uint64 // the last call that used it
}

type tableSpan struct {
	kind     *soldType
	from, to int
}

// tableValue holds the options with one value of a label, or without the label (absent).
type tableValue struct {
	value   string
	absent  bool
	options bitset.Set
}

// table returns the pool's table for the keys and values of the problem.
func (p *Pool) table() *table {
	rules := p.rules()
	lasting, name := len(p.chosen) == 0, p.tableName()
	if known := p.catalog.tables[name]; lasting && known != nil && known.overhead == p.overhead && sameCover(known.cover, p.in.Cover) && known.rules.equal(rules) {
		known.pass = p.catalog.pass
		return known
	}
	t := &table{rules: rules, overhead: p.overhead, cover: p.in.Cover, settled: map[string][]tableValue{}, pass: p.catalog.pass}
	for _, sold := range p.catalog.types {
		t.add(sold, p.turnsOut(sold))
	}
	t.number(kube.SortedKeys(p.chosen))
	if lasting {
		p.catalog.tables[name] = t
	}
	return t
}

// tableName consists of the pool's name and the labels with several values on one type that the problem distinguishes: they determine the number
// of options of a type.
func (p *Pool) tableName() string {
	name := p.NodePool.Name
	for _, key := range p.catalog.several {
		if p.in.Universe.Key(key) >= 0 {
			name += "\x00" + key
		}
	}
	return name
}

// turnsOut lists the variants of the type in the pool.
func (p *Pool) turnsOut(t *soldType) []map[string]string {
	all := t.only
	if all == nil {
		all = kube.Variants(t.InstanceType, p.in.Universe)
	}
	if len(p.chosen) > 0 {
		all = clonedAll(all)
	}
	for _, key := range kube.SortedKeys(p.chosen) {
		all = kube.Multiplied(all, key, p.chosen[key])
	}
	return all
}

// add adds every variant and offering of a type that meets the pool's own requirements.
func (t *table) add(kind *soldType, variants []map[string]string) {
	span := tableSpan{kind, len(t.options), len(t.options)}
	for _, variant := range variants {
		for _, offering := range kind.offerings {
			o := Option{Kind: kind.InstanceType, Offering: offering, variant: variant}
			if !t.rules.admit(&o) {
				continue
			}
			model := packing.Option{
				Price: offering.NodePrice(t.overhead), Listed: !offering.SoldOut, Wide: offering.CapacityType == v1.CapacityTypeSpot,
			}
			if t.addCovered(o, model) {
				continue
			}
			t.options, t.model = append(t.options, o), append(t.model, model)
		}
	}
	if span.to = len(t.options); span.to > span.from {
		t.spans = append(t.spans, span)
	}
}

// number sets each option's indexes of type, slot and group. Options with different values of a label are in different groups if lists of types,
// zones and capacity types cannot express the difference.
func (t *table) number(chosen []string) {
	var types, slots, groups capacity.Names
	var kind *engine.InstanceType
	var several []string
	for i := range t.options {
		o := &t.options[i]
		t.model[i].Type = types.Index(o.Kind.Name)
		t.model[i].Slot = slots.Index(o.Offering.Zone + "\x00" + kube.LabelText(o.Offering.Labels))
		choice := []string{o.Offering.CapacityType, o.variant[corev1.LabelOSStable], o.Offering.Reservation, o.Commitment}
		for _, key := range chosen {
			choice = append(choice, o.variant[key])
		}
		if o.Kind != kind {
			kind, several = o.Kind, kube.SeveralValued(o.Kind)
		}
		for _, key := range several {
			choice = append(choice, key, o.variant[key])
		}
		t.model[i].Group = groups.Index(strings.Join(choice, "\x00"))
	}
}

// valuesOf returns the options with each value of a label.
func (t *table) valuesOf(key string) []tableValue {
	if list, known := t.settled[key]; known {
		return list
	}
	list := []tableValue{}
	at := map[string]int{}
	none := -1
	for i := range t.options {
		value, there := t.options[i].label(key)
		j, known := at[value]
		if !there {
			j, known = none, none >= 0
		}
		if !known {
			j = len(list)
			list = append(list, tableValue{value, !there, bitset.New(len(t.options))})
			if there {
				at[value] = j
			} else {
				none = j
			}
		}
		list[j].options.Add(i)
	}
	t.settled[key] = list
	return list
}

// valueOptions holds the options with the values of one bit.
type valueOptions struct {
	bit     int
	options bitset.Set
}

// byBit returns the options by the values that the problem distinguishes, without unused values. Each option has one of them.
func (t *table) byBit(u *requirement.Universe, k int) []valueOptions {
	var out []valueOptions
	at := map[int]int{}
	for _, v := range t.valuesOf(u.Name(k)) {
		bit := requirement.Absent
		if !v.absent {
			bit = u.Bit(k, v.value)
		}
		if i, shared := at[bit]; shared {
			out[i].options = out[i].options.Clone()
			out[i].options.Or(v.options)
			continue
		}
		at[bit] = len(out)
		out = append(out, valueOptions{bit, v.options})
	}
	return out
}

// take copies the table's options to the pool, with their sizes and quotas in the problem.
func (p *Pool) take(t *table) {
	p.Options, p.Model.Options = t.options, slices.Clone(t.model)
	text, plain := p.in.Names.Text(), len(p.in.Names.Drivers()) == 0 && p.in.Constraints.Claims == nil && p.in.Opt.MaxPodsPerNode == 0
	for i := range t.spans {
		span := &t.spans[i]
		size := span.kind.sizeFor(p.in.Names, text)
		allocatable := size.allocatable
		if !plain || p.in.Memory[span.kind.InstanceType] != nil {
			allocatable = p.sizeOf(span.kind.InstanceType, size.allocatable.Clone())
		}
		for o := span.from; o < span.to; o++ {
			option := &p.Model.Options[o]
			option.Allocatable, option.Charge = allocatable, size.charge
			if offering := t.options[o].Offering; offering.Reservation != "" || len(offering.Quotas) > 0 {
				draws, available := p.in.Draws(offering)
				option.Draws, option.Listed = draws, option.Listed && available
			}
			if t.options[o].Commitment != "" {
				p.cover(&t.options[o], option)
			}
		}
	}
}

// sizeOf returns the allocatable of the type: the catalog's (size, which it changes), corrected by values from running machines.
func (p *Pool) sizeOf(t *engine.InstanceType, size capacity.Vector) capacity.Vector {
	if known := p.in.Memory[t]; known != nil {
		memory := p.in.Names.Find(string(corev1.ResourceMemory))
		size[memory] = kube.Amount(corev1.ResourceMemory, *known)
	}
	if pods := p.in.Names.Find(string(corev1.ResourcePods)); p.in.Opt.MaxPodsPerNode > 0 {
		size[pods] = min(size[pods], int64(p.in.Opt.MaxPodsPerNode))
	}
	for driver, d := range p.in.Names.Drivers() {
		size[d] = p.in.Constraints.Volumes.FreeOn(t, driver)
	}
	if claims := p.in.Constraints.Claims; claims != nil {
		p.in.Names.SetDevices(size, claims.OnType(p.NodePool.Name, t))
	}
	return size
}

// typeSize holds a type's resources as vectors, in the order of text.
type typeSize struct {
	text                string
	allocatable, charge capacity.Vector
}

// sizeFor returns the type's size; callers must not change it.
func (t *soldType) sizeFor(names *kube.ResourceNames, text string) *typeSize {
	if t.size.text != text {
		charge := names.Vector(t.Capacity)
		charge[names.Find(string(v1.ResourceNodes))] = 1
		t.size = typeSize{text, names.Vector(t.allocatable), charge}
	}
	return &t.size
}

// optionRules holds the pool's requirements and labels for keys that its options set.
type optionRules struct {
	required []requirement.Expression
	labels   [][2]string
	taints   []corev1.Taint
}

func (p *Pool) rules() optionRules {
	r := optionRules{taints: p.Taints}
	for _, e := range p.required {
		if p.keys[e.Key] {
			r.required = append(r.required, e)
		}
	}
	for _, key := range kube.SortedKeys(p.labels) {
		if p.keys[key] {
			r.labels = append(r.labels, [2]string{key, p.labels[key]})
		}
	}
	return r
}

func (r optionRules) equal(other optionRules) bool {
	same := func(a, b requirement.Expression) bool {
		return a.Key == b.Key && a.Op == b.Op && slices.Equal(a.Values, b.Values)
	}
	return slices.EqualFunc(r.required, other.required, same) && slices.Equal(r.labels, other.labels) &&
		slices.EqualFunc(r.taints, other.taints, kube.SameTaint)
}

// admit reports whether a machine of the option meets the rules.
func (r optionRules) admit(o *Option) bool {
	for _, e := range r.required {
		if value, there := o.label(e.Key); !e.Admits(value, there) {
			return false
		}
	}
	for _, l := range r.labels {
		if have, _ := o.label(l[0]); have != l[1] {
			return false
		}
	}
	return kube.HasTaints(r.taints, o.Offering.Taints)
}
