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

// Mention tells the universe what the pool says of labels.
func (p *Pool) Mention(u *requirement.Universe) {
	for _, e := range p.required {
		u.MentionExpression(e)
	}
	for _, key := range kube.SortedKeys(p.labels) {
		u.Mention(key, p.labels[key])
	}
}

// MentionTypes tells the universe the values of the catalog, for the keys that it knows already.
func (p *Pool) MentionTypes(u *requirement.Universe) {
	for k := range u.Keys() {
		if values := p.catalog.values[u.Name(k)]; len(values) > 0 {
			u.Mention(u.Name(k), values...)
		}
	}
}

// List finds the pool's options, without what a machine of each has: a pool without any can say why.
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

// list is the pool's table, an empty one for a pool that contradicts itself.
func (p *Pool) list() *table {
	p.keys = maps.Clone(p.catalog.settled)
	p.chooseTopologies()
	if p.contradiction() == "" {
		return p.table()
	}
	return &table{settled: map[string][]tableValue{}}
}

// chooseTopologies finds the labels that divide machines into domains, that no type settles, and of which the pool allows
// several values.
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

// settlePlaces gives each option its place.
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

// passing are the options that a spread with this filter counts.
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

// labelOf is the value that machines of the option have for a label, if that is settled.
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

// markLarge marks the options that are larger than machines should be, unless there is nothing else.
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

// varieties are the pool's minValues.
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

// varied lists the requirements that ask for several values. Every list is of one capacity type.
func (p *Pool) varied() []v1.Requirement {
	return slices.DeleteFunc(slices.Clone(p.NodePool.Spec.Template.Spec.Requirements), func(r v1.Requirement) bool {
		return r.MinValues == nil || *r.MinValues <= 1 || v1.NormalizeLabel(r.Key) == v1.CapacityTypeLabelKey
	})
}

// contradiction is the first key, by name, that no type settles and for which the pool's own requirements leave no value:
// no machine can be what the pool says. It is empty if there is none.
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

// limitsLeft is what the pool's limits leave of each resource.
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
