package offering

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// Input is what the options of pools depend on beside the pools: what the problem tells apart, and what is there.
type Input struct {
	Opt         engine.Options
	Constraints *constraints.Reader
	InterPod    *constraints.InterPod
	DaemonSets  []constraints.DaemonSet
	Universe    *requirement.Universe
	Names       *kube.ResourceNames
	// Memory is what running machines have turned out to have of it for pods, by type.
	Memory map[*engine.InstanceType]*resource.Quantity
	// Cover lists the commitments that have something left for machines.
	Cover []Cover
	// Left is how many units a quota has left at first.
	Left func(quota int) int
	// Draws is what a machine of the offering takes of supplies that may run out, and whether they have so much.
	Draws func(o *engine.Offering) (draws []packing.Draw, available bool)
}

// Pool is a NodePool that can be used, with its catalog as options of the packing problem.
type Pool struct {
	NodePool *v1.NodePool
	Class    *engine.Class
	Taints   []corev1.Taint // that stay on its machines
	Model    packing.Pool
	Options  []Option // parallel to Model.Options
	// Burdened holds, for each DaemonSet, the options on which it runs, or may run.
	Burdened []bitset.Set

	in       *Input            // nil until the pool is listed or compiled
	catalog  *catalog          // of the class
	labels   map[string]string // that every machine of the pool carries
	windows  bool              // all its machines have Windows
	overhead float64           // what every node costs beside its machine
	// required is what the pool itself requires of its machines' labels.
	required []requirement.Expression
	used     corev1.ResourceList
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
	// absent and certain hold, for each DaemonSet that matters to waiting pods, the options on which others keep its pod off, and
	// those on which it surely runs.
	absent, certain []bitset.Set
	// cramped is what Cramped has found.
	cramped      bitset.Set
	crampedKnown bool
}

// PoolsOf lists the pools that can be used, in an order that depends on weight first and on names last, and says what
// is wrong with the others.
func PoolsOf(s *engine.Snapshot, cache *inventory.Cache, machines []*inventory.Machine) (pools []*Pool, broken []engine.Note) {
	for _, pool := range s.NodePools {
		class := kube.ClassOf(s, pool)
		if r := kube.PoolProblem(pool, class); !r.OK() {
			broken = append(broken, engine.Note{Object: "NodePool " + pool.Name, Reason: r})
			continue
		}
		m := &Pool{NodePool: pool, Class: class, catalog: catalogOf(cache, class.InstanceTypes), overhead: s.NodeOverheadPrice}
		if len(pool.Spec.Limits) > 0 {
			m.used = inventory.PoolUsage(machines, pool.Name)
		}
		m.labels = kube.PoolLabels(pool)
		m.Taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
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
func (m *Pool) sellsWindows() bool {
	windows := string(corev1.Windows)
	for _, e := range m.required {
		if e.Key == corev1.LabelOSStable && e.Admits(windows, true) && !e.Admits(string(corev1.Linux), true) {
			return true
		}
	}
	for i := range m.Class.InstanceTypes {
		if !slices.Equal(m.Class.InstanceTypes[i].Labels[corev1.LabelOSStable], []string{windows}) {
			return false
		}
	}
	return true
}

func (m *Pool) weight() int { return int(kube.WeightOf(m.NodePool)) }

// Mention tells the universe what the pool says of labels.
func (m *Pool) Mention(u *requirement.Universe) {
	for _, e := range m.required {
		u.MentionExpression(e)
	}
	for _, key := range kube.SortedKeys(m.labels) {
		u.Mention(key, m.labels[key])
	}
}

// MentionTypes tells the universe the values of the catalog, for the keys that it knows already.
func (m *Pool) MentionTypes(u *requirement.Universe) {
	for k := range u.Keys() {
		if values := m.catalog.values[u.Name(k)]; len(values) > 0 {
			u.Mention(u.Name(k), values...)
		}
	}
}

// List finds the pool's options, without what a machine of each has: a pool without any can say why.
func (m *Pool) List(in *Input) {
	m.in = in
	m.Options = m.list().options
}

// Compile turns the pool's catalog into options, once for each Pool.
func (m *Pool) Compile(in *Input) {
	m.in = in
	u := in.Universe
	m.Model.Weight = m.weight()
	m.Model.Left = m.limitsLeft()
	table := m.list()
	m.take(table)
	m.settled = map[int][]valueOptions{}
	m.freeIndex = map[int]int{}
	for k := range u.Keys() {
		key := u.Name(k)
		if !m.keys[key] {
			m.freeIndex[k] = len(m.free)
			m.free = append(m.free, k)
			m.Model.Free = append(m.Model.Free, m.domain(k))
			continue
		}
		m.settled[k] = table.byBit(u, k)
	}
	m.subtractDaemons()
	m.houseDaemons()
	m.Model.Variety = m.varieties()
	m.markLarge()
	m.settlePlaces()
}

// list is the pool's table, an empty one for a pool that contradicts itself.
func (m *Pool) list() *table {
	m.keys = maps.Clone(m.catalog.settled)
	m.chooseTopologies()
	if m.contradiction() == "" {
		return m.table()
	}
	return &table{settled: map[string][]tableValue{}}
}

// chooseTopologies finds the labels that divide machines into domains, that no type settles, and of which the pool allows
// several values.
func (m *Pool) chooseTopologies() {
	u := m.in.Universe
	for _, key := range m.in.InterPod.LabelKeys() {
		if m.keys[key] || kube.IsHost(key) {
			continue
		}
		k := u.Key(key)
		set := m.domain(k)
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
func (m *Pool) settlePlaces() {
	c := m.in.InterPod
	passing := make([]bitset.Set, len(c.Filters))
	for f := range c.Filters {
		passing[f] = m.passing(&c.Filters[f])
	}
	keys := c.LabelKeys()
	known := map[string]int{}
	var text []byte
	for i := range m.Options {
		text = text[:0]
		for _, key := range keys {
			value, _ := m.labelOf(i, key)
			text = append(append(text, value...), 0)
		}
		for f := range passing {
			text = append(text, '0')
			if passing[f].Has(i) {
				text[len(text)-1] = '1'
			}
		}
		for d := range m.in.DaemonSets {
			if m.in.DaemonSets[d].Resident {
				text = append(text, byte(m.houses(d, i)))
			}
		}
		at, ok := known[string(text)]
		if !ok {
			at = c.Place(func(key string) (string, bool) { return m.labelOf(i, key) }, func(f int) int32 {
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
func (m *Pool) passing(f *constraints.NodeFilter) bitset.Set {
	out := bitset.New(len(m.Options))
	if f.Honour && kube.Untolerated(f.Taints, m.Taints) != nil {
		return out
	}
	d := kube.NodeConstraints{Terms: [][]requirement.Expression{nil}}
	if f.Demand != nil {
		d.Terms = f.Demand.Terms
	}
	for _, way := range m.TolerantWays(&d) {
		out.Or(way.Options)
	}
	for i := range m.Options {
		for _, key := range f.Keys {
			if _, ok := m.labelOf(i, key); !ok && !kube.IsHost(key) {
				out.Remove(i)
			}
		}
	}
	return out
}

// labelOf is the value that machines of the option have for a label, if that is settled.
func (m *Pool) labelOf(i int, key string) (string, bool) {
	if m.keys[key] {
		return m.Options[i].label(key)
	}
	k := m.in.Universe.Key(key)
	if k < 0 || kube.IsHost(key) {
		value, ok := m.labels[key]
		return value, ok
	}
	set := m.Model.Free[m.freeIndex[k]]
	if set.Len() != 1 || set.Has(requirement.Absent) {
		return "", false
	}
	return m.in.Universe.Value(k, set.Next(0))
}

// markLarge marks the options that are larger than machines should be, unless there is nothing else.
func (m *Pool) markLarge() {
	most := m.in.Opt.EffectiveLargestCPU()
	cpu := m.in.Names.Find(string(corev1.ResourceCPU))
	if most == 0 || !slices.ContainsFunc(m.Model.Options, func(o packing.Option) bool { return o.Listed && o.Charge[cpu] <= most }) {
		return
	}
	for i := range m.Model.Options {
		m.Model.Options[i].Large = m.Model.Options[i].Charge[cpu] > most
	}
	for _, v := range m.Model.Variety {
		if v.Min > 1 && m.distinct(v.Value, false) < v.Min && m.distinct(v.Value, true) >= v.Min {
			for i := range m.Model.Options {
				m.Model.Options[i].Large = false
			}
			return
		}
	}
}

func (m *Pool) distinct(value []int, large bool) int {
	seen := map[int]bool{}
	for i, v := range value {
		if v >= 0 && (large || !m.Model.Options[i].Large) {
			seen[v] = true
		}
	}
	return len(seen)
}

// varieties are the pool's minValues.
func (m *Pool) varieties() []packing.Variety {
	var out []packing.Variety
	for _, r := range m.varied() {
		key := v1.NormalizeLabel(r.Key)
		v := packing.Variety{Min: *r.MinValues, Soft: m.in.Opt.MinValues == engine.BestEffort}
		var values capacity.Names
		for i := range m.Options {
			at := -1
			if value, ok := m.Options[i].label(key); ok {
				at = values.Index(value)
			}
			v.Value = append(v.Value, at)
		}
		out = append(out, v)
	}
	return out
}

// varied lists the requirements that ask for several values. Every list is of one capacity type.
func (m *Pool) varied() []v1.Requirement {
	return slices.DeleteFunc(slices.Clone(m.NodePool.Spec.Template.Spec.Requirements), func(r v1.Requirement) bool {
		return r.MinValues == nil || *r.MinValues <= 1 || v1.NormalizeLabel(r.Key) == v1.CapacityTypeLabelKey
	})
}

// contradiction is the first key, by name, that no type settles and for which the pool's own requirements leave no value:
// no machine can be what the pool says. It is empty if there is none.
func (m *Pool) contradiction() string {
	u := m.in.Universe
	first := ""
	for k := range u.Keys() {
		if key := u.Name(k); !m.keys[key] && (first == "" || key < first) && m.domain(k).Empty() {
			first = key
		}
	}
	return first
}

// limitsLeft is what the pool's limits leave of each resource.
func (m *Pool) limitsLeft() capacity.Vector {
	left := make(capacity.Vector, m.in.Names.Len())
	for i := range left {
		left[i] = capacity.Most
	}
	for name, limit := range m.NodePool.Spec.Limits {
		i := m.in.Names.Find(string(name))
		left[i] = kube.Amount(name, limit) - kube.Amount(name, m.used[name])
	}
	return left
}
