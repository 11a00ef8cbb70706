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

// replayState is a replay in numbers. Equal rules and requests of pods are read once; counters hold the state that a binding changes.
type replayState struct {
	replay     *Replay
	cache      *inventory.Cache
	names      *kube.ResourceNames
	namesText  string // the names in their order
	number     uint64 // the index of this replay among all of the cache
	nodes      []*nodeInfo
	room       freeByNode
	loads      []nodeLoad    // one entry for each node
	scores     []seriesScore // one entry for each node
	extras     []extraLoad   // one entry for each node; empty if there are no extraNames
	scorings   []*scoring    // the default one, then one by profile
	extraNames []corev1.ResourceName
	kindOf     []int32        // the kind of each node: no pod distinguishes nodes of one kind
	byName     map[string]int // the index of each node, by its name in placements
	byNodeName map[string]int
	volumes    volume.Reader
	inUse      map[volume.ClaimID]int // pods by claim that only one pod at a time may use
	taken      map[string]bool        // free volumes that a pod has taken
	users      map[volume.ClaimID]int // pods that have to land, by their claim without a volume
	// bound holds, for claims without a volume that several pods share, the places of the volume that the first pod got.
	bound map[volume.ClaimID][][]requirement.Expression
	// claims holds the ResourceClaims, nil if no pod that has to land has any; machines are the device allocators by node.
	claims   *deviceplan.Plan
	machines map[int]*deviceplan.Machine
	// homes holds, by shared ResourceClaim, the node of its first landed pod.
	homes   map[string]int
	reader  *ruleReader
	filters map[string]*nodeFilter
	// mentioned are the pod labels that selectors read, sorted.
	mentioned   []string
	labelKinds  map[string]*labelKind
	constraints map[constraintsKey]*podConstraints
	counted     map[countedKey][]*matchCount
	ofKind      map[*inventory.LabelClass]*labelCounts
	measured    map[*inventory.RequestClass]*measured
	counts      map[string]*matchCount
	topologies  map[string]*topologyDomains

	// nodePods are the summed pods of the nodes, nil for a node whose pods are read one by one: these pods are in running, and their nodes at
	// the same index in at.
	nodePods []*nodePods
	running  []*podInfo
	at       []int
	queue    []*podInfo
	// strangers are pods that have to land and that the cache does not know.
	strangers map[engine.PodID]bool

	// series is the index of the last run of equal pods in the queue; seriesAsks describes this run.
	series     int
	seriesAsks seriesAsks

	// Scratch space for one pod's search.
	feasible    []int
	totals, raw []int64
	amountsRoom []scoredAmount
	seen        []bool
	landedOn    []int // the nodes of placements
	text        []byte
	placements  []engine.Placement
}

// countedKey identifies pods that change the same counts when they are bound.
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

// readPods divides the pods into pods that run on a node and pods that the replay has to schedule.
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

// readNode reads the pods that stay on node i; some is true if other pods leave it.
func (state *replayState) readNode(i int, some bool) {
	if state.byNodeName[state.nodes[i].node.Name] != i {
		return // another node of the same name has its pods
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

// lands reports whether the pod of the info has to land.
func (state *replayState) lands(info *inventory.PodInfo) bool {
	return info.Replay == state.number || len(state.strangers) > 0 && state.strangers[kube.PodID(info.Pod)]
}

// runningPod reads a running pod; info is nil if the cache does not know the pod.
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

// nodeFilterOf returns the pod's node filter, one object for equal pods.
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

// sortNodes divides the nodes into kinds that no pod distinguishes.
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

// readDaemons returns the pod of each DaemonSet for nodes without one, the most important first.
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

// spreadDaemon binds the DaemonSet's pod to each node that has none of it and that kube-scheduler's filters pass.
func (state *replayState) spreadDaemon(p *podInfo) {
	key := p.pod.Namespace + "/" + p.pod.Name
	for i, n := range state.nodes {
		if !slices.Contains(n.daemons, key) && state.passes(p, i) {
			state.bind(p, i)
		}
	}
}
