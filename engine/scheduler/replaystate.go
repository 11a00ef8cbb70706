package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// replayState is a replay turned into numbers. What pods ask for is read once for all that ask alike; what changes when
// a pod is bound is kept in counters.
type replayState struct {
	replay     *Replay
	cache      *inventory.Cache
	names      *kube.ResourceNames
	namesText  string // the names in their order
	number     uint64 // of all worlds that the cache has known
	nodes      []*nodeInfo
	room       freeByNode
	loads      []nodeLoad    // by node
	scores     []seriesScore // by node
	extras     []extraLoad   // by node; none if there are no extraNames
	scorings   []*scoring    // that without a profile, then by profile
	extraNames []corev1.ResourceName
	kindOf     []int32        // by node: those of one kind look alike to every pod
	byName     map[string]int // by the name that placements use
	byNodeName map[string]int
	volumes    volume.Reader
	inUse      map[volume.ClaimID]int // pods that use a claim which one pod at a time may use
	taken      map[string]bool        // volumes that were free
	users      map[volume.ClaimID]int // pods that have to land and that use a claim without a volume
	// bound holds, of claims without a volume that several pods use, where that is which the first of them got.
	bound map[volume.ClaimID][][]requirement.Expression
	// claims are those for devices, nil where no pod that has to land has any; machines allocate them, by node.
	claims   *deviceplan.Plan
	machines map[int]*deviceplan.Machine
	// homes are the nodes of claims for devices that several pods use and of which one has landed.
	homes   map[string]int
	reader  *ruleReader
	filters map[string]*nodeFilter
	// mentioned are the labels of pods that selectors look at, in order.
	mentioned   []string
	labelKinds  map[string]*labelKind
	constraints map[constraintsKey]*podConstraints
	counted     map[countedKey][]*matchCount
	ofKind      map[*inventory.LabelClass]*labelCounts
	measured    map[*inventory.RequestClass]*measured
	counts      map[string]*matchCount
	topologies  map[string]*topologyDomains

	// nodePods are the pods that run on the nodes, nil where each is read for itself: these are running, on the nodes of the
	// same index in at.
	nodePods []*nodePods
	running  []*podInfo
	at       []int
	queue    []*podInfo
	// strangers are those pods that have to land and that the cache does not know.
	strangers map[engine.PodID]bool

	// series numbers runs of pods in the queue that ask for the same, seriesAsks is what those of the last one ask for.
	series     int
	seriesAsks seriesAsks

	// Room for one pod's search.
	feasible    []int
	totals, raw []int64
	amountsRoom []scoredAmount
	seen        []bool
	landedOn    []int // the nodes of placements
	text        []byte
	placements  []engine.Placement
}

// countedKey tells apart pods that change different counts when they are bound.
type countedKey struct {
	labels *labelKind
	rules  *podRules
	ending bool
}

func newReplayState(r *Replay) *replayState {
	s := &replayState{
		replay: r, cache: r.Cache, byName: make(map[string]int, len(r.Snapshot.Nodes)), byNodeName: make(map[string]int, len(r.Snapshot.Nodes)), volumes: volume.NewReader(r.Snapshot, kube.AsWritten),
		taken: map[string]bool{}, users: map[volume.ClaimID]int{}, bound: map[volume.ClaimID][][]requirement.Expression{}, filters: map[string]*nodeFilter{}, labelKinds: map[string]*labelKind{}, constraints: map[constraintsKey]*podConstraints{},
		counted: map[countedKey][]*matchCount{}, counts: map[string]*matchCount{}, topologies: map[string]*topologyDomains{}, strangers: map[engine.PodID]bool{},
		ofKind: map[*inventory.LabelClass]*labelCounts{}, measured: map[*inventory.RequestClass]*measured{},
	}
	if s.cache == nil {
		s.cache = &inventory.Cache{}
		s.cache.Take(r.Snapshot, r.Options.Threads)
	}
	if slices.ContainsFunc(r.Pods, func(p *corev1.Pod) bool { return s.cache.ClaimsDevices(s.cache.InfoOf(p)) }) {
		s.claims, s.machines, s.homes = deviceplan.Of(r.Snapshot, s.cache), map[int]*deviceplan.Machine{}, map[string]int{}
	}
	s.cache.Worlds++
	s.number = s.cache.Worlds
	s.readProfiles()
	s.reader = newRuleReader(s)
	s.readNodes()
	for i, n := range s.nodes {
		s.byNodeName[n.node.Name] = i
	}
	s.readPods()
	var daemons []*podInfo
	if r.On == nil {
		daemons = s.readDaemons()
	}
	s.sortNodes(daemons)
	s.mentioned = kube.SortedKeys(s.reader.mentioned)
	for _, list := range [][]*podInfo{s.queue, daemons} {
		for _, p := range list {
			p.labels = s.labelKind(p.pod.Namespace, p.pod.Labels)
			p.constraints = s.constraintsOf(p)
		}
	}
	for i, r := range s.nodePods {
		if r != nil {
			s.bindNodePods(r, i)
		}
	}
	for i, p := range s.running {
		s.bind(p, s.at[i])
	}
	s.attachRunning()
	for _, d := range daemons {
		s.spreadDaemon(d)
	}
	return s
}

// readPods sorts the snapshot's pods into those that run and those that have to land.
func (state *replayState) readPods() {
	r := state.replay
	asked, left := map[corev1.ResourceName]bool{}, map[string]bool{}
	for _, pod := range r.Pods {
		if f := state.cache.Pods[pod]; f != nil && f.Listed {
			f.Replay = state.number
		} else {
			state.strangers[kube.PodID(pod)] = true
		}
		left[pod.Spec.NodeName] = true
		for name := range state.cache.RequestsOf(pod).List {
			asked[name] = true
		}
	}
	state.names = kube.NewResourceNames(asked)
	state.namesText = state.names.Text()
	state.room.start(state.names.Len(), len(state.nodes))
	state.nodePods = make([]*nodePods, len(state.nodes))
	state.loads, state.scores, state.kindOf = make([]nodeLoad, len(state.nodes)), make([]seriesScore, len(state.nodes)), make([]int32, len(state.nodes))
	for i, n := range state.nodes {
		state.loads[i].allocatable = kube.UsageOf(n.node.Status.Allocatable)
		if len(state.extraNames) > 0 {
			state.extras = append(state.extras, extraLoad{state.extrasOf(n.node.Status.Allocatable), make([]int64, len(state.extraNames))})
		}
		state.loads[i].add(kube.Usage{}, kube.Usage{})
		state.room.put(i, n.info.Vector(state.names, state.namesText, n.node))
		state.readNode(i, left[n.node.Name])
	}
	for _, pod := range r.Pods {
		state.queue = append(state.queue, state.waitingPod(pod))
	}
	slices.SortFunc(state.queue, queued)
	state.countUsers()
}

// readNode reads the pods that run on node i and stay there; some is true if others leave it.
func (state *replayState) readNode(i int, some bool) {
	if state.byNodeName[state.nodes[i].node.Name] != i {
		return // another node of that name has them
	}
	pods := state.cache.PodsOn(state.nodes[i].node.Name)
	all := NodePodsOf(state.cache, pods)
	single := all.apart
	if some {
		single = pods.Infos
	} else {
		state.nodePods[i] = all
		state.nodes[i].daemons = all.daemons
	}
	for _, info := range single {
		if state.lands(info) {
			continue
		}
		state.running, state.at = append(state.running, state.runningPod(info.Pod, info)), append(state.at, i)
		if some && info.DaemonKey != "" {
			state.nodes[i].daemons = append(state.nodes[i].daemons, info.DaemonKey)
		}
	}
}

// lands reports whether the pod of that info is one of those that have to land.
func (state *replayState) lands(info *inventory.PodInfo) bool {
	return info.Replay == state.number || len(state.strangers) > 0 && state.strangers[kube.PodID(info.Pod)]
}

// runningPod is a pod that runs; info is nil for one that the cache does not know.
func (state *replayState) runningPod(pod *corev1.Pod, info *inventory.PodInfo) *podInfo {
	p := &podInfo{pod: pod, rules: state.reader.running(pod, info)}
	state.measure(p, info)
	p.volumes, p.disks = state.volumes.Attached(pod), volume.DisksOf(pod)
	return p
}

func (state *replayState) waitingPod(pod *corev1.Pod) *podInfo {
	info := state.cache.Pods[pod]
	p := &podInfo{pod: pod, rules: state.reader.waiting(pod, info), nomination: -1, size: kube.SizeOf(state.cache.RequestsKnown(pod, info).List)}
	state.measure(p, info)
	p.scoring, p.extras, p.fit = state.scoringOf(pod), state.extrasOf(p.request.List), fitUsage(pod, p.scored)
	p.volumes, p.disks = state.volumes.Attached(pod), volume.DisksOf(pod)
	places, ok := state.readClaims(p)
	places, ok = state.readDevices(p, places, ok)
	p.once, p.lost = state.volumes.Once(pod), !ok || p.rules.invalid
	p.filter = state.nodeFilterOf(&pod.Spec, places)
	if name, hinted := state.replay.Nominations[kube.PodID(pod)]; hinted {
		if i, known := state.byName[name]; known {
			p.nomination = i
		}
	}
	return p
}

// nodeFilterOf interns what a pod asks of a node itself.
func (state *replayState) nodeFilterOf(spec *corev1.PodSpec, places [][][]requirement.Expression) *nodeFilter {
	affinity, tolerations := string(state.reader.key.RequiredNodes(spec)), string(state.reader.key.Tolerations(spec))
	key := affinity + tolerations + string(state.reader.key.PreferredNodes(spec))
	for _, alternatives := range places {
		for _, term := range alternatives {
			key = string(kube.AppendExpressions([]byte(key+"|"), term))
		}
		key += "\n"
	}
	if g, ok := state.filters[key]; ok {
		return g
	}
	g := &nodeFilter{
		terms: kube.NodeTermsOf(spec, kube.AsWritten), preferred: kube.PreferredTermsOf(spec, kube.AsWritten), tolerations: spec.Tolerations, volumes: places,
		affinityText: affinity, tolerationText: tolerations,
	}
	state.filters[key] = g
	return g
}

// sortNodes tells the kinds of nodes apart that some pod can tell apart.
func (state *replayState) sortNodes(daemons []*podInfo) {
	mentioned := map[string]bool{}
	for _, g := range state.filters {
		g.mention(mentioned)
	}
	keys := kube.SortedKeys(mentioned)
	kinds := map[string]int{}
	var samples []int // one node of each kind
	for i, n := range state.nodes {
		look := n.look(keys)
		if _, ok := kinds[look]; !ok {
			kinds[look] = len(kinds)
			samples = append(samples, i)
		}
		state.kindOf[i] = int32(kinds[look])
	}
	for _, g := range state.filters {
		g.verdicts = make([]filterResult, len(kinds))
		g.plain = state.isPlain(g, samples)
	}
}

// readDaemons makes of every DaemonSet the pod that it will have on nodes that have none of it yet, the most important first.
func (state *replayState) readDaemons() []*podInfo {
	var out []*podInfo
	for _, d := range state.cache.DaemonPods(state.replay.Snapshot) {
		p := &podInfo{pod: d.Pod, rules: state.reader.read(d.Pod, d.Pod.Spec.TopologySpreadConstraints, true)}
		state.measure(p, nil)
		p.scoring, p.extras = state.scoringOf(d.Pod), state.extrasOf(p.request.List)
		p.volumes = state.volumes.Attached(d.Pod)
		p.filter = state.nodeFilterOf(&d.Pod.Spec, nil)
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b *podInfo) int {
		return cmp.Compare(inventory.DaemonPriority(b.pod), inventory.DaemonPriority(a.pod))
	})
	return out
}

// spreadDaemon puts a DaemonSet's pod on every node that it is for, that has none of it and where kube-scheduler lets it run.
func (state *replayState) spreadDaemon(p *podInfo) {
	key := p.pod.Namespace + "/" + p.pod.Name
	for i, n := range state.nodes {
		if !slices.Contains(n.daemons, key) && state.passes(p, i) {
			state.bind(p, i)
		}
	}
}
