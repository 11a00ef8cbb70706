package engine

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// crowd turns what pods want of each other into a topology.Layout: it collects the constraints of the waiting pods, and
// those of running pods that are about waiting ones, finds out which pods they select, and counts the running ones.
type crowd struct {
	id        uint64 // of all crowds that the memo has known
	selectors []*podSelector
	selector  map[*podSelector]int
	index     *selectorIndex

	groups   []crowdGroup
	group    map[string]int
	sets     []crowdSet
	set      map[string]int
	terms    []crowdTerm
	term     map[termWish]int
	concern  []concern // of each selector
	ports    []hostPort
	portAt   map[hostPort]int   // its place among the ports
	portsOf  map[hostPort][]int // the places of those that differ in the address only, by the port without it
	disks    []disk
	onces    []string
	soles    []soleVolume
	supplies []*supply
	endless  [][2]int       // supplies and their domains in which volumes can be made
	joint    capacity.Names // claims that several pods use
	filters  []crowdFilter
	filter   map[string]int

	keys    capacity.Names // of places: label keys, filters, the cluster as a whole, supplies
	domains []capacity.Names
	read    []placeKey // keys, taken apart
	places  map[string]int
	list    []topology.Place
	layout  topology.Layout
	// Room for one place.
	scratch topology.Place
	text    []byte
}

// placeKey is what a place says for one key: the value of a label, or what has a number.
type placeKey struct {
	kind, label string
	n           int
}

// crowdGroup is what a spread constraint counts.
type crowdGroup struct {
	selector int
	key      string
	filter   int  // -1 where every node counts
	required bool // by some pod, which would rather wait than break it
}

// crowdSet is what the affinity of a pod looks for, or the pods of a claim whose volume the first of them decides on.
type crowdSet struct {
	terms    []crowdTarget
	claim    *sharedClaim // nil for an affinity
	required bool
}

// keys lists the labels by which the set is counted.
func (s *crowdSet) keys() []string {
	if s.claim != nil {
		return s.claim.reach
	}
	keys := make([]string, 0, len(s.terms))
	for _, t := range s.terms {
		keys = append(keys, t.key)
	}
	return keys
}

type crowdTarget struct {
	selector int
	key      string
}

// crowdTerm is an anti-affinity term: pods that own it and pods that it selects keep each other out.
type crowdTerm struct {
	selector int
	key      string
	// wanted is true if a waiting pod owns it, running if a running pod does, preferred if one does that only prefers it.
	wanted, running, preferred bool
	required                   bool // by a waiting pod
	// selected and owned are the marks of the two sides, those of running pods that only prefer it being soft.
	selected, owned, soft int
}

// crowdFilter tells the nodes that a spread counts from those that it does not.
type crowdFilter struct {
	keys   []string
	demand *demand // node affinity to be honoured; nil for none
	taints []corev1.Toleration
	honour bool // of taints
}

func newCrowd(id uint64) *crowd {
	return &crowd{
		id:       id,
		selector: map[*podSelector]int{}, group: map[string]int{}, set: map[string]int{}, term: map[termWish]int{},
		filter: map[string]int{}, places: map[string]int{},
	}
}

// openValue stands for a label's value that is not known yet; no label can have it.
const openValue = "?"

// isHost reports whether every node is a domain of its own for the key.
func isHost(key string) bool { return key == corev1.LabelHostname }

// want collects what a waiting wish is about.
func (c *crowd) want(w *wish) {
	filters := w.filters()
	for i := range w.spreads {
		w.spreads[i].group = c.groupOf(filters, &w.spreads[i], filters.hard)
		c.groups[w.spreads[i].group].required = true
	}
	if w.set = c.setOf(w.affinity); w.set >= 0 {
		c.sets[w.set].required = true
	}
	for _, t := range w.anti {
		term := &c.terms[c.termOf(t)]
		term.wanted, term.required = true, true
	}
	for i := range w.soft {
		s := &w.soft[i]
		switch {
		case s.near != nil:
			s.set = c.setOf([]termWish{*s.near})
		case s.apart != nil:
			c.terms[c.termOf(*s.apart)].wanted = true
		case s.spread != nil:
			s.spread.group = c.groupOf(filters, s.spread, []string{s.spread.key})
		}
	}
	c.ports = append(c.ports, w.ports...)
	c.disks = append(c.disks, w.volumes.Disks...)
	c.onces, c.soles = append(c.onces, w.volumes.Once...), append(c.soles, w.volumes.Soles...)
	for i := range w.volumes.Undecided {
		c.sets[c.setOfClaim(&w.volumes.Undecided[i])].required = true
	}
	c.takes(w.volumes.Takes)
}

func (c *crowd) selectorOf(s *podSelector) int {
	i, ok := c.selector[s]
	if !ok {
		i = len(c.selectors)
		c.selector[s] = i
		c.selectors = append(c.selectors, s)
	}
	return i
}

// wishFilters are the parts of the filters of a wish's spreads, as text too.
type wishFilters struct {
	w              *wish
	hard           []string // keys of the hard spreads, sorted
	demand, taints string
}

func (w *wish) filters() *wishFilters {
	f := &wishFilters{w: w}
	for i := range w.spreads {
		f.hard = append(f.hard, w.spreads[i].key)
	}
	slices.Sort(f.hard)
	f.hard = slices.Compact(f.hard)
	return f
}

// groupOf is the group that one of the wish's spreads counts. All keys of a pod's hard spreads must be there for a node
// to count for any of them.
func (c *crowd) groupOf(of *wishFilters, s *spreadWish, keys []string) int {
	w := of.w
	f := crowdFilter{honour: s.taints, keys: keys}
	text := ""
	if s.affinity && !(len(w.strict) == 1 && len(w.strict[0]) == 0) {
		f.demand = &demand{terms: w.strict}
		if of.demand == "" {
			of.demand = f.demand.text()
		}
		text = of.demand
	}
	if s.taints {
		f.taints = w.tolerations
		if of.taints == "" {
			of.taints = "\ntaints " + demand{tolerations: w.tolerations}.text()
		}
		text += of.taints
	}
	text += "\n" + strings.Join(f.keys, ",")
	at, ok := c.filter[text]
	if !ok {
		at = len(c.filters)
		c.filter[text] = at
		c.filters = append(c.filters, f)
	}
	selector := c.selectorOf(s.selector)
	key := strconv.Itoa(selector) + " " + strconv.Itoa(at) + " " + s.key
	g, ok := c.group[key]
	if !ok {
		g = len(c.groups)
		c.group[key] = g
		c.groups = append(c.groups, crowdGroup{selector: selector, key: s.key, filter: at})
	}
	return g
}

// setOf is the set of pods that an affinity with these terms looks for, -1 for no terms.
func (c *crowd) setOf(terms []termWish) int {
	if len(terms) == 0 {
		return -1
	}
	var set crowdSet
	text := ""
	for _, t := range terms {
		selector := c.selectorOf(t.selector)
		set.terms = append(set.terms, crowdTarget{selector, t.key})
		text += strconv.Itoa(selector) + " " + t.key + "\n"
	}
	at, ok := c.set[text]
	if !ok {
		at = len(c.sets)
		c.set[text] = at
		c.sets = append(c.sets, set)
	}
	return at
}

// setOfClaim is the set of the pods that use the claim.
func (c *crowd) setOfClaim(claim *sharedClaim) int {
	text := "claim " + claim.id.String()
	at, ok := c.set[text]
	if !ok {
		at = len(c.sets)
		c.set[text] = at
		c.sets = append(c.sets, crowdSet{claim: claim})
	}
	return at
}

func (c *crowd) termOf(t termWish) int {
	at, ok := c.term[t]
	if !ok {
		at = len(c.terms)
		c.term[t] = at
		c.terms = append(c.terms, crowdTerm{selector: c.selectorOf(t.selector), key: t.key, selected: -1, owned: -1, soft: -1})
	}
	return at
}

// ran collects the anti-affinity of pods that run.
func (c *crowd) ran(w *wishes, f *podFacts) {
	a := w.apartOf(f)
	if a == nil || a.ran {
		return
	}
	a.ran = true
	for _, t := range a.required {
		c.terms[c.termOf(t)].running = true
	}
	if w.opt.Preferences == Ignore {
		return
	}
	for _, t := range a.preferred {
		c.terms[c.termOf(t)].preferred = true
	}
}

// close ends the collecting: from now on pods can be matched.
func (c *crowd) close() {
	c.index = newSelectorIndex(c.selectors)
	slices.SortFunc(c.ports, func(a, b hostPort) int { return strings.Compare(portText(a), portText(b)) })
	c.ports = slices.Compact(c.ports)
	slices.SortFunc(c.disks, compareDisks)
	c.disks = slices.Compact(c.disks)
	slices.Sort(c.onces)
	c.onces = slices.Compact(c.onces)
	slices.SortFunc(c.soles, compareSoles)
	c.soles = slices.Compact(c.soles)
	c.portAt, c.portsOf = make(map[hostPort]int, len(c.ports)), map[hostPort][]int{}
	for i, p := range c.ports {
		c.portAt[p] = i
		p.address = ""
		c.portsOf[p] = append(c.portsOf[p], i)
	}
	c.concern = make([]concern, len(c.selectors))
	for g := range c.groups {
		x := &c.concern[c.groups[g].selector]
		x.groups = append(x.groups, g)
	}
	for i := range c.sets {
		if c.sets[i].claim == nil {
			x := &c.concern[c.sets[i].terms[0].selector]
			x.sets = append(x.sets, i)
		}
	}
	for i := range c.terms {
		x := &c.concern[c.terms[i].selector]
		x.terms = append(x.terms, i)
	}
}

// concern is the groups, sets (of which the selector is the first) and terms that a selector belongs to.
type concern struct{ groups, sets, terms []int }

// concerns lists those of all the selectors, each in order.
func (c *crowd) concerns(selectors []int) concern {
	var out concern
	for _, s := range selectors {
		x := &c.concern[s]
		out.groups, out.sets, out.terms = append(out.groups, x.groups...), append(out.sets, x.sets...), append(out.terms, x.terms...)
	}
	slices.Sort(out.groups)
	slices.Sort(out.sets)
	slices.Sort(out.terms)
	return out
}

// colliding calls f for every wanted port that cannot be beside p on a node.
func (c *crowd) colliding(p hostPort, f func(i int)) {
	same := p
	if same.address = ""; p.address == everyAddress {
		for _, i := range c.portsOf[same] {
			f(i)
		}
		return
	}
	for _, address := range []string{p.address, everyAddress} {
		same.address = address
		if i, wanted := c.portAt[same]; wanted {
			f(i)
		}
	}
}

func portText(p hostPort) string {
	text := strconv.Itoa(int(p.port)) + "/" + p.protocol
	if p.address != everyAddress {
		text += " on " + p.address
	}
	return text
}

// number gives the keys and marks that matter their places. A term of running pods matters if it selects a waiting one.
func (c *crowd) number(selected bitset.Set, daemons []daemonSet) {
	mark := func(key string) int {
		if isHost(key) {
			c.layout.HostMarks++
			return c.layout.HostMarks - 1
		}
		c.layout.Marks = append(c.layout.Marks, topology.Mark{Key: c.keys.Index("label " + key)})
		return len(c.layout.Marks) - 1
	}
	for i := range c.terms {
		t := &c.terms[i]
		if t.wanted {
			t.selected = mark(t.key)
		}
		if (t.wanted || t.running) && selected.Has(t.selector) {
			t.owned = mark(t.key)
		}
		if t.preferred && selected.Has(t.selector) {
			t.soft = mark(t.key)
		}
	}
	for i := range c.sets {
		set := topology.Set{Loose: c.sets[i].claim != nil}
		for _, key := range c.sets[i].keys() {
			k := topology.Host
			if !isHost(key) {
				k = c.keys.Index("label " + key)
			}
			if !slices.Contains(set.Keys, k) {
				set.Keys = append(set.Keys, k)
			}
		}
		c.layout.Sets = append(c.layout.Sets, set)
	}
	for _, g := range c.groups {
		k := topology.Host
		if !isHost(g.key) {
			k = c.keys.Index("label " + g.key)
		}
		c.layout.Groups = append(c.layout.Groups, topology.Group{Key: k, Filter: c.keys.Index("filter " + strconv.Itoa(g.filter))})
	}
	if n := len(c.soles) + len(c.onces); n > 0 {
		k := c.keys.Index("cluster")
		for range n {
			c.layout.Marks = append(c.layout.Marks, topology.Mark{Key: k})
		}
	}
	c.numberSupplies()
	c.layout.HostMarks += len(c.ports) + len(c.disks)
	for i := range daemons {
		c.houses(&daemons[i], i)
	}
	c.domains = make([]capacity.Names, c.keys.Len())
}

// labelKeys lists the keys whose domains are values of labels.
func (c *crowd) labelKeys() []string {
	var keys []string
	for k := range c.keys.Len() {
		if key, ok := strings.CutPrefix(c.keys.Name(k), "label "); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// portMark, diskMark and onceMark are the marks of things that one pod holds at a time.
func (c *crowd) portMark(i int) int { return c.layout.HostMarks - len(c.disks) - len(c.ports) + i }

func (c *crowd) diskMark(i int) int { return c.layout.HostMarks - len(c.disks) + i }

func (c *crowd) onceMark(i int) int { return len(c.layout.Marks) - len(c.onces) + i }

// place is the index of the place with these labels that passes these filters: 1 says that it does, 0 that it does not. Whether
// machines there have the pod of a DaemonSet the last function says, as topology.Resident has it.
func (c *crowd) place(label func(key string) (string, bool), passes, houses func(i int) int32) int {
	for k := len(c.read); k < c.keys.Len(); k++ {
		kind, rest, _ := strings.Cut(c.keys.Name(k), " ")
		n, _ := strconv.Atoi(rest)
		c.read = append(c.read, placeKey{kind, rest, n})
	}
	place, text := c.scratch[:0], c.text[:0]
	for k, key := range c.read {
		at := int32(topology.Nowhere)
		switch key.kind {
		case "label":
			if value, ok := label(key.label); ok {
				at = int32(c.domains[k].Index(value))
			} else if value == openValue {
				at = topology.Open
			}
		case "filter":
			at = passes(key.n)
		case "supply":
			at = c.supplyAt(key.n, label)
		case "resident":
			at = houses(key.n)
		default:
			at = 0
		}
		place, text = append(place, at), append(strconv.AppendInt(text, int64(at), 10), ' ')
	}
	c.scratch, c.text = place, text
	at, ok := c.places[string(text)]
	if !ok {
		at = len(c.list)
		c.places[string(text)] = at
		c.list = append(c.list, slices.Clone(place))
	}
	return at
}

// settle makes the layout: all places are known. Filters that every place passes are none.
func (c *crowd) settle() {
	for k := range c.keys.Len() {
		n := c.domains[k].Len()
		switch kind, _, _ := strings.Cut(c.keys.Name(k), " "); kind {
		case "label", "supply":
		case "resident":
			n = 3
		default:
			n = 2
		}
		c.layout.Domains = append(c.layout.Domains, n)
	}
	c.settleSupplies()
	for i := range c.layout.Groups {
		g := &c.layout.Groups[i]
		if !slices.ContainsFunc(c.list, func(p topology.Place) bool { return p[g.Filter] != 1 }) {
			g.Filter = -1
		}
		if g.Key != topology.Host {
			g.Count = make([]int, c.layout.Domains[g.Key])
			g.There = bitset.New(c.layout.Domains[g.Key])
		}
	}
	for i := range c.layout.Sets {
		s := &c.layout.Sets[i]
		for _, k := range s.Keys {
			var count []int
			if k != topology.Host {
				count = make([]int, c.layout.Domains[k])
			}
			s.Count = append(s.Count, count)
		}
	}
	for i := range c.layout.Marks {
		m := &c.layout.Marks[i]
		m.At = bitset.New(c.layout.Domains[m.Key])
	}
}

// crowdGuess is where a machine may turn out to be: for each filter, and each key, the domains in which a spread may come to
// count it; nil for a filter that never counts it.
type crowdGuess [][][]int

// mayBe notes a machine of which it is not known where it will be: in each of those domains there may be nobody but it.
func (c *crowd) mayBe(place int, guess crowdGuess) {
	if guess == nil {
		return
	}
	for i := range c.layout.Groups {
		g := &c.layout.Groups[i]
		domains := guess[c.groups[i].filter]
		if domains == nil {
			continue
		}
		if g.Key == topology.Host {
			g.Zero = g.Zero || g.Filter >= 0 && c.list[place][g.Filter] != 1
			continue
		}
		for _, d := range domains[g.Key] {
			g.There.Add(d)
		}
	}
}
