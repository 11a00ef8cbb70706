package constraints

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// InterPod turns the rules between pods into a topology.Layout. It collects the constraints of pending pods, and the constraints of running pods that
// select pending ones. Then it finds the pods that these constraints select, and counts the running pods.
type InterPod struct {
	ID        uint64 // unique among all that the cache has had
	Selectors []*kube.PodSelector
	Selector  map[*kube.PodSelector]int
	Index     *kube.SelectorIndex

	Groups   []spreadGroup
	group    map[string]int
	Sets     []affinitySet
	set      map[string]int
	Terms    []antiAffinityTerm
	Term     map[kube.AffinityTerm]int
	concern  []Concern // the Concern of each selector
	ports    []kube.HostPort
	PortAt   map[kube.HostPort]int   // its index in ports
	portsOf  map[kube.HostPort][]int // the indexes of ports that differ only in the address, by the port without address
	Disks    []volume.Disk
	Onces    []string
	soles    []volume.SingleVolume
	claimed  int // kinds of claims for devices
	supplies []*volume.AvailableVolumes
	endless  [][2]int       // available volumes and their domains in which volumes can be made
	joint    capacity.Names // claims that several pods use
	Filters  []NodeFilter
	filter   map[string]int

	Keys    capacity.Names // the keys of places: label keys, filters, the cluster as a whole, available volumes
	Domains []capacity.Names
	read    []placeKey // the parsed keys
	places  map[string]int
	List    []topology.Place
	Layout  topology.Layout
	// The memory for one place is used again.
	scratch topology.Place
	text    []byte
}

// placeKey is the meaning of one key of places: a label key, or a kind of object and its index.
type placeKey struct {
	kind, label string
	n           int
}

// spreadGroup is the group of pods and nodes that a spread constraint counts.
type spreadGroup struct {
	Selector int
	Key      string
	filter   int  // index in InterPod.filters
	Required bool // some pod requires the spread, and waits rather than break it
}

// affinitySet is the set of pods that an affinity looks for, or the pods that share a claim, if the first of them decides where its volume will be.
type affinitySet struct {
	Terms    []affinityTarget
	Claim    *volume.SharedClaim // nil for an affinity
	Required bool
}

// keys returns the label keys by which the set is counted.
func (s *affinitySet) keys() []string {
	if s.Claim != nil {
		return s.Claim.Reach
	}
	keys := make([]string, 0, len(s.Terms))
	for _, t := range s.Terms {
		keys = append(keys, t.Key)
	}
	return keys
}

type affinityTarget struct {
	Selector int
	Key      string
}

// antiAffinityTerm is an anti-affinity term: pods that own it and pods that it selects keep each other out.
type antiAffinityTerm struct {
	Selector int
	Key      string
	// wanted is true if a pending pod owns the term, running if a running pod requires it, preferred if a running pod prefers it.
	wanted, running, preferred bool
	Required                   bool // a pending pod requires the term
	// Selected and Owned are the marks of selected pods and of owners, Soft the mark of running owners that only prefer it.
	Selected, Owned, Soft int
}

// NodeFilter selects the nodes that a spread counts.
type NodeFilter struct {
	Keys   []string
	Demand *kube.NodeConstraints // node affinity that the spread honours; nil for none
	Taints []corev1.Toleration
	Honour bool // whether the spread honours taints
}

func NewInterPod(id uint64) *InterPod {
	return &InterPod{
		ID:       id,
		Selector: map[*kube.PodSelector]int{}, group: map[string]int{}, set: map[string]int{}, Term: map[kube.AffinityTerm]int{},
		filter: map[string]int{}, places: map[string]int{},
	}
}

// Add collects the rules of a pending pod.
func (c *InterPod) Add(p *PodConstraints) {
	filters := p.filters()
	for i := range p.Spreads {
		p.Spreads[i].Group = c.groupOf(filters, &p.Spreads[i], filters.hard)
		c.Groups[p.Spreads[i].Group].Required = true
	}
	if p.Set = c.setOf(p.Affinity); p.Set >= 0 {
		c.Sets[p.Set].Required = true
	}
	for _, t := range p.Anti {
		term := &c.Terms[c.termOf(t)]
		term.wanted, term.Required = true, true
	}
	for i := range p.Soft {
		s := &p.Soft[i]
		switch {
		case s.Near != nil:
			s.Set = c.setOf([]kube.AffinityTerm{*s.Near})
		case s.Apart != nil:
			c.Terms[c.termOf(*s.Apart)].wanted = true
		case s.Spread != nil:
			s.Spread.Group = c.groupOf(filters, s.Spread, []string{s.Spread.Key})
		}
	}
	c.ports = append(c.ports, p.Ports...)
	c.Disks = append(c.Disks, p.Volumes.Disks...)
	c.Onces, c.soles = append(c.Onces, p.Volumes.Once...), append(c.soles, p.Volumes.Singles...)
	for i := range p.Volumes.Undecided {
		c.Sets[c.SetOfClaim(&p.Volumes.Undecided[i])].Required = true
	}
	c.Takes(p.Volumes.Takes)
	if set := c.SetOfDevices(p); set >= 0 {
		c.Sets[set].Required = true
	}
}

// SetOfDevices returns the set of the pods that share the pod's claim for devices and so run on one machine. It returns -1 if the pod has no such
// claim.
func (c *InterPod) SetOfDevices(p *PodConstraints) int {
	if p.Devices.Shared == "" {
		return -1
	}
	return c.setOfReach("devices "+p.Devices.Shared, &volume.SharedClaim{Reach: []string{corev1.LabelHostname}})
}

// Claim reserves marks for the given number of kinds of claims for devices.
func (c *InterPod) Claim(kinds int) { c.claimed = kinds }

// DeviceMark returns the mark of the pods of a kind of claims for devices.
func (c *InterPod) DeviceMark(kind int) int {
	return c.Layout.HostMarks - len(c.Disks) - len(c.ports) - c.claimed + kind
}

func (c *InterPod) SelectorOf(s *kube.PodSelector) int {
	i, ok := c.Selector[s]
	if !ok {
		i = len(c.Selectors)
		c.Selector[s] = i
		c.Selectors = append(c.Selectors, s)
	}
	return i
}

// spreadFilters holds the parts of the filters of a pod's spreads, also as text.
type spreadFilters struct {
	w              *PodConstraints
	hard           []string // keys of the hard spreads, sorted
	demand, taints string
}

func (c *PodConstraints) filters() *spreadFilters {
	f := &spreadFilters{w: c}
	for i := range c.Spreads {
		f.hard = append(f.hard, c.Spreads[i].Key)
	}
	slices.Sort(f.hard)
	f.hard = slices.Compact(f.hard)
	return f
}

// groupOf returns the group that one of the constraints' spreads counts. A hard spread includes a node only if it has the keys of all hard spreads of
// the pod.
func (c *InterPod) groupOf(of *spreadFilters, s *SpreadConstraint, keys []string) int {
	p := of.w
	f := NodeFilter{Honour: s.HonorTaints, Keys: keys}
	text := ""
	if s.HonorAffinity && !kube.AnyNode(p.Strict) {
		f.Demand = &kube.NodeConstraints{Terms: p.Strict}
		if of.demand == "" {
			of.demand = f.Demand.Text()
		}
		text = of.demand
	}
	if s.HonorTaints {
		f.Taints = p.Tolerations
		if of.taints == "" {
			of.taints = "\ntaints " + kube.NodeConstraints{Tolerations: p.Tolerations}.Text()
		}
		text += of.taints
	}
	text += "\n" + strings.Join(f.Keys, ",")
	at, ok := c.filter[text]
	if !ok {
		at = len(c.Filters)
		c.filter[text] = at
		c.Filters = append(c.Filters, f)
	}
	selector := c.SelectorOf(s.Selector)
	key := strconv.Itoa(selector) + " " + strconv.Itoa(at) + " " + s.Key
	g, ok := c.group[key]
	if !ok {
		g = len(c.Groups)
		c.group[key] = g
		c.Groups = append(c.Groups, spreadGroup{Selector: selector, Key: s.Key, filter: at})
	}
	return g
}

// setOf returns the index of the set of pods that an affinity with these terms looks for. It returns -1 if there are no terms.
func (c *InterPod) setOf(terms []kube.AffinityTerm) int {
	if len(terms) == 0 {
		return -1
	}
	var set affinitySet
	text := ""
	for _, t := range terms {
		selector := c.SelectorOf(t.Selector)
		set.Terms = append(set.Terms, affinityTarget{selector, t.Key})
		text += strconv.Itoa(selector) + " " + t.Key + "\n"
	}
	at, ok := c.set[text]
	if !ok {
		at = len(c.Sets)
		c.set[text] = at
		c.Sets = append(c.Sets, set)
	}
	return at
}

// SetOfClaim returns the set of the pods that use the claim.
func (c *InterPod) SetOfClaim(claim *volume.SharedClaim) int {
	return c.setOfReach("claim "+claim.ID.String(), claim)
}

func (c *InterPod) setOfReach(text string, claim *volume.SharedClaim) int {
	at, ok := c.set[text]
	if !ok {
		at = len(c.Sets)
		c.set[text] = at
		c.Sets = append(c.Sets, affinitySet{Claim: claim})
	}
	return at
}

func (c *InterPod) termOf(t kube.AffinityTerm) int {
	at, ok := c.Term[t]
	if !ok {
		at = len(c.Terms)
		c.Term[t] = at
		c.Terms = append(c.Terms, antiAffinityTerm{Selector: c.SelectorOf(t.Selector), Key: t.Key, Selected: -1, Owned: -1, Soft: -1})
	}
	return at
}

// AddRunning collects the anti-affinity of a running pod.
func (c *InterPod) AddRunning(w *Reader, info *inventory.PodInfo) {
	a := w.AntiAffinityOf(info)
	if a == nil || a.ran {
		return
	}
	a.ran = true
	for _, t := range a.Required {
		c.Terms[c.termOf(t)].running = true
	}
	if w.opt.Preferences == engine.Ignore {
		return
	}
	for _, t := range a.Preferred {
		c.Terms[c.termOf(t.AffinityTerm)].preferred = true
	}
}

// Close ends the collection of rules. From then on, pods can be matched with the selectors.
func (c *InterPod) Close() {
	c.Index = kube.NewSelectorIndex(c.Selectors)
	slices.SortFunc(c.ports, func(a, b kube.HostPort) int { return strings.Compare(kube.PortText(a), kube.PortText(b)) })
	c.ports = slices.Compact(c.ports)
	slices.SortFunc(c.Disks, volume.CompareDisks)
	c.Disks = slices.Compact(c.Disks)
	slices.Sort(c.Onces)
	c.Onces = slices.Compact(c.Onces)
	slices.SortFunc(c.soles, volume.CompareSingles)
	c.soles = slices.Compact(c.soles)
	c.PortAt, c.portsOf = make(map[kube.HostPort]int, len(c.ports)), map[kube.HostPort][]int{}
	for i, p := range c.ports {
		c.PortAt[p] = i
		p.Address = ""
		c.portsOf[p] = append(c.portsOf[p], i)
	}
	c.concern = make([]Concern, len(c.Selectors))
	for g := range c.Groups {
		x := &c.concern[c.Groups[g].Selector]
		x.Groups = append(x.Groups, g)
	}
	for i := range c.Sets {
		if c.Sets[i].Claim == nil {
			x := &c.concern[c.Sets[i].Terms[0].Selector]
			x.Sets = append(x.Sets, i)
		}
	}
	for i := range c.Terms {
		x := &c.concern[c.Terms[i].Selector]
		x.Terms = append(x.Terms, i)
	}
}

// Concern lists the groups, sets and terms that use a selector. A set is listed only with the first of its selectors.
type Concern struct{ Groups, Sets, Terms []int }

// Concerns returns the groups, sets and terms of all the selectors, in ascending order.
func (c *InterPod) Concerns(selectors []int) Concern {
	var out Concern
	for _, s := range selectors {
		x := &c.concern[s]
		out.Groups, out.Sets, out.Terms = append(out.Groups, x.Groups...), append(out.Sets, x.Sets...), append(out.Terms, x.Terms...)
	}
	slices.Sort(out.Groups)
	slices.Sort(out.Sets)
	slices.Sort(out.Terms)
	return out
}

// Colliding calls f for every port of pending pods that cannot share a node with p.
func (c *InterPod) Colliding(p kube.HostPort, f func(i int)) {
	same := p
	if same.Address = ""; p.Address == kube.EveryAddress {
		for _, i := range c.portsOf[same] {
			f(i)
		}
		return
	}
	for _, address := range []string{p.Address, kube.EveryAddress} {
		same.Address = address
		if i, wanted := c.PortAt[same]; wanted {
			f(i)
		}
	}
}

// Number assigns indexes to the keys and marks that matter. A term of running pods matters only if it selects a pending pod.
func (c *InterPod) Number(selected bitset.Set, daemons []DaemonSet) {
	mark := func(key string) int {
		if kube.IsHost(key) {
			c.Layout.HostMarks++
			return c.Layout.HostMarks - 1
		}
		c.Layout.Marks = append(c.Layout.Marks, topology.Mark{Key: c.Keys.Index("label " + key)})
		return len(c.Layout.Marks) - 1
	}
	for i := range c.Terms {
		t := &c.Terms[i]
		if t.wanted {
			t.Selected = mark(t.Key)
		}
		if (t.wanted || t.running) && selected.Has(t.Selector) {
			t.Owned = mark(t.Key)
		}
		if t.preferred && selected.Has(t.Selector) {
			t.Soft = mark(t.Key)
		}
	}
	for i := range c.Sets {
		set := topology.Set{Loose: c.Sets[i].Claim != nil}
		for _, key := range c.Sets[i].keys() {
			k := topology.Host
			if !kube.IsHost(key) {
				k = c.Keys.Index("label " + key)
			}
			if !slices.Contains(set.Keys, k) {
				set.Keys = append(set.Keys, k)
			}
		}
		c.Layout.Sets = append(c.Layout.Sets, set)
	}
	for _, g := range c.Groups {
		k := topology.Host
		if !kube.IsHost(g.Key) {
			k = c.Keys.Index("label " + g.Key)
		}
		c.Layout.Groups = append(c.Layout.Groups, topology.Group{Key: k, Filter: c.Keys.Index("filter " + strconv.Itoa(g.filter))})
	}
	if n := len(c.soles) + len(c.Onces); n > 0 {
		k := c.Keys.Index("cluster")
		for range n {
			c.Layout.Marks = append(c.Layout.Marks, topology.Mark{Key: k})
		}
	}
	c.numberAvailable()
	c.Layout.HostMarks += c.claimed + len(c.ports) + len(c.Disks)
	for i := range daemons {
		c.addDaemonSet(&daemons[i], i)
	}
	c.Domains = make([]capacity.Names, c.Keys.Len())
}

// LabelKeys returns the keys whose domains are values of labels.
func (c *InterPod) LabelKeys() []string {
	var keys []string
	for k := range c.Keys.Len() {
		if key, ok := strings.CutPrefix(c.Keys.Name(k), "label "); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// PortMark, DiskMark and OnceMark return the marks of things that only one pod can hold at a time.
func (c *InterPod) PortMark(i int) int { return c.Layout.HostMarks - len(c.Disks) - len(c.ports) + i }

func (c *InterPod) DiskMark(i int) int { return c.Layout.HostMarks - len(c.Disks) + i }

func (c *InterPod) OnceMark(i int) int { return len(c.Layout.Marks) - len(c.Onces) + i }

// Place returns the index of the place with these labels. `passes` returns 1 for each filter that the place passes, and 0 for the others. `houses`
// returns whether machines there have the pod of a DaemonSet, as a domain of topology.Resident.
func (c *InterPod) Place(label func(key string) (string, bool), passes, houses func(i int) int32) int {
	for k := len(c.read); k < c.Keys.Len(); k++ {
		kind, rest, _ := strings.Cut(c.Keys.Name(k), " ")
		n, _ := strconv.Atoi(rest)
		c.read = append(c.read, placeKey{kind, rest, n})
	}
	place, text := c.scratch[:0], c.text[:0]
	for k, key := range c.read {
		at := int32(topology.Nowhere)
		switch key.kind {
		case "label":
			if value, ok := label(key.label); ok {
				at = int32(c.Domains[k].Index(value))
			} else if value == kube.OpenValue {
				at = topology.Open
			}
		case "filter":
			at = passes(key.n)
		case "supply":
			at = c.availableAt(key.n, label)
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
		at = len(c.List)
		c.places[string(text)] = at
		c.List = append(c.List, slices.Clone(place))
	}
	return at
}

// Finish completes the layout once all places are known. It removes filters that every place passes.
func (c *InterPod) Finish() {
	for k := range c.Keys.Len() {
		n := c.Domains[k].Len()
		switch kind, _, _ := strings.Cut(c.Keys.Name(k), " "); kind {
		case "label", "supply":
		case "resident":
			n = 3
		default:
			n = 2
		}
		c.Layout.Domains = append(c.Layout.Domains, n)
	}
	c.closeAvailable()
	for i := range c.Layout.Groups {
		g := &c.Layout.Groups[i]
		if !slices.ContainsFunc(c.List, func(p topology.Place) bool { return p[g.Filter] != 1 }) {
			g.Filter = -1
		}
		if g.Key != topology.Host {
			g.Count = make([]int, c.Layout.Domains[g.Key])
			g.There = bitset.New(c.Layout.Domains[g.Key])
		}
	}
	for i := range c.Layout.Sets {
		s := &c.Layout.Sets[i]
		for _, k := range s.Keys {
			var count []int
			if k != topology.Host {
				count = make([]int, c.Layout.Domains[k])
			}
			s.Count = append(s.Count, count)
		}
	}
	for i := range c.Layout.Marks {
		m := &c.Layout.Marks[i]
		m.At = bitset.New(c.Layout.Domains[m.Key])
	}
}

// Possible lists where a machine may turn out to be: for each filter and key, the domains in which a spread may include the machine; nil for a filter
// that never includes the machine.
type Possible [][][]int

// MayBe notes a machine whose place is not known yet. In each of its possible domains, the machine may be the only one.
func (c *InterPod) MayBe(place int, guess Possible) {
	if guess == nil {
		return
	}
	for i := range c.Layout.Groups {
		g := &c.Layout.Groups[i]
		domains := guess[c.Groups[i].filter]
		if domains == nil {
			continue
		}
		if g.Key == topology.Host {
			g.Zero = g.Zero || g.Filter >= 0 && c.List[place][g.Filter] != 1
			continue
		}
		for _, d := range domains[g.Key] {
			g.There.Add(d)
		}
	}
}
