package dra

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/kube"
)

type poolID struct{ driver, name string }

func idOf(s *resourcev1.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// Published holds the ResourceSlices of a cluster.
type Published struct {
	all        map[poolID][]*resourcev1.ResourceSlice // ordered by name
	ofNode     map[string][]poolID
	everywhere []poolID            // pools with slices that are not for one node
	own        map[string][]poolID // by node: pools with slices that name the node, or that the node owns
}

// Publish sorts the slices by the nodes that may use them.
func Publish(list []*resourcev1.ResourceSlice) *Published {
	p := &Published{all: map[poolID][]*resourcev1.ResourceSlice{}, ofNode: map[string][]poolID{}, own: map[string][]poolID{}}
	for _, s := range list {
		p.all[idOf(s)] = append(p.all[idOf(s)], s)
	}
	for id, slicesOfPool := range p.all {
		slices.SortFunc(slicesOfPool, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		nodes := map[string]bool{}
		for _, s := range slicesOfPool {
			p.belongs(nodeOf(s), id)
			for i := range s.OwnerReferences {
				if s.OwnerReferences[i].Kind == "Node" {
					p.belongs(s.OwnerReferences[i].Name, id)
				}
			}
			if node := nodeOf(s); node != "" && len(s.Spec.SharedCounters) == 0 {
				nodes[node] = true
			} else {
				nodes[""] = true
			}
		}
		if nodes[""] {
			p.everywhere = append(p.everywhere, id)
			continue
		}
		for node := range nodes {
			p.ofNode[node] = append(p.ofNode[node], id)
		}
	}
	return p
}

// belongs records that a part of the pool is the node's own. The caller finishes one pool before the next.
func (p *Published) belongs(node string, id poolID) {
	if of := p.own[node]; node != "" && (len(of) == 0 || of[len(of)-1] != id) {
		p.own[node] = append(of, id)
	}
}

func nodeOf(s *resourcev1.ResourceSlice) string { return text(s.Spec.NodeName) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func truth(b *bool) bool { return b != nil && *b }

// Pools lists the pools that a node may use, in kube-scheduler's order. Only the newest generation of a pool counts; if slices of it are
// missing, the pool is incomplete.
func (p *Published) Pools(m *Model, name string, labels map[string]string) []device.Pool {
	var first, last []device.Pool // pools with conditions that are met after binding come last
	for _, id := range slices.Concat(p.ofNode[name], p.everywhere) {
		pool, conditions, ok := p.pool(m, id, name, labels)
		switch {
		case !ok:
		case conditions:
			last = append(last, pool)
		default:
			first = append(first, pool)
		}
	}
	byID := func(a, b device.Pool) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(first, byID)
	slices.SortFunc(last, byID)
	return append(first, last...)
}

// Several returns the devices that several nodes can reach, by pool.
func (p *Published) Several(m *Model) []device.Pool {
	var out []device.Pool
	for _, id := range p.everywhere {
		own := map[string]bool{}
		pool := device.Pool{Driver: id.driver, Name: id.name}
		for _, s := range p.all[id] {
			own[nodeOf(s)] = true
			for i := range s.Spec.Devices {
				pool.Devices = append(pool.Devices, device.Device{Name: s.Spec.Devices[i].Name, Shape: m.shape(id.driver, &s.Spec.Devices[i])})
			}
		}
		if len(own) > 1 || own[""] {
			out = append(out, pool)
		}
	}
	slices.SortFunc(out, func(a, b device.Pool) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// pool reads a pool as the node sees it. ok is false if no slice is for the node, or only slices of an older generation.
func (p *Published) pool(m *Model, id poolID, name string, labels map[string]string) (pool device.Pool, conditions, ok bool) {
	newest := int64(-1)
	var relevant []*resourcev1.ResourceSlice
	for _, s := range p.all[id] {
		if !isFor(s, name, labels) {
			continue
		}
		if s.Spec.Pool.Generation > newest {
			newest, relevant = s.Spec.Pool.Generation, nil
		}
		if s.Spec.Pool.Generation == newest {
			relevant = append(relevant, s)
		}
	}
	if len(relevant) == 0 {
		return device.Pool{}, false, false
	}
	pool = device.Pool{Driver: id.driver, Name: id.name}
	var others []*resourcev1.ResourceSlice
	if want := relevant[0].Spec.Pool.ResourceSliceCount; int64(len(relevant)) != want {
		for _, s := range p.all[id] {
			if s.Spec.Pool.Generation > newest {
				return device.Pool{}, false, false
			}
			if s.Spec.Pool.Generation == newest && !slices.Contains(relevant, s) {
				others = append(others, s)
			}
		}
		if int64(len(relevant)+len(others)) != want {
			pool.Incomplete = true
			return pool, false, true
		}
	}
	r := poolReader{m: m, pool: &pool, name: name, labels: labels, devices: map[string]bool{}, counters: map[[2]string]bool{}, sets: map[string]bool{}}
	conditions = r.read(relevant, others)
	return pool, conditions, true
}

// isFor reports whether a node may use a part of the slice. Counters are for all users of the pool.
func isFor(s *resourcev1.ResourceSlice, name string, labels map[string]string) bool {
	switch {
	case len(s.Spec.SharedCounters) > 0:
		return true
	case nodeOf(s) != "" || truth(s.Spec.AllNodes) || s.Spec.NodeSelector != nil:
		return reaches(nodeOf(s), truth(s.Spec.AllNodes), s.Spec.NodeSelector, name, labels)
	case truth(s.Spec.PerDeviceNodeSelection):
		return slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return deviceReaches(&d, name, labels) })
	}
	return false
}

func deviceReaches(d *resourcev1.Device, name string, labels map[string]string) bool {
	return reaches(text(d.NodeName), truth(d.AllNodes), d.NodeSelector, name, labels)
}

func reaches(only string, all bool, selector *corev1.NodeSelector, name string, labels map[string]string) bool {
	switch {
	case only != "":
		return only == name
	case all:
		return true
	case selector != nil:
		return Selects(selector, name, labels)
	}
	return false
}

// Selects reports whether a node with this name and these labels matches one of the selector's terms.
func Selects(selector *corev1.NodeSelector, name string, labels map[string]string) bool {
	return slices.ContainsFunc(selector.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		expressions := kube.ExpressionsOf(term, kube.AsWritten)
		for _, e := range expressions {
			value, there := labels[e.Key]
			if e.Key == kube.NodeNameKey {
				value, there = name, true
			}
			if !e.Admits(value, there) {
				return false
			}
		}
		return len(expressions) > 0
	})
}

// A poolReader reads the slices of one complete pool.
type poolReader struct {
	m        *Model
	pool     *device.Pool
	name     string
	labels   map[string]string
	devices  map[string]bool
	sets     map[string]bool
	counters map[[2]string]bool
	wrong    string // an amount without an exact count
}

// read reads the slices, and reports whether some device has conditions to be met after binding.
func (r *poolReader) read(relevant, others []*resourcev1.ResourceSlice) (conditions bool) {
	for _, s := range relevant {
		for i := range s.Spec.SharedCounters {
			r.set(&s.Spec.SharedCounters[i])
		}
	}
	for _, s := range relevant {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if r.devices[d.Name] {
				r.invalid("two devices are named " + d.Name)
			}
			r.devices[d.Name] = true
			read := r.device(d)
			read.Elsewhere = truth(s.Spec.PerDeviceNodeSelection) && !deviceReaches(d, r.name, r.labels)
			r.pool.Devices = append(r.pool.Devices, read)
			conditions = conditions || d.BindingConditions != nil
		}
	}
	for _, s := range others {
		for i := range s.Spec.Devices {
			r.pool.Others = append(r.pool.Others, r.device(&s.Spec.Devices[i]))
		}
	}
	if r.wrong != "" {
		for i := range r.pool.Devices {
			r.pool.Devices[i].NotModelled = r.wrong
		}
	}
	if r.pool.Invalid != "" {
		return false
	}
	return conditions
}

func (r *poolReader) invalid(why string) {
	if r.pool.Invalid == "" {
		r.pool.Invalid = why
	}
}

func (r *poolReader) set(set *resourcev1.CounterSet) {
	if r.sets[set.Name] {
		r.invalid("two counter sets are named " + set.Name)
	}
	r.sets[set.Name] = true
	for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
		r.counters[[2]string{set.Name, name}] = true
		r.pool.Counters = append(r.pool.Counters, r.counter(set.Name, name, set.Counters[name]))
	}
}

func (r *poolReader) counter(set, name string, c resourcev1.Counter) device.Counter {
	amount, exact := amountOf(&c.Value)
	if !exact {
		r.wrong = "counter " + name + " of " + c.Value.String()
	}
	return device.Counter{Set: set, Name: name, Amount: amount}
}

func (r *poolReader) device(d *resourcev1.Device) device.Device {
	out := device.Device{Name: d.Name, Shape: r.m.shape(r.pool.Driver, d)}
	out.NotModelled = r.m.wrong[out.Shape]
	if len(d.NodeAllocatableResourceMappings) > 0 {
		names := slices.Sorted(maps.Keys(d.NodeAllocatableResourceMappings))
		out.NotModelled = "devices that take " + string(names[0]) + " of their node"
	}
	for _, c := range d.ConsumesCounters {
		if !r.sets[c.CounterSet] {
			r.invalid("device " + d.Name + " takes of counter set " + c.CounterSet + ", which there is not")
		}
		for _, name := range slices.Sorted(maps.Keys(c.Counters)) {
			if r.sets[c.CounterSet] && !r.counters[[2]string{c.CounterSet, name}] {
				r.invalid("device " + d.Name + " takes of counter " + name + ", which counter set " + c.CounterSet + " does not have")
			}
			out.Consumes = append(out.Consumes, r.counter(c.CounterSet, name, c.Counters[name]))
		}
	}
	for _, t := range d.Taints {
		out.Taints = append(out.Taints, device.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// Drivers lists, in order, the drivers with at least one complete pool of the node itself: with slices that name the node, or that it owns.
func (p *Published) Drivers(node *corev1.Node) []string {
	drivers := map[string]bool{}
	for _, id := range p.own[node.Name] {
		if _, have, want := ownParts(p.all[id], node); have > 0 && have == want {
			drivers[id.driver] = true
		}
	}
	return slices.Sorted(maps.Keys(drivers))
}

// Devices counts the node's own complete pools of a driver that have devices, and these devices.
func (p *Published) Devices(node *corev1.Node, driver string) (pools, n int) {
	for _, id := range p.own[node.Name] {
		list := p.all[id]
		newest, have, want := ownParts(list, node)
		if id.driver != driver || have != want {
			continue
		}
		before := n
		for _, s := range list {
			if s.Spec.Pool.Generation == newest && isOwn(s, node) {
				n += len(s.Spec.Devices)
			}
		}
		if n > before {
			pools++
		}
	}
	return pools, n
}

// Lacks describes the first of the drivers without a complete pool of the node. It returns "" if there is none. A node whose machine was bought for
// devices is ready once each of their drivers has one.
func (p *Published) Lacks(node *corev1.Node, drivers []string) string {
	have := p.Drivers(node)
	for _, driver := range drivers {
		if slices.Contains(have, driver) {
			continue
		}
		for _, id := range slices.SortedFunc(slices.Values(p.own[node.Name]), byPoolID) {
			if _, n, want := ownParts(p.all[id], node); id.driver == driver && n > 0 {
				return fmt.Sprintf("driver %s has published %d of %d ResourceSlices of pool %s", driver, n, want, id.name)
			}
		}
		return fmt.Sprintf("driver %s has published no ResourceSlices", driver)
	}
	return ""
}

func byPoolID(a, b poolID) int {
	return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.name, b.name))
}

// ownParts counts the node's own slices in the newest generation of a pool, and returns how many there should be.
func ownParts(list []*resourcev1.ResourceSlice, node *corev1.Node) (newest, have, want int64) {
	newest = -1
	for _, s := range list {
		switch {
		case !isOwn(s, node):
		case s.Spec.Pool.Generation > newest:
			newest, have, want = s.Spec.Pool.Generation, 1, s.Spec.Pool.ResourceSliceCount
		case s.Spec.Pool.Generation == newest:
			have++
		}
	}
	return newest, have, want
}

func isOwn(s *resourcev1.ResourceSlice, node *corev1.Node) bool {
	return nodeOf(s) == node.Name || owns(node, s)
}

func owns(node *corev1.Node, s *resourcev1.ResourceSlice) bool {
	return slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == node.Name && (o.UID == "" || node.UID == "" || o.UID == node.UID)
	})
}
