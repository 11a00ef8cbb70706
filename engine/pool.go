package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	pool    *v1.NodePool
	class   *Class
	catalog *soldCatalog      // of the class
	labels  map[string]string // that every machine of the pool carries
	taints  []corev1.Taint    // that stay on its machines
	windows bool              // all its machines have Windows
	// required is what the pool itself requires of its machines' labels.
	required []requirement.Expression
	used     corev1.ResourceList
	patience time.Duration // in which the price doubles that pods pay; 0 for any price at once

	model   packing.Pool
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
func poolsOf(s *Snapshot, memo *Memo, hosts []*host) (pools []*poolModel, broken []Note) {
	for _, pool := range s.NodePools {
		class := findClass(s, pool.Spec.Template.Spec.NodeClassRef)
		if r := poolProblem(pool, class); !r.OK() {
			broken = append(broken, Note{Object: "NodePool " + pool.Name, Reason: r})
			continue
		}
		m := &poolModel{pool: pool, class: class, catalog: catalogOf(memo, class.InstanceTypes)}
		if len(pool.Spec.Limits) > 0 {
			m.used = poolUsage(hosts, pool.Name)
		}
		m.patience, _ = pricePatience(pool)
		m.labels = poolLabels(pool)
		m.taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
		for _, r := range pool.Spec.Template.Spec.Requirements {
			m.required = append(m.required, poolExpression(r))
		}
		m.windows = m.sellsWindows()
		pools = append(pools, m)
	}
	slices.SortFunc(pools, comparePools)
	slices.SortFunc(broken, func(a, b Note) int { return cmp.Compare(a.Object, b.Object) })
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
	case strings.Contains(class.Problem, ref.Kind+" "+ref.Name):
		return problem("%s", class.Problem)
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
	for k := range u.Keys() {
		if values := m.catalog.values[u.Name(k)]; len(values) > 0 {
			u.Mention(u.Name(k), values...)
		}
	}
}

// compile turns the pool's catalog into options.
func (m *poolModel) compile(p *problem) {
	u := p.universe
	m.model.Weight = m.weight()
	m.model.Left = p.limitsLeft(m)
	table := m.list(p)
	m.take(p, table)
	m.settled = map[int][]valueOptions{}
	m.freeIndex = map[int]int{}
	for k := range u.Keys() {
		key := u.Name(k)
		if !m.keys[key] {
			m.freeIndex[k] = len(m.free)
			m.free = append(m.free, k)
			m.model.Free = append(m.model.Free, m.domain(u, k))
			continue
		}
		m.settled[k] = table.byBit(u, k)
	}
	m.subtractDaemons(p)
	m.houseDaemons(p)
	m.markLarge(p)
	m.model.Variety = m.varieties(p)
}

// list is the pool's table, an empty one for a pool that contradicts itself.
func (m *poolModel) list(p *problem) *poolTable {
	m.keys = maps.Clone(m.catalog.settled)
	m.chooseTopologies(p)
	if m.contradiction(p.universe) == "" {
		return m.table(p.universe)
	}
	return &poolTable{settled: map[string][]tableValue{}}
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
		for d := range p.daemons {
			if p.daemons[d].resident {
				text = append(text, byte(m.houses(d, i)))
			}
		}
		at, ok := known[string(text)]
		if !ok {
			at = c.place(func(key string) (string, bool) { return m.labelOf(p, i, key) }, func(f int) int32 {
				if passing[f].Has(i) {
					return 1
				}
				return 0
			}, func(d int) int32 { return m.houses(d, i) })
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
