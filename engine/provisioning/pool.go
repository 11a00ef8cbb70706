package provisioning

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// poolModel is a pool that can be used, with its catalog as options of the packing problem.
type poolModel struct {
	pool    *v1.NodePool
	class   *engine.Class
	catalog *soldCatalog      // of the class
	labels  map[string]string // that every machine of the pool carries
	taints  []corev1.Taint    // that stay on its machines
	windows bool              // all its machines have Windows
	// required is what the pool itself requires of its machines' labels.
	required []requirement.Expression
	used     corev1.ResourceList
	patience time.Duration // in which the price doubles that pods pay; 0 for any price at once

	Model   packing.Pool
	options []poolOption // parallel to model.Options
	// settled maps the universe's keys that types or offerings settle to the options with each value; free lists
	// the other keys, in the order of model.Free, and freeIndex is its reverse.
	settled   map[int][]valueOptions
	free      []int
	freeIndex map[int]int
	// keys are the labels that types, offerings or the pool's topology settle.
	keys map[string]bool
	// chosen holds the labels of topologies that the pool leaves open, with the values that it allows: each machine gets
	// one of them.
	chosen map[string][]string
	// burdened holds, for each DaemonSet, the options on which it runs, or may run.
	burdened []bitset.Set
	// absent and certain hold, for each DaemonSet that matters to waiting pods, the options on which others keep its pod off, and
	// those on which it surely runs.
	absent, certain []bitset.Set
}

// poolsOf lists the pools that can be used, in an order that depends on weight first and on names last, and says what
// is wrong with the others.
func poolsOf(s *engine.Snapshot, cache *inventory.Cache, hosts []*inventory.Machine) (pools []*poolModel, broken []engine.Note) {
	for _, pool := range s.NodePools {
		class := kube.ClassOf(s, pool)
		if r := kube.PoolProblem(pool, class); !r.OK() {
			broken = append(broken, engine.Note{Object: "NodePool " + pool.Name, Reason: r})
			continue
		}
		m := &poolModel{pool: pool, class: class, catalog: catalogOf(cache, class.InstanceTypes)}
		if len(pool.Spec.Limits) > 0 {
			m.used = inventory.PoolUsage(hosts, pool.Name)
		}
		m.patience, _ = budget.PricePatience(pool)
		m.labels = kube.PoolLabels(pool)
		m.taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
		for _, r := range pool.Spec.Template.Spec.Requirements {
			m.required = append(m.required, kube.PoolExpression(r))
		}
		m.windows = m.sellsWindows()
		pools = append(pools, m)
	}
	slices.SortFunc(pools, comparePools)
	slices.SortFunc(broken, func(a, b engine.Note) int { return cmp.Compare(a.Object, b.Object) })
	return pools, broken
}

// sellsWindows reports whether all machines of the pool have Windows.
func (m *poolModel) sellsWindows() bool {
	windows := string(corev1.Windows)
	for _, e := range m.required {
		if e.Key == corev1.LabelOSStable && e.Admits(windows, true) && !e.Admits(string(corev1.Linux), true) {
			return true
		}
	}
	for i := range m.class.InstanceTypes {
		if !slices.Equal(m.class.InstanceTypes[i].Labels[corev1.LabelOSStable], []string{windows}) {
			return false
		}
	}
	return true
}

func (m *poolModel) weight() int { return int(kube.WeightOf(m.pool)) }

func (m *poolModel) mentionTypes(u *requirement.Universe) {
	for k := range u.Keys() {
		if values := m.catalog.values[u.Name(k)]; len(values) > 0 {
			u.Mention(u.Name(k), values...)
		}
	}
}

// compile turns the pool's catalog into options.
func (m *poolModel) compile(p *Problem) {
	u := p.universe
	m.Model.Weight = m.weight()
	m.Model.Left = p.limitsLeft(m)
	table := m.list(p)
	m.take(p, table)
	m.settled = map[int][]valueOptions{}
	m.freeIndex = map[int]int{}
	for k := range u.Keys() {
		key := u.Name(k)
		if !m.keys[key] {
			m.freeIndex[k] = len(m.free)
			m.free = append(m.free, k)
			m.Model.Free = append(m.Model.Free, m.domain(u, k))
			continue
		}
		m.settled[k] = table.byBit(u, k)
	}
	m.subtractDaemons(p)
	m.houseDaemons(p)
	m.markLarge(p)
	m.Model.Variety = m.varieties(p)
}

// list is the pool's table, an empty one for a pool that contradicts itself.
func (m *poolModel) list(p *Problem) *poolTable {
	m.keys = maps.Clone(m.catalog.settled)
	m.chooseTopologies(p)
	if m.contradiction(p.universe) == "" {
		return m.table(p.universe)
	}
	return &poolTable{settled: map[string][]tableValue{}}
}

// chooseTopologies finds the labels that divide machines into domains, that no type settles, and of which the pool allows
// several values.
func (m *poolModel) chooseTopologies(p *Problem) {
	u := p.universe
	for _, key := range p.InterPod.LabelKeys() {
		if m.keys[key] || kube.IsHost(key) {
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
func (m *poolModel) settlePlaces(p *Problem) {
	c := p.InterPod
	passing := make([]bitset.Set, len(c.Filters))
	for f := range c.Filters {
		passing[f] = m.passing(p, &c.Filters[f])
	}
	keys := c.LabelKeys()
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
		for d := range p.daemons {
			if p.daemons[d].Resident {
				text = append(text, byte(m.houses(d, i)))
			}
		}
		at, ok := known[string(text)]
		if !ok {
			at = c.Place(func(key string) (string, bool) { return m.labelOf(p, i, key) }, func(f int) int32 {
				if passing[f].Has(i) {
					return 1
				}
				return 0
			}, func(d int) int32 { return m.houses(d, i) })
			known[string(text)] = at
		}
		m.Model.Options[i].Place = at
	}
}

// passing are the options that a spread with this filter counts.
func (m *poolModel) passing(p *Problem, f *constraints.NodeFilter) bitset.Set {
	out := bitset.New(len(m.options))
	if f.Honour && kube.Untolerated(f.Taints, m.taints) != nil {
		return out
	}
	d := kube.NodeConstraints{Terms: [][]requirement.Expression{nil}}
	if f.Demand != nil {
		d.Terms = f.Demand.Terms
	}
	for _, way := range m.tolerantWays(&d, p.universe) {
		out.Or(way.Options)
	}
	for i := range m.options {
		for _, key := range f.Keys {
			if _, ok := m.labelOf(p, i, key); !ok && !kube.IsHost(key) {
				out.Remove(i)
			}
		}
	}
	return out
}

// labelOf is the value that machines of the option have for a label, if that is settled.
func (m *poolModel) labelOf(p *Problem, i int, key string) (string, bool) {
	if m.keys[key] {
		return m.options[i].label(key)
	}
	k := p.universe.Key(key)
	if k < 0 || kube.IsHost(key) {
		value, ok := m.labels[key]
		return value, ok
	}
	set := m.Model.Free[m.freeIndex[k]]
	if set.Len() != 1 || set.Has(requirement.Absent) {
		return "", false
	}
	return p.universe.Value(k, set.Next(0))
}

// markLarge marks the options that are larger than machines should be, unless there is nothing else.
func (m *poolModel) markLarge(p *Problem) {
	most := p.opt.EffectiveLargestCPU()
	cpu := p.Names.Find(string(corev1.ResourceCPU))
	if most == 0 || !slices.ContainsFunc(m.Model.Options, func(o packing.Option) bool { return o.Listed && o.Charge[cpu] <= most }) {
		return
	}
	for i := range m.Model.Options {
		m.Model.Options[i].Large = m.Model.Options[i].Charge[cpu] > most
	}
	for _, v := range m.varieties(p) {
		if v.Min > 1 && m.distinct(v.Value, false) < v.Min && m.distinct(v.Value, true) >= v.Min {
			for i := range m.Model.Options {
				m.Model.Options[i].Large = false
			}
			return
		}
	}
}

func (m *poolModel) distinct(value []int, large bool) int {
	seen := map[int]bool{}
	for i, v := range value {
		if v >= 0 && (large || !m.Model.Options[i].Large) {
			seen[v] = true
		}
	}
	return len(seen)
}

// varieties are the pool's minValues.
func (m *poolModel) varieties(p *Problem) []packing.Variety {
	var out []packing.Variety
	for _, r := range m.varied() {
		key := v1.NormalizeLabel(r.Key)
		v := packing.Variety{Min: *r.MinValues, Soft: p.opt.MinValues == engine.BestEffort}
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
func (p *Problem) limitsLeft(m *poolModel) capacity.Vector {
	left := make(capacity.Vector, p.Names.Len())
	for i := range left {
		left[i] = capacity.Most
	}
	for name, limit := range m.pool.Spec.Limits {
		i := p.Names.Find(string(name))
		left[i] = kube.Amount(name, limit) - kube.Amount(name, m.used[name])
	}
	return left
}
