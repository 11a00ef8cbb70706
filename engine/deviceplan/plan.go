// Package deviceplan translates claims for devices (Dynamic Resource Allocation) into the terms of packing and of replays. Pods that claim the same
// are of one kind. If a kind only counts devices that selectors match, its devices are resources like others. If a kind uses shares, counters,
// constraints or alternatives, the allocator computes how many of its pods a machine serves. On a new machine, such pods share no device with pods
// of other kinds, because kube-scheduler has not yet chosen the devices.
package deviceplan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Plan holds the claims and devices of a snapshot. Only one goroutine may use it.
type Plan struct {
	cache   *inventory.Cache // the cache of the pass
	model   *dra.Model
	facts   *device.Facts
	claims  *dra.ClaimIndex
	made    map[*corev1.Pod]*resourcev1.ResourceClaim // the claims for extended resources that are backed by devices
	classes map[string]*resourcev1.DeviceClass
	texts   map[*resourcev1.ResourceClaim]string
	users   map[*resourcev1.ResourceClaim]int // the number of pods that wait for the claim's allocation
	usage   *device.Usage
	kinds   []*kind // sorted by their texts
	byText  map[string]*kind
	groups  []group

	types  map[*engine.InstanceType][]device.Pool
	byName map[string]*engine.InstanceType
	// learned holds the pools that drivers have published on nodes, by NodePool and type. shownBy counts these nodes, by NodePool, type and
	// driver.
	learned map[[2]string][]device.Pool
	shownBy map[[3]string]int
	nodes   map[string][]device.Pool
	// several holds the pools of devices that several nodes reach.
	several []device.Pool
	listed  []*corev1.Node

	roomOfType map[typeIn]map[corev1.ResourceName]int64
	roomOfNode map[string]map[corev1.ResourceName]int64
}

// typeIn is an instance type as a NodePool starts it.
type typeIn struct {
	pool string
	kind *engine.InstanceType
}

// kept is the plan of the last snapshot that was read with a cache.
type kept struct {
	pass uint64
	of   *engine.Snapshot
	plan *Plan
}

// Of returns the snapshot's plan. It returns nil if claims are ignored or if no pod has claims.
func Of(s *engine.Snapshot, cache *inventory.Cache) *Plan {
	if s.Selectors == nil {
		return nil
	}
	known := inventory.KeptBy[kept](cache)
	if known.of != s || known.pass != cache.Pass {
		*known = kept{cache.Pass, s, read(s, cache)}
	}
	return known.plan
}

func read(s *engine.Snapshot, cache *inventory.Cache) *Plan {
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		if !kube.IsTerminal(pod) && (len(pod.Spec.ResourceClaims) > 0 || cache.Devices.Any() && len(cache.NextRequests(cache.InfoOf(pod)).Devices) > 0) {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	p := &Plan{
		cache: cache, made: map[*corev1.Pod]*resourcev1.ResourceClaim{},
		model: dra.NewModel(), claims: dra.Claims(s.ResourceClaims, s.ResourceClaimTemplates), classes: dra.Classes(s.DeviceClasses), texts: map[*resourcev1.ResourceClaim]string{},
		users: map[*resourcev1.ResourceClaim]int{}, usage: dra.Allocated(s.ResourceClaims, nil), byText: map[string]*kind{}, types: map[*engine.InstanceType][]device.Pool{},
		byName: map[string]*engine.InstanceType{}, nodes: map[string][]device.Pool{}, listed: slices.SortedFunc(slices.Values(s.Nodes), byNodeName),
		learned: map[[2]string][]device.Pool{}, roomOfType: map[typeIn]map[corev1.ResourceName]int64{}, roomOfNode: map[string]map[corev1.ResourceName]int64{},
	}
	for _, pod := range pods {
		p.meet(pod)
	}
	for _, text := range slices.Sorted(maps.Keys(p.byText)) {
		k := p.byText[text]
		k.number = len(p.kinds)
		p.kinds = append(p.kinds, k)
	}
	p.refuseExpressions()
	for _, k := range p.kinds {
		if k.problem.OK() {
			p.readKind(k)
		}
	}
	p.readDevices(s)
	p.facts = p.model.Facts(asking(s.Selectors))
	p.sortKinds()
	return p
}

func byNodeName(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) }

// claimsOf returns the pod's claims, with the claim that kube-scheduler makes for extended resources that are backed by devices.
func (p *Plan) claimsOf(pod *corev1.Pod) (dra.PodClaims, *device.Reason) {
	has, reason := dra.ClaimsOf(pod, p.claims)
	if reason != nil || !p.cache.Devices.Any() {
		return has, reason
	}
	made, known := p.made[pod]
	if !known {
		info := p.cache.InfoOf(pod)
		made = dra.ExtendedClaim(p.cache.SuccessorOf(info), p.cache.NextRequests(info).Devices, p.cache.Devices.ClassOf)
		p.made[pod] = made
	}
	if made != nil {
		has.Open = append(has.Open, made)
	}
	return has, nil
}

// meet records the pod's claims.
func (p *Plan) meet(pod *corev1.Pod) {
	has, reason := p.claimsOf(pod)
	if reason != nil || len(has.Open) == 0 {
		return
	}
	text := p.textOf(has.Open)
	k := p.byText[text]
	if k == nil {
		k = &kind{text: text, open: has.Open}
		p.byText[text] = k
	}
	if pod.Spec.NodeName == "" {
		for _, c := range has.Open {
			if !dra.IsDraft(c) {
				p.users[c]++
			}
		}
	}
}

// textOf returns the same text for pods that claim the same devices, whatever the names of the claims.
func (p *Plan) textOf(open []*resourcev1.ResourceClaim) string {
	var b strings.Builder
	for _, c := range open {
		text, known := p.texts[c]
		if !known {
			written, err := json.Marshal([]any{c.Spec.Devices.Requests, c.Spec.Devices.Constraints})
			if err != nil { // then no other claim has the same text
				written = []byte(c.Namespace + "/" + c.Name)
			}
			text = string(written)
			p.texts[c] = text
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// readDevices reads the devices that nodes have, and the devices that types are expected to have.
func (p *Plan) readDevices(s *engine.Snapshot) {
	for i := range s.Classes {
		for j := range s.Classes[i].InstanceTypes {
			t := &s.Classes[i].InstanceTypes[j]
			if len(t.Claimable) == 0 {
				continue
			}
			for k := range t.Claimable {
				p.types[t] = append(p.types[t], p.model.Expect(&t.Claimable[k]))
			}
			if p.byName[t.Name] == nil {
				p.byName[t.Name] = t
			}
		}
	}
	published := p.cache.PublishedIn(s)
	for _, node := range p.listed {
		if pools := published.Pools(p.model, node.Name, node.Labels); len(pools) > 0 {
			p.nodes[node.Name] = pools
		}
	}
	p.several = published.Several(p.model)
	learned, shownBy := learnedOf(s, published)
	p.shownBy = shownBy
	for _, pool := range slices.Sorted(maps.Keys(learned)) {
		kinds := learned[pool]
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			at := [2]string{pool, kind}
			for i := range kinds[kind] {
				p.learned[at] = append(p.learned[at], p.model.Expect(&kinds[kind][i]))
			}
		}
	}
}

// expected returns the pools that drivers will publish on a machine of the type that the NodePool starts.
func (p *Plan) expected(pool string, t *engine.InstanceType) []device.Pool {
	if t == nil {
		return nil
	}
	at := [2]string{pool, t.Name}
	said, learned := p.types[p.typeOf(t)], p.learned[at]
	isLearned := func(driver string) bool { // the nodes' pools replace the catalog's
		inCatalog, onNodes := devicesOf(said, driver), devicesOf(learned, driver)
		return onNodes >= 0 && (inCatalog < 0 || p.shownBy[[3]string{pool, t.Name, driver}] > 1 && onNodes != inCatalog)
	}
	if !slices.ContainsFunc(learned, func(more device.Pool) bool { return isLearned(more.Driver) }) {
		return said
	}
	out := slices.DeleteFunc(slices.Clone(learned), func(more device.Pool) bool { return !isLearned(more.Driver) })
	for _, more := range said {
		if !isLearned(more.Driver) {
			out = append(out, more)
		}
	}
	slices.SortStableFunc(out, func(a, b device.Pool) int { return cmp.Compare(a.Driver, b.Driver) })
	return out
}

// devicesOf counts the devices of a driver's pools, -1 if there are no such pools.
func devicesOf(pools []device.Pool, driver string) int {
	n := -1
	for i := range pools {
		if pools[i].Driver == driver {
			n = max(n, 0) + len(pools[i].Devices)
		}
	}
	return n
}

// asking removes from shapes the attributes that no expression names. So devices that differ only in other attributes are evaluated once.
func asking(ask func([]string, *device.Shape) []device.Answer) func([]string, *device.Shape) []device.Answer {
	return func(expressions []string, shape *device.Shape) []device.Answer {
		all := strings.Join(expressions, "\n")
		for _, whole := range []string{"all(", "exists", "map(", "filter(", "size("} { // these functions may read all attributes
			if strings.Contains(all, whole) {
				return ask(expressions, shape)
			}
		}
		asked := *shape
		asked.Attributes = map[string]device.Value{}
		for name, v := range shape.Attributes {
			if _, last, found := strings.Cut(name, "/"); v.Kind == device.Unknown || strings.Contains(all, name) || found && strings.Contains(all, last) {
				asked.Attributes[name] = v
			}
		}
		return ask(expressions, &asked)
	}
}

// typeOf returns the same type in the snapshot.
func (p *Plan) typeOf(t *engine.InstanceType) *engine.InstanceType {
	if _, known := p.types[t]; known || t == nil || len(t.Claimable) == 0 {
		return t
	}
	return p.byName[t.Name] // a type of the same name, read at another time
}
