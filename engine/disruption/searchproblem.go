package disruption

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/consolidation"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/topology"
)

// searchClass is the pods of one class that run in the same domains of their rules. Within these domains they may move without changing any count.
type searchClass struct {
	class, level int
	at           string
	lots         []searchLot // sorted by machine
}

// searchLot is the pods of a search class that run on one machine.
type searchLot struct {
	machine int
	pods    []*corev1.Pod // oldest first
}

// add adds pods of the class that run on the machine. Callers add all pods of one machine before those of the next.
func (s *searchClass) add(machine int, pods []*corev1.Pod) {
	last := len(s.lots) - 1
	if last < 0 || s.lots[last].machine != machine {
		s.lots = append(s.lots, searchLot{machine, pods})
		return
	}
	s.lots[last].pods = slices.Concat(s.lots[last].pods, pods)
	slices.SortFunc(s.lots[last].pods, kube.OlderFirst)
}

// on lists the pods that run on the machine.
func (s *searchClass) on(machine int) []*corev1.Pod {
	i, _ := slices.BinarySearchFunc(s.lots, machine, func(l searchLot, m int) int { return cmp.Compare(l.machine, m) })
	return s.lots[i].pods
}

// listedOption is an option of the packing problem.
type listedOption struct{ pool, option int }

// optionsOf returns the options to buy; it includes covered ones only if covered is true. It leaves out a dearer option that has no more of any
// resource than another one for the same classes in the same place.
func optionsOf(p *provisioning.Problem, covered bool) ([]consolidation.Option, []listedOption) {
	var all []listedOption
	for i, pool := range p.Pools {
		for o := range pool.Model.Options {
			if pool.Model.Options[o].Listed && (covered || !pool.Model.Options[o].Covered) {
				all = append(all, listedOption{i, o})
			}
		}
	}
	option := func(l listedOption) *packing.Option { return &p.Pools[l.pool].Model.Options[l.option] }
	slices.SortStableFunc(all, func(a, b listedOption) int { return cmp.Compare(option(a).Price, option(b).Price) })
	ways := waysOf(p.Packing.Classes)
	kept := map[string][]listedOption{}
	var key []byte
	var out []consolidation.Option
	var listed []listedOption
	for _, l := range all {
		o := option(l)
		users := bitset.New(len(ways))
		for i, w := range ways {
			if slices.ContainsFunc(w.Pools[l.pool], func(way packing.Way) bool { return way.Options.Has(l.option) }) {
				users.Add(i)
			}
		}
		if users.Empty() {
			continue
		}
		key = key[:0]
		for _, word := range users {
			key = binary.LittleEndian.AppendUint64(key, word)
		}
		text := string(strconv.AppendBool(strconv.AppendInt(key, int64(o.Place), 10), o.Large))
		if slices.ContainsFunc(kept[text], func(k listedOption) bool { return o.Allocatable.Fits(option(k).Allocatable) }) {
			continue
		}
		kept[text] = append(kept[text], l)
		out = append(out, consolidation.Option{Price: o.Price, Allocatable: o.Allocatable})
		listed = append(listed, l)
	}
	return out, listed
}

// waysOf returns the distinct ways of the classes.
func waysOf(classes []packing.Class) []*packing.Ways {
	seen := map[*packing.Ways]bool{}
	var out []*packing.Ways
	for i := range classes {
		for l := range classes[i].Levels {
			if w := classes[i].Levels[l].Ways; !seen[w] {
				seen[w] = true
				out = append(out, w)
			}
		}
	}
	return out
}

// readClasses adds to the search's problem which pods run where, and where they may run.
func (c *consolidator) readClasses(p *consolidation.Problem, machineOf []int, listed []listedOption) {
	kinds := map[string]int{}
	c.domains, c.misses = map[ruledPlace]string{}, make([]float64, len(c.problem.Machines))
	for i, class := range c.problem.Classes {
		byPlace := map[string]int{}
		level := c.levelOf(i)
		rules := c.problem.Packing.Classes[i].Levels[level].Rules
		for _, lot := range class.Classes {
			machine := machineOf[lot.From.Number]
			place := -1
			if machine < len(c.problem.Targets) {
				place = c.problem.Packing.Nodes[machine].Place
			}
			at := c.domainsOf(rules, place)
			k, ok := byPlace[at]
			if !ok {
				k = len(c.classes)
				byPlace[at] = k
				c.classes = append(c.classes, searchClass{class: i, level: level, at: at})
				p.Classes = append(p.Classes, c.searched(&c.classes[k], listed, kinds))
			}
			c.classes[k].add(machine, lot.Pods)
			if c.yielding {
				c.misses[lot.From.Number] += c.missOf(i) * float64(len(lot.Pods))
			}
		}
	}
	for k := range c.classes {
		slices.SortFunc(c.classes[k].lots, func(a, b searchLot) int { return cmp.Compare(a.machine, b.machine) })
		for _, l := range c.classes[k].lots {
			m := &p.Machines[l.machine]
			m.Pods = append(m.Pods, consolidation.Lot{Of: k, N: len(l.pods)})
		}
	}
	c.countKinds(p, kinds)
}

// levelOf returns the first level of the class at which any machine takes it; the last level if pods give up their preferences.
func (c *consolidator) levelOf(class int) int {
	levels := c.problem.Packing.Classes[class].Levels
	if c.yielding {
		return len(levels) - 1
	}
	for l := range levels {
		if !levels[l].Nodes.Empty() {
			return l
		}
	}
	return len(levels) - 1
}

// domains returns, as text, the domains of the place that the rules look at, without the keys of residents (pods that come with a new machine).
func domains(r *topology.Rules, l *topology.Layout, place topology.Place) string {
	if r == nil || place == nil {
		return ""
	}
	text := ""
	for _, key := range r.Interest(l) {
		if slices.ContainsFunc(l.Residents, func(r topology.Resident) bool { return r.Key == key }) {
			continue
		}
		text += fmt.Sprint(place[key], " ")
	}
	return text
}

// ruledPlace is a place together with rules: the key of consolidator.domains.
type ruledPlace struct {
	rules *topology.Rules
	place int
}

// domainsOf returns the domains of the problem's place with this index. It returns "" for an index below zero.
func (c *consolidator) domainsOf(r *topology.Rules, place int) string {
	if r == nil || place < 0 {
		return ""
	}
	key := ruledPlace{r, place}
	text, known := c.domains[key]
	if !known {
		text = domains(r, &c.problem.Packing.Layout, c.problem.Packing.Places[place])
		c.domains[key] = text
	}
	return text
}

// searched returns the class in the form that the search needs.
func (c *consolidator) searched(s *searchClass, listed []listedOption, kinds map[string]int) consolidation.Class {
	p := c.problem
	class := &p.Packing.Classes[s.class]
	level := &class.Levels[s.level]
	out := consolidation.Class{Request: class.Request, Where: level.Nodes, Options: bitset.New(len(listed)), Kind: -1}
	if s.at != "" {
		out.Where = level.Nodes.Clone()
		for i := range p.Targets {
			if out.Where.Has(i) && c.domainsOf(level.Rules, p.Packing.Nodes[i].Place) != s.at {
				out.Where.Remove(i)
			}
		}
	}
	for i, l := range listed {
		o := &p.Pools[l.pool].Model.Options[l.option]
		if hasDevices(c.problem.Packing, o.Allocatable) && !hasDevices(c.problem.Packing, class.Request) {
			continue
		}
		if s.at != "" && c.domainsOf(level.Rules, o.Place) != s.at || level.Rules != nil && level.Rules.Barred(&p.Packing.Layout, p.Packing.Places[o.Place]) {
			continue
		}
		if slices.ContainsFunc(level.Ways.Pools[l.pool], func(w packing.Way) bool { return w.Options.Has(l.option) }) {
			out.Options.Add(i)
		}
	}
	out.Kind, out.Most = kindOf(&c.problem.Packing.Layout, level.Rules, kinds)
	return out
}

// hasDevices reports whether the amounts, a request or an option's, include any of a device.
func hasDevices(p *packing.Problem, amounts capacity.Vector) bool {
	for d, device := range p.Devices {
		if device && amounts[d] > 0 {
			return true
		}
	}
	return false
}

// kindOf returns the index of the kind of pods that the rules bound on each machine, and the bound. The kind is pods of a spread over machines, or
// pods that keep each other out.
func kindOf(layout *topology.Layout, r *topology.Rules, kinds map[string]int) (kind, most int) {
	if r == nil {
		return -1, 0
	}
	text, most := "", 0
	for _, sp := range r.Spread {
		if layout.Groups[sp.Group].Key == topology.Host && sp.Self {
			text, most = fmt.Sprint("group ", sp.Group), sp.MaxSkew
		}
	}
	if meets(r.HostRejects, r.HostOwns) {
		text, most = fmt.Sprint("marks ", r.HostOwns), 1
	}
	if text == "" {
		return -1, 0
	}
	if _, ok := kinds[text]; !ok {
		kinds[text] = len(kinds)
	}
	return kinds[text], most
}

// countKinds counts the pods of each kind that run on the machines already.
func (c *consolidator) countKinds(p *consolidation.Problem, kinds map[string]int) {
	for k := range c.classes {
		class := &p.Classes[k]
		if class.Kind < 0 {
			continue
		}
		level := &c.problem.Packing.Classes[c.classes[k].class].Levels[c.classes[k].level]
		for i := range c.problem.Packing.Nodes {
			node := &c.problem.Packing.Nodes[i]
			m := &p.Machines[i]
			if slices.ContainsFunc(m.Kinds, func(l consolidation.Lot) bool { return l.Of == class.Kind }) {
				continue
			}
			n := 0
			for _, sp := range level.Rules.Spread {
				for _, t := range node.Groups {
					if t.Of == sp.Group && c.problem.Packing.Layout.Groups[sp.Group].Key == topology.Host {
						n = max(n, t.Count)
					}
				}
			}
			if meets(level.Rules.HostRejects, node.Owns) || meets(level.Rules.HostOwns, node.Rejects) {
				n = max(n, class.Most)
			}
			if n > 0 {
				m.Kinds = append(m.Kinds, consolidation.Lot{Of: class.Kind, N: n})
			}
		}
	}
}

// hint records where the search puts pods.
func (c *consolidator) hint(r *consolidation.Result, machineOf []int) {
	number := make([]int, len(machineOf))
	for n, i := range machineOf {
		if i >= 0 {
			number[i] = n
		}
	}
	next := map[[2]int]int{}
	for _, x := range r.Placed {
		pods, id := c.classes[x.Class].on(x.From), [2]int{x.Class, x.From}
		for range x.N {
			c.nominations[pods[next[id]]] = number[x.To]
			next[id]++
		}
	}
}

func meets(a, b bitset.Set) bool { return len(a) > 0 && len(b) > 0 && a.Meets(b) }
