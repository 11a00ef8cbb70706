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

// Input is the data, in addition to the pools, from which the options of pools follow.
type Input struct {
	Opt         engine.Options
	Constraints *constraints.Reader
	InterPod    *constraints.InterPod
	DaemonSets  []constraints.DaemonSet
	Universe    *requirement.Universe
	Names       *kube.ResourceNames
	// Memory is, by type, the memory for pods that running machines have reported.
	Memory map[*engine.InstanceType]*resource.Quantity
	// Cover lists the commitments with an unused part.
	Cover []Cover
	// Left returns the units that a quota has at first.
	Left func(quota int) int
	// Draws returns the draws of a machine of the offering on limited supplies, and whether they suffice.
	Draws func(o *engine.Offering) (draws []packing.Draw, available bool)
}

// Pool is a usable NodePool, with its catalog as options of the packing problem.
type Pool struct {
	NodePool *v1.NodePool
	Class    *engine.Class
	Taints   []corev1.Taint // permanent taints of its machines
	Model    packing.Pool
	Options  []Option // parallel to Model.Options
	// Burdened holds, for each DaemonSet, the options on which it runs, or may run.
	Burdened []bitset.Set

	in       *Input            // nil until the pool is listed or compiled
	catalog  *catalog          // the class's catalog
	labels   map[string]string // labels of every machine of the pool
	windows  bool              // all its machines have Windows
	overhead float64           // each node's cost besides its machine
	// required holds the pool's own requirements on its machines' labels.
	required []requirement.Expression
	used     corev1.ResourceList
	// settled maps each universe key that types or offerings set to the options with each value. free lists the other keys, in the order of
	// Model.Free, and freeIndex is its reverse.
	settled   map[int][]valueOptions
	free      []int
	freeIndex map[int]int
	// keys are the labels that types, offerings or the pool's topology set.
	keys map[string]bool
	// chosen holds the topology labels that the pool leaves open, with its allowed values: each machine gets one value.
	chosen map[string][]string
	// absent and certain hold, for each DaemonSet that matters to waiting pods, the options on which other DaemonSets keep its pod off, and the
	// options on which it certainly runs.
	absent, certain []bitset.Set
	// cramped is the result of Cramped.
	cramped      bitset.Set
	crampedKnown bool
}

// PoolsOf lists the usable pools, by weight first and by name last, and the problems of the others.
func PoolsOf(s *engine.Snapshot, cache *inventory.Cache, machines []*inventory.Machine) (pools []*Pool, broken []engine.Note) {
	for _, pool := range s.NodePools {
		class := kube.ClassOf(s, pool)
		if r := kube.PoolProblem(pool, class); !r.OK() {
			broken = append(broken, engine.Note{Object: "NodePool " + pool.Name, Reason: r})
			continue
		}
		p := &Pool{NodePool: pool, Class: class, catalog: catalogOf(cache, class.InstanceTypes), overhead: s.NodeOverheadPrice}
		if len(pool.Spec.Limits) > 0 {
			p.used = inventory.PoolUsage(machines, pool.Name)
		}
		p.labels = kube.PoolLabels(pool)
		p.Taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
		for _, r := range pool.Spec.Template.Spec.Requirements {
			p.required = append(p.required, kube.PoolExpression(r))
		}
		p.windows = p.sellsWindows()
		pools = append(pools, p)
	}
	slices.SortFunc(pools, comparePools)
	slices.SortFunc(broken, func(a, b engine.Note) int { return cmp.Compare(a.Object, b.Object) })
	return pools, broken
}

// sellsWindows reports whether all machines of the pool have Windows.
func (p *Pool) sellsWindows() bool {
	windows := string(corev1.Windows)
	for _, e := range p.required {
		if e.Key == corev1.LabelOSStable && e.Admits(windows, true) && !e.Admits(string(corev1.Linux), true) {
			return true
		}
	}
	for i := range p.Class.InstanceTypes {
		if !slices.Equal(p.Class.InstanceTypes[i].Labels[corev1.LabelOSStable], []string{windows}) {
			return false
		}
	}
	return true
}

func (p *Pool) weight() int { return int(kube.WeightOf(p.NodePool)) }

// Mention adds the labels in the pool's requirements and template to the universe.
func (p *Pool) Mention(u *requirement.Universe) {
	for _, e := range p.required {
		u.MentionExpression(e)
	}
	for _, key := range kube.SortedKeys(p.labels) {
		u.Mention(key, p.labels[key])
	}
}

// MentionTypes adds the catalog's values of known keys to the universe.
func (p *Pool) MentionTypes(u *requirement.Universe) {
	for k := range u.Keys() {
		if values := p.catalog.values[u.Name(k)]; len(values) > 0 {
			u.Mention(u.Name(k), values...)
		}
	}
}

// List finds the pool's options without their sizes; this suffices to explain why a pool has none.
func (p *Pool) List(in *Input) {
	p.in = in
	p.Options = p.list().options
}

// Compile turns the pool's catalog into options, once for each Pool.
func (p *Pool) Compile(in *Input) {
	p.in = in
	u := in.Universe
	p.Model.Weight = p.weight()
	p.Model.Left = p.limitsLeft()
	table := p.list()
	p.take(table)
	p.settled = map[int][]valueOptions{}
	p.freeIndex = map[int]int{}
	for k := range u.Keys() {
		key := u.Name(k)
		if !p.keys[key] {
			p.freeIndex[k] = len(p.free)
			p.free = append(p.free, k)
			p.Model.Free = append(p.Model.Free, p.domain(k))
			continue
		}
		p.settled[k] = table.byBit(u, k)
	}
	p.subtractDaemons()
	p.houseDaemons()
	p.Model.Variety = p.varieties()
	p.markLarge()
	p.settlePlaces()
}

// list returns the pool's table, an empty one if the pool contradicts itself.
func (p *Pool) list() *table {
	p.keys = maps.Clone(p.catalog.settled)
	p.chooseTopologies()
	if p.contradiction() == "" {
		return p.table()
	}
	return &table{settled: map[string][]tableValue{}}
}

// chooseTopologies finds the labels that divide machines into domains, that no type sets, and for which the pool allows several values.
func (p *Pool) chooseTopologies() {
	u := p.in.Universe
	for _, key := range p.in.InterPod.LabelKeys() {
		if p.keys[key] || kube.IsHost(key) {
			continue
		}
		k := u.Key(key)
		set := p.domain(k)
		if set.Has(requirement.Absent) || set.Has(u.Size(k)-1) || set.Len() < 2 {
			continue
		}
		var values []string
		for b := set.Next(0); b >= 0; b = set.Next(b + 1) {
			value, _ := u.Value(k, b)
			values = append(values, value)
		}
		if p.chosen == nil {
			p.chosen = map[string][]string{}
		}
		p.chosen[key] = values
		p.keys[key] = true
	}
}

// settlePlaces sets the place of each option.
func (p *Pool) settlePlaces() {
	c := p.in.InterPod
	passing := make([]bitset.Set, len(c.Filters))
	for f := range c.Filters {
		passing[f] = p.passing(&c.Filters[f])
	}
	keys := c.LabelKeys()
	known := map[string]int{}
	var text []byte
	for i := range p.Options {
		text = text[:0]
		for _, key := range keys {
			value, _ := p.labelOf(i, key)
			text = append(append(text, value...), 0)
		}
		for f := range passing {
			text = append(text, '0')
			if passing[f].Has(i) {
				text[len(text)-1] = '1'
			}
		}
		for d := range p.in.DaemonSets {
			if p.in.DaemonSets[d].Resident {
				text = append(text, byte(p.houses(d, i)))
			}
		}
		at, ok := known[string(text)]
		if !ok {
			at = c.Place(func(key string) (string, bool) { return p.labelOf(i, key) }, func(f int) int32 {
				if passing[f].Has(i) {
					return 1
				}
				return 0
			}, func(d int) int32 { return p.houses(d, i) })
			known[string(text)] = at
		}
		p.Model.Options[i].Place = at
	}
}

// passing returns the options that a spread constraint with this filter counts.
func (p *Pool) passing(f *constraints.NodeFilter) bitset.Set {
	out := bitset.New(len(p.Options))
	if f.Honour && kube.Untolerated(f.Taints, p.Taints) != nil {
		return out
	}
	d := kube.NodeConstraints{Terms: [][]requirement.Expression{nil}}
	if f.Demand != nil {
		d.Terms = f.Demand.Terms
	}
	for _, way := range p.TolerantWays(&d) {
		out.Or(way.Options)
	}
	for i := range p.Options {
		for _, key := range f.Keys {
			if _, ok := p.labelOf(i, key); !ok && !kube.IsHost(key) {
				out.Remove(i)
			}
		}
	}
	return out
}

// labelOf returns the value of a label on machines of the option, if it is determined.
func (p *Pool) labelOf(i int, key string) (string, bool) {
	if p.keys[key] {
		return p.Options[i].label(key)
	}
	k := p.in.Universe.Key(key)
	if k < 0 || kube.IsHost(key) {
		value, ok := p.labels[key]
		return value, ok
	}
	set := p.Model.Free[p.freeIndex[k]]
	if set.Len() != 1 || set.Has(requirement.Absent) {
		return "", false
	}
	return p.in.Universe.Value(k, set.Next(0))
}

// markLarge marks the options above the largest CPU size, unless no other option is left or minValues need them.
func (p *Pool) markLarge() {
	most := p.in.Opt.EffectiveLargestCPU()
	cpu := p.in.Names.Find(string(corev1.ResourceCPU))
	if most == 0 || !slices.ContainsFunc(p.Model.Options, func(o packing.Option) bool { return o.Listed && o.Charge[cpu] <= most }) {
		return
	}
	for i := range p.Model.Options {
		p.Model.Options[i].Large = p.Model.Options[i].Charge[cpu] > most
	}
	for _, v := range p.Model.Variety {
		if v.Min > 1 && p.distinct(v.Value, false) < v.Min && p.distinct(v.Value, true) >= v.Min {
			for i := range p.Model.Options {
				p.Model.Options[i].Large = false
			}
			return
		}
	}
}

func (p *Pool) distinct(value []int, large bool) int {
	seen := map[int]bool{}
	for i, v := range value {
		if v >= 0 && (large || !p.Model.Options[i].Large) {
			seen[v] = true
		}
	}
	return len(seen)
}

// varieties returns the pool's minValues.
func (p *Pool) varieties() []packing.Variety {
	var out []packing.Variety
	for _, r := range p.varied() {
		key := v1.NormalizeLabel(r.Key)
		v := packing.Variety{Min: *r.MinValues, Soft: p.in.Opt.MinValues == engine.BestEffort}
		var values capacity.Names
		for i := range p.Options {
			at := -1
			if value, ok := p.Options[i].label(key); ok {
				at = values.Index(value)
			}
			v.Value = append(v.Value, at)
		}
		out = append(out, v)
	}
	return out
}

// varied lists the requirements with minValues above 1. It leaves out capacity types, because each launch has one only.
func (p *Pool) varied() []v1.Requirement {
	return slices.DeleteFunc(slices.Clone(p.NodePool.Spec.Template.Spec.Requirements), func(r v1.Requirement) bool {
		return r.MinValues == nil || *r.MinValues <= 1 || v1.NormalizeLabel(r.Key) == v1.CapacityTypeLabelKey
	})
}

// contradiction returns the first key, by name, that no type sets and for which the pool's requirements leave no value, so that no machine can
// meet them. It is empty if there is none.
func (p *Pool) contradiction() string {
	u := p.in.Universe
	first := ""
	for k := range u.Keys() {
		if key := u.Name(k); !p.keys[key] && (first == "" || key < first) && p.domain(k).Empty() {
			first = key
		}
	}
	return first
}

// limitsLeft returns the rest of the pool's limits for each resource.
func (p *Pool) limitsLeft() capacity.Vector {
	left := make(capacity.Vector, p.in.Names.Len())
	for i := range left {
		left[i] = capacity.Most
	}
	for name, limit := range p.NodePool.Spec.Limits {
		i := p.in.Names.Find(string(name))
		left[i] = kube.Amount(name, limit) - kube.Amount(name, p.used[name])
	}
	return left
}
