package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// poolModel is a pool that can be used, with its catalog as options of the packing problem.
type poolModel struct {
	pool   *v1.NodePool
	class  *Class
	labels map[string]string // that every machine of the pool carries
	taints []corev1.Taint    // that stay on its machines
	// required is what the pool itself requires of its machines' labels.
	required []requirement.Expression
	used     corev1.ResourceList

	model   packing.Pool
	options []poolOption // parallel to model.Options
	// settled maps the universe's keys that types or offerings settle to the options with each value (bit); free lists
	// the other keys, in the order of model.Free, and freeIndex is its reverse.
	settled   map[int][]bitset.Set
	free      []int
	freeIndex map[int]int
	// keys are the labels that types, offerings or the pool's topology settle.
	keys map[string]bool
	// chosen holds the labels of topologies that the pool leaves open, with the values that it allows: each machine gets
	// one of them.
	chosen map[string][]string
	// burdened holds, for each DaemonSet, the options on which it runs.
	burdened []bitset.Set
}

// poolOption names an option of the packing problem: an offering of a type, in one of the type's variants.
type poolOption struct {
	kind     *InstanceType
	offering *Offering
	variant  map[string]string // one value for each of the type's labels
}

func (o *poolOption) id() OfferingID {
	return OfferingID{o.kind.Name, o.offering.Zone, o.offering.CapacityType, o.offering.Reservation}
}

// label is the value that a machine of this option has for a settled key.
func (o *poolOption) label(key string) (value string, there bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.offering.Zone, true
	case v1.CapacityTypeLabelKey:
		return o.offering.CapacityType, true
	}
	if value, there = o.offering.Labels[key]; there {
		return value, true
	}
	value, there = o.variant[key]
	return value, there
}

// poolsOf lists the pools that can be used, in an order that depends on weight first and on names last, and says what
// is wrong with the others.
func poolsOf(s *Snapshot, hosts []*host) (pools []*poolModel, broken []Note) {
	for _, pool := range s.NodePools {
		class := findClass(s, pool.Spec.Template.Spec.NodeClassRef)
		if r := poolProblem(pool, class); !r.OK() {
			broken = append(broken, Note{Object: "NodePool " + pool.Name, Reason: r})
			continue
		}
		m := &poolModel{pool: pool, class: class, used: poolUsage(hosts, pool.Name)}
		m.labels = poolLabels(pool)
		m.taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
		for _, r := range pool.Spec.Template.Spec.Requirements {
			m.required = append(m.required, poolExpression(r))
		}
		pools = append(pools, m)
	}
	slices.SortFunc(pools, comparePools)
	slices.SortFunc(broken, func(a, b Note) int { return cmp.Compare(a.Object, b.Object) })
	return pools, broken
}

func (m *poolModel) weight() int {
	if m.pool.Spec.Weight == nil {
		return 0
	}
	return int(*m.pool.Spec.Weight)
}

func findClass(s *Snapshot, ref *v1.NodeClassReference) *Class {
	for i := range s.Classes {
		if ref != nil && s.Classes[i].Ref == *ref {
			return &s.Classes[i]
		}
	}
	return nil
}

// poolProblem says why the pool cannot start machines now. A pool without a Ready condition counts as ready: it has just
// been made, or it was read from a file.
func poolProblem(pool *v1.NodePool, class *Class) Reason {
	problem := func(format string, args ...any) Reason {
		return Reason{Code: NodePoolNotReady, NodePool: pool.Name, Have: fmt.Sprintf(format, args...)}
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	ready := v1.GetCondition(pool, v1.ConditionReady)
	switch {
	case pool.DeletionTimestamp != nil:
		return problem("it is being deleted")
	case pool.Annotations[v1.RetireAnnotationKey] != "" && pool.Annotations[v1.RetireAnnotationKey] != "false":
		return problem("it is retired and starts no more machines")
	case pool.Spec.Replicas != nil:
		return problem("it has a fixed number of replicas and takes no pods by itself")
	case ref == nil:
		return problem("it names no node class")
	case class == nil:
		return problem("%s %s is not found", ref.Kind, ref.Name)
	case class.Problem != "":
		return problem("%s %s: %s", ref.Kind, ref.Name, class.Problem)
	case ready != nil && ready.Status != "True":
		return problem("%s", unready(pool, ready))
	}
	return Reason{}
}

// unready says what keeps the pool from being ready: the message of the condition that fails.
func unready(pool *v1.NodePool, ready *metav1.Condition) string {
	for _, name := range pool.DependentConditions() {
		if c := v1.GetCondition(pool, name); c != nil && c.Status != "True" && c.Message != "" {
			return c.Message
		}
	}
	return cmp.Or(ready.Message, fmt.Sprintf("its Ready condition is %s (%s)", ready.Status, ready.Reason))
}

// poolLabels are the labels that a machine of the pool gets whatever its type.
func poolLabels(pool *v1.NodePool) map[string]string {
	labels := map[string]string{v1.NodePoolLabelKey: pool.Name, v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}
	for key, value := range pool.Spec.Template.Labels {
		labels[v1.NormalizeLabel(key)] = value
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	labels[ref.LabelKey()] = ref.Name
	return labels
}

func (m *poolModel) mentionTypes(u *requirement.Universe) {
	byName := u.Key(corev1.LabelInstanceTypeStable) >= 0
	for i := range m.class.InstanceTypes {
		t := &m.class.InstanceTypes[i]
		mentionType(u, t)
		if byName {
			u.Mention(corev1.LabelInstanceTypeStable, t.Name)
		}
		for _, o := range t.Offerings {
			for key, value := range offeringLabels(&o) {
				if u.Key(key) >= 0 {
					u.Mention(key, value)
				}
			}
		}
	}
}

func offeringLabels(o *Offering) map[string]string {
	labels := map[string]string{corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType}
	for key, value := range o.Labels {
		labels[key] = value
	}
	return labels
}

// compile turns the pool's catalog into options.
func (m *poolModel) compile(p *problem) {
	u := p.universe
	m.model.Weight = m.weight()
	m.model.Left = p.limitsLeft(m)
	m.keys = m.settledKeys()
	m.chooseTopologies(p)
	if m.contradiction(u) == "" {
		for _, kind := range sortedTypes(m.class.InstanceTypes) {
			m.addOptions(p, kind, m.keys)
		}
	}
	m.number()
	m.settled = map[int][]bitset.Set{}
	settledKeys := m.keys
	m.freeIndex = map[int]int{}
	for k := range u.Keys() {
		key := u.Name(k)
		if !settledKeys[key] {
			m.freeIndex[k] = len(m.free)
			m.free = append(m.free, k)
			m.model.Free = append(m.model.Free, m.domain(u, k))
			continue
		}
		byBit := make([]bitset.Set, u.Size(k))
		for b := range byBit {
			byBit[b] = bitset.New(len(m.options))
		}
		for i := range m.options {
			bit := requirement.Absent
			if value, ok := m.options[i].label(key); ok {
				bit = u.Bit(k, value)
			}
			byBit[bit].Add(i)
		}
		m.settled[k] = byBit
	}
	m.subtractDaemons(p)
	m.markLarge(p)
	m.model.Variety = m.varieties(p)
}

// settledKeys are the labels that some type or offering of the catalog settles: a type that does not name such a key
// does not carry it.
func (m *poolModel) settledKeys() map[string]bool {
	keys := map[string]bool{corev1.LabelInstanceTypeStable: true, corev1.LabelTopologyZone: true, v1.CapacityTypeLabelKey: true}
	for i := range m.class.InstanceTypes {
		for key := range m.class.InstanceTypes[i].Labels {
			keys[key] = true
		}
		for j := range m.class.InstanceTypes[i].Offerings {
			for key := range m.class.InstanceTypes[i].Offerings[j].Labels {
				keys[key] = true
			}
		}
	}
	return keys
}

// sortedTypes orders types by structure (size and price) first and by name between equals.
func sortedTypes(types []InstanceType) []*InstanceType {
	out := make([]*InstanceType, 0, len(types))
	for i := range types {
		out = append(out, &types[i])
	}
	slices.SortFunc(out, compareTypes)
	return out
}

// osRank prefers Linux between equals: pods that name no system are made for it.
func osRank(t *InstanceType) int {
	if slices.Contains(t.Labels[corev1.LabelOSStable], "linux") {
		return 0
	}
	return 1
}

// addOptions adds every variant and offering of a type that meets the pool's own requirements.
func (m *poolModel) addOptions(p *problem, kind *InstanceType, settled map[string]bool) {
	var allocatable, charge capacity.Vector
	offerings := sortedOfferings(kind)
	all := variants(kind, p.universe)
	for _, key := range sortedKeys(m.chosen) {
		all = multiplied(all, key, m.chosen[key])
	}
	for _, variant := range all {
		for _, offering := range offerings {
			o := poolOption{kind, offering, variant}
			if !m.allows(&o, settled) {
				continue
			}
			if allocatable == nil {
				allocatable = m.sizeOf(p, kind)
				charge = p.names.vector(kind.Capacity)
				charge[p.names.Find(string(v1.ResourceNodes))] = 1
			}
			m.options = append(m.options, o)
			m.model.Options = append(m.model.Options, packing.Option{
				Price: o.offering.Price, Allocatable: allocatable, Charge: charge,
				Listed: !o.offering.SoldOut && p.slotsLeft(offering), Reservation: p.reservationOf(offering),
				Wide: o.offering.CapacityType == v1.CapacityTypeSpot,
			})
		}
	}
}

// sizeOf is what pods can use of a machine of the type: what the catalog says, or what running machines have taught.
func (m *poolModel) sizeOf(p *problem, kind *InstanceType) capacity.Vector {
	size := p.names.vector(kind.Allocatable())
	if known := p.learned[kind]; known != nil {
		memory := p.names.Find(string(corev1.ResourceMemory))
		size[memory] = amount(corev1.ResourceMemory, *known)
	}
	if pods := p.names.Find(string(corev1.ResourcePods)); p.opt.MaxPodsPerNode > 0 {
		size[pods] = min(size[pods], int64(p.opt.MaxPodsPerNode))
	}
	for driver, d := range p.names.drivers() {
		size[d] = p.wishes.volumes.freeOn(kind, driver)
	}
	return size
}

// chooseTopologies finds the labels that divide machines into domains, that no type settles, and of which the pool allows
// several values.
func (m *poolModel) chooseTopologies(p *problem) {
	u := p.universe
	for _, key := range p.crowd.labelKeys() {
		if m.keys[key] || isHost(key) {
			continue
		}
		k := u.Key(key)
		set := m.domain(u, k)
		if set.Has(requirement.Absent) || set.Has(u.Size(k)-1) || set.Len() < 2 {
			continue
		}
		var values []string
		for b := set.Next(0); b >= 0; b = set.Next(b + 1) {
			value, _ := u.Value(k, b)
			values = append(values, value)
		}
		if m.chosen == nil {
			m.chosen = map[string][]string{}
		}
		m.chosen[key] = values
		m.keys[key] = true
	}
}

// settlePlaces gives each option its place.
func (m *poolModel) settlePlaces(p *problem) {
	c := p.crowd
	passing := make([]bitset.Set, len(c.filters))
	for f := range c.filters {
		passing[f] = m.passing(p, &c.filters[f])
	}
	keys := c.labelKeys()
	known := map[string]int{}
	var text []byte
	for i := range m.options {
		text = text[:0]
		for _, key := range keys {
			value, _ := m.labelOf(p, i, key)
			text = append(append(text, value...), 0)
		}
		for f := range passing {
			text = append(text, '0')
			if passing[f].Has(i) {
				text[len(text)-1] = '1'
			}
		}
		at, ok := known[string(text)]
		if !ok {
			at = c.place(func(key string) (string, bool) { return m.labelOf(p, i, key) }, func(f int) int32 {
				if passing[f].Has(i) {
					return 1
				}
				return 0
			})
			known[string(text)] = at
		}
		m.model.Options[i].Place = at
	}
}

// passing are the options that a spread with this filter counts.
func (m *poolModel) passing(p *problem, f *crowdFilter) bitset.Set {
	out := bitset.New(len(m.options))
	if f.honour && untolerated(f.taints, m.taints) != nil {
		return out
	}
	d := demand{terms: [][]requirement.Expression{nil}}
	if f.demand != nil {
		d.terms = f.demand.terms
	}
	for _, way := range m.tolerantWays(&d, p.universe) {
		out.Or(way.Options)
	}
	for i := range m.options {
		for _, key := range f.keys {
			if _, ok := m.labelOf(p, i, key); !ok && !isHost(key) {
				out.Remove(i)
			}
		}
	}
	return out
}

// labelOf is the value that machines of the option have for a label, if that is settled.
func (m *poolModel) labelOf(p *problem, i int, key string) (string, bool) {
	if m.keys[key] {
		return m.options[i].label(key)
	}
	k := p.universe.Key(key)
	if k < 0 || isHost(key) {
		value, ok := m.labels[key]
		return value, ok
	}
	set := m.model.Free[m.freeIndex[k]]
	if set.Len() != 1 || set.Has(requirement.Absent) {
		return "", false
	}
	return p.universe.Value(k, set.Next(0))
}

// markLarge marks the options that are larger than machines should be, unless there is nothing else.
func (m *poolModel) markLarge(p *problem) {
	most := p.opt.largestCPU()
	cpu := p.names.Find(string(corev1.ResourceCPU))
	if most == 0 || !slices.ContainsFunc(m.model.Options, func(o packing.Option) bool { return o.Listed && o.Charge[cpu] <= most }) {
		return
	}
	for i := range m.model.Options {
		m.model.Options[i].Large = m.model.Options[i].Charge[cpu] > most
	}
	for _, v := range m.varieties(p) {
		if v.Min > 1 && m.distinct(v.Value, false) < v.Min && m.distinct(v.Value, true) >= v.Min {
			for i := range m.model.Options {
				m.model.Options[i].Large = false
			}
			return
		}
	}
}

func (m *poolModel) distinct(value []int, large bool) int {
	seen := map[int]bool{}
	for i, v := range value {
		if v >= 0 && (large || !m.model.Options[i].Large) {
			seen[v] = true
		}
	}
	return len(seen)
}

// varieties are the pool's minValues.
func (m *poolModel) varieties(p *problem) []packing.Variety {
	var out []packing.Variety
	for _, r := range m.varied() {
		key := v1.NormalizeLabel(r.Key)
		v := packing.Variety{Min: *r.MinValues, Soft: p.opt.MinValues == BestEffort}
		var values capacity.Names
		for i := range m.options {
			at := -1
			if value, ok := m.options[i].label(key); ok {
				at = values.Index(value)
			}
			v.Value = append(v.Value, at)
		}
		out = append(out, v)
	}
	return out
}

// varied lists the requirements that ask for several values. Every list is of one capacity type.
func (m *poolModel) varied() []v1.Requirement {
	return slices.DeleteFunc(slices.Clone(m.pool.Spec.Template.Spec.Requirements), func(r v1.Requirement) bool {
		return r.MinValues == nil || *r.MinValues <= 1 || v1.NormalizeLabel(r.Key) == v1.CapacityTypeLabelKey
	})
}

// sortedOfferings orders a type's offerings by price, then by name.
func sortedOfferings(kind *InstanceType) []*Offering {
	out := make([]*Offering, 0, len(kind.Offerings))
	for i := range kind.Offerings {
		out = append(out, &kind.Offerings[i])
	}
	slices.SortFunc(out, func(a, b *Offering) int {
		return cmp.Or(
			cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(labelText(a.Labels), labelText(b.Labels)))
	})
	return out
}

// allows reports whether the pool's requirements and labels admit a machine of the option.
func (m *poolModel) allows(o *poolOption, settled map[string]bool) bool {
	for _, e := range m.required {
		if !settled[e.Key] {
			continue
		}
		if value, there := o.label(e.Key); !e.Admits(value, there) {
			return false
		}
	}
	for key, value := range m.labels {
		if !settled[key] {
			continue
		}
		if have, _ := o.label(key); have != value {
			return false
		}
	}
	return true
}

// variants lists the ways in which a type can turn out: one value for each label. Where a label can have several values
// and nothing in the problem tells them apart, the first is taken.
func variants(kind *InstanceType, u *requirement.Universe) []map[string]string {
	out := []map[string]string{{corev1.LabelInstanceTypeStable: kind.Name}}
	for _, key := range sortedKeys(kind.Labels) {
		values := kind.Labels[key]
		if len(values) == 0 || key == corev1.LabelTopologyZone || key == v1.CapacityTypeLabelKey || key == corev1.LabelInstanceTypeStable {
			continue
		}
		if u.Key(key) < 0 {
			values = values[:1]
		}
		out = multiplied(out, key, values)
	}
	return out
}

// mostVariants bounds the variants of a type; no real catalog comes near it.
const mostVariants = 64

func multiplied(variants []map[string]string, key string, values []string) []map[string]string {
	if len(values) == 1 {
		for _, v := range variants {
			v[key] = values[0]
		}
		return variants
	}
	var out []map[string]string
	for _, value := range values {
		for _, v := range variants {
			if len(out) == mostVariants {
				return out
			}
			clone := make(map[string]string, len(v)+1)
			for k, x := range v {
				clone[k] = x
			}
			clone[key] = value
			out = append(out, clone)
		}
	}
	return out
}

// number gives each option its type, slot and group. Options that differ in a label that no list of types, zones and
// capacity types can express are in different groups.
func (m *poolModel) number() {
	var types, slots, groups capacity.Names
	var kind *InstanceType
	var several []string
	for i := range m.options {
		o := &m.options[i]
		m.model.Options[i].Type = types.Index(o.kind.Name)
		m.model.Options[i].Slot = slots.Index(o.offering.Zone + "\x00" + labelText(o.offering.Labels))
		choice := []string{o.offering.CapacityType, o.variant[corev1.LabelOSStable], o.offering.Reservation}
		for _, key := range sortedKeys(m.chosen) {
			choice = append(choice, o.variant[key])
		}
		if o.kind != kind {
			kind, several = o.kind, severalValued(o.kind)
		}
		for _, key := range several {
			choice = append(choice, key, o.variant[key])
		}
		m.model.Options[i].Group = groups.Index(strings.Join(choice, "\x00"))
	}
}

// severalValued lists the labels for which a machine of the type can have one of several values.
func severalValued(kind *InstanceType) []string {
	var keys []string
	for key, values := range kind.Labels {
		if len(values) > 1 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, key := range sortedKeys(labels) {
		fmt.Fprintf(&b, "%s=%s,", key, labels[key])
	}
	return b.String()
}

// domain holds the values that a label may have which no type settles: what the pool's labels and requirements say. A
// well-known label that the pool leaves open can be given any value; a label of the user's own must be defined by the
// pool. Every machine gets a hostname, and a name, that nothing has named yet.
func (m *poolModel) domain(u *requirement.Universe, k int) bitset.Set {
	key := u.Name(k)
	if key == corev1.LabelHostname || key == nodeNameKey {
		return bitset.Of(u.Size(k), u.Size(k)-1)
	}
	set := u.Any(k)
	defined := slices.Contains(v1.WellKnownLabels(), key)
	if value, ok := m.labels[key]; ok {
		set.And(u.Only(k, value))
		defined = true
	}
	for _, e := range m.required {
		if e.Key == key {
			set.And(u.Set(e))
			defined = true
		}
	}
	if !defined {
		return u.Missing(k)
	}
	return set
}

// contradiction is the first key, by name, that no type settles and for which the pool's own requirements leave no value:
// no machine can be what the pool says. It is empty if there is none.
func (m *poolModel) contradiction(u *requirement.Universe) string {
	first := ""
	for k := range u.Keys() {
		if key := u.Name(k); !m.keys[key] && (first == "" || key < first) && m.domain(u, k).Empty() {
			first = key
		}
	}
	return first
}

// limitsLeft is what the pool's limits leave of each resource.
func (p *problem) limitsLeft(m *poolModel) capacity.Vector {
	left := make(capacity.Vector, p.names.Len())
	for i := range left {
		left[i] = capacity.Most
	}
	for name, limit := range m.pool.Spec.Limits {
		i := p.names.Find(string(name))
		left[i] = amount(name, limit) - amount(name, m.used[name])
	}
	return left
}

// subtractDaemons takes what DaemonSets will use off the options that they will run on.
func (m *poolModel) subtractDaemons(p *problem) {
	for i := range p.daemons {
		d := &p.daemons[i]
		need := p.names.vector(d.need)
		burdened := bitset.New(len(m.options))
		for _, way := range m.ways(&d.demand, p.universe) {
			burdened.Or(way.Options)
		}
		m.burdened = append(m.burdened, burdened)
		lighter := map[*int64]capacity.Vector{} // by the vector's first element: options share vectors
		for o := burdened.Next(0); o >= 0; o = burdened.Next(o + 1) {
			old := m.model.Options[o].Allocatable
			v, ok := lighter[&old[0]]
			if !ok {
				v = old.Clone()
				v.Add(need, -1)
				lighter[&old[0]] = v
			}
			m.model.Options[o].Allocatable = v
		}
	}
}

// without takes options out of ways; nil takes out none.
func (m *poolModel) without(ways []packing.Way, options bitset.Set) []packing.Way {
	if options == nil {
		return ways
	}
	var out []packing.Way
	for _, way := range ways {
		left := way.Options.Clone()
		for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
			left.Remove(o)
		}
		if !left.Empty() {
			out = append(out, packing.Way{Options: left, Free: way.Free})
		}
	}
	return out
}

// ways lists how a pod with this demand may use the pool's machines.
func (m *poolModel) ways(d *demand, u *requirement.Universe) []packing.Way {
	if untolerated(d.tolerations, m.taints) != nil || d.avoid && unwelcome(d.tolerations, m.taints) {
		return nil
	}
	return m.tolerantWays(d, u)
}

// tolerantWays is ways whatever the pool's taints are.
func (m *poolModel) tolerantWays(d *demand, u *requirement.Universe) []packing.Way {
	var out []packing.Way
	for _, term := range d.terms {
		way, ok := m.way(term, u)
		if !ok {
			continue
		}
		// Alternatives that leave every free key open are one: any of their options.
		if len(out) > 0 && allNil(way.Free) && allNil(out[len(out)-1].Free) {
			out[len(out)-1].Options.Or(way.Options)
			continue
		}
		out = append(out, way)
	}
	return out
}

func allNil(sets []bitset.Set) bool {
	return !slices.ContainsFunc(sets, func(s bitset.Set) bool { return s != nil })
}

// way is what one term leaves; ok is false if that is nothing.
func (m *poolModel) way(term []requirement.Expression, u *requirement.Universe) (w packing.Way, ok bool) {
	w.Options = bitset.Full(len(m.options))
	w.Free = make([]bitset.Set, len(m.free))
	for _, e := range term {
		k := u.Key(e.Key)
		if byBit, settled := m.settled[k]; settled {
			w.Options.And(m.optionsWith(byBit, u.Set(e)))
			continue
		}
		i := m.freeIndex[k]
		set := u.Set(e)
		if m.model.Free[i].Within(set) && w.Free[i] == nil {
			continue
		}
		if w.Free[i] == nil {
			w.Free[i] = m.model.Free[i].Clone()
		}
		w.Free[i].And(set)
		if w.Free[i].Empty() {
			return w, false
		}
	}
	return w, !w.Options.Empty()
}

func (m *poolModel) optionsWith(byBit []bitset.Set, values bitset.Set) bitset.Set {
	out := bitset.New(len(m.options))
	for b := values.Next(0); b >= 0; b = values.Next(b + 1) {
		out.Or(byBit[b])
	}
	return out
}
