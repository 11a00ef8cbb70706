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
	w := &replayState{
		replay: r, cache: r.Cache, byName: make(map[string]int, len(r.Snapshot.Nodes)), byNodeName: make(map[string]int, len(r.Snapshot.Nodes)), volumes: volume.NewReader(r.Snapshot, kube.AsWritten),
		taken: map[string]bool{}, users: map[volume.ClaimID]int{}, bound: map[volume.ClaimID][][]requirement.Expression{}, filters: map[string]*nodeFilter{}, labelKinds: map[string]*labelKind{}, constraints: map[constraintsKey]*podConstraints{},
		counted: map[countedKey][]*matchCount{}, counts: map[string]*matchCount{}, topologies: map[string]*topologyDomains{}, strangers: map[engine.PodID]bool{},
		ofKind: map[*inventory.LabelClass]*labelCounts{}, measured: map[*inventory.RequestClass]*measured{},
	}
	if w.cache == nil {
		w.cache = &inventory.Cache{}
		w.cache.Take(r.Snapshot, r.Options.Threads)
	}
	if slices.ContainsFunc(r.Pods, func(p *corev1.Pod) bool { return w.cache.ClaimsDevices(w.cache.InfoOf(p)) }) {
		w.claims, w.machines, w.homes = deviceplan.Of(r.Snapshot, w.cache), map[int]*deviceplan.Machine{}, map[string]int{}
	}
	w.cache.Worlds++
	w.number = w.cache.Worlds
	w.readProfiles()
	w.reader = newRuleReader(w)
	w.readNodes()
	for i, n := range w.nodes {
		w.byNodeName[n.node.Name] = i
	}
	w.readPods()
	var daemons []*podInfo
	if r.On == nil {
		daemons = w.readDaemons()
	}
	w.sortNodes(daemons)
	w.mentioned = kube.SortedKeys(w.reader.mentioned)
	for _, list := range [][]*podInfo{w.queue, daemons} {
		for _, p := range list {
			p.labels = w.labelKind(p.pod.Namespace, p.pod.Labels)
			p.constraints = w.constraintsOf(p)
		}
	}
	for i, r := range w.nodePods {
		if r != nil {
			w.bindNodePods(r, i)
		}
	}
	for i, p := range w.running {
		w.bind(p, w.at[i])
	}
	w.attachRunning()
	for _, d := range daemons {
		w.spreadDaemon(d)
	}
	return w
}

// readPods sorts the snapshot's pods into those that run and those that have to land.
func (w *replayState) readPods() {
	r := w.replay
	asked, left := map[corev1.ResourceName]bool{}, map[string]bool{}
	for _, pod := range r.Pods {
		if f := w.cache.Pods[pod]; f != nil && f.Listed {
			f.Replay = w.number
		} else {
			w.strangers[kube.PodID(pod)] = true
		}
		left[pod.Spec.NodeName] = true
		for name := range w.cache.RequestsOf(pod).List {
			asked[name] = true
		}
	}
	w.names = kube.NewResourceNames(asked)
	w.namesText = w.names.Text()
	w.room.start(w.names.Len(), len(w.nodes))
	w.nodePods = make([]*nodePods, len(w.nodes))
	w.loads, w.scores, w.kindOf = make([]nodeLoad, len(w.nodes)), make([]seriesScore, len(w.nodes)), make([]int32, len(w.nodes))
	for i, n := range w.nodes {
		w.loads[i].allocatable = kube.UsageOf(n.node.Status.Allocatable)
		if len(w.extraNames) > 0 {
			w.extras = append(w.extras, extraLoad{w.extrasOf(n.node.Status.Allocatable), make([]int64, len(w.extraNames))})
		}
		w.loads[i].add(kube.Usage{}, kube.Usage{})
		w.room.put(i, n.info.Vector(w.names, w.namesText, n.node))
		w.readNode(i, left[n.node.Name])
	}
	for _, pod := range r.Pods {
		w.queue = append(w.queue, w.waitingPod(pod))
	}
	slices.SortFunc(w.queue, queued)
	w.countUsers()
}

// readNode reads the pods that run on node i and stay there; some is true if others leave it.
func (w *replayState) readNode(i int, some bool) {
	if w.byNodeName[w.nodes[i].node.Name] != i {
		return // another node of that name has them
	}
	pods := w.cache.PodsOn(w.nodes[i].node.Name)
	all := NodePodsOf(w.cache, pods)
	single := all.apart
	if some {
		single = pods.Infos
	} else {
		w.nodePods[i] = all
		w.nodes[i].daemons = all.daemons
	}
	for _, info := range single {
		if w.lands(info) {
			continue
		}
		w.running, w.at = append(w.running, w.runningPod(info.Pod, info)), append(w.at, i)
		if some && info.DaemonKey != "" {
			w.nodes[i].daemons = append(w.nodes[i].daemons, info.DaemonKey)
		}
	}
}

// lands reports whether the pod of that info is one of those that have to land.
func (w *replayState) lands(info *inventory.PodInfo) bool {
	return info.Replay == w.number || len(w.strangers) > 0 && w.strangers[kube.PodID(info.Pod)]
}

// runningPod is a pod that runs; info is nil for one that the cache does not know.
func (w *replayState) runningPod(pod *corev1.Pod, info *inventory.PodInfo) *podInfo {
	p := &podInfo{pod: pod, rules: w.reader.running(pod, info)}
	w.measure(p, info)
	p.volumes, p.disks = w.volumes.Attached(pod), volume.DisksOf(pod)
	return p
}

func (w *replayState) waitingPod(pod *corev1.Pod) *podInfo {
	info := w.cache.Pods[pod]
	p := &podInfo{pod: pod, rules: w.reader.waiting(pod, info), nomination: -1, size: kube.SizeOf(w.cache.RequestsKnown(pod, info).List)}
	w.measure(p, info)
	p.scoring, p.extras, p.fit = w.scoringOf(pod), w.extrasOf(p.request.List), fitUsage(pod, p.scored)
	p.volumes, p.disks = w.volumes.Attached(pod), volume.DisksOf(pod)
	places, ok := w.readClaims(p)
	places, ok = w.readDevices(p, places, ok)
	p.once, p.lost = w.volumes.Once(pod), !ok || p.rules.invalid
	p.filter = w.nodeFilterOf(&pod.Spec, places)
	if name, hinted := w.replay.Nominations[kube.PodID(pod)]; hinted {
		if i, known := w.byName[name]; known {
			p.nomination = i
		}
	}
	return p
}

// nodeFilterOf interns what a pod asks of a node itself.
func (w *replayState) nodeFilterOf(spec *corev1.PodSpec, places [][][]requirement.Expression) *nodeFilter {
	affinity, tolerations := string(w.reader.key.RequiredNodes(spec)), string(w.reader.key.Tolerations(spec))
	key := affinity + tolerations + string(w.reader.key.PreferredNodes(spec))
	for _, alternatives := range places {
		for _, term := range alternatives {
			key = string(kube.AppendExpressions([]byte(key+"|"), term))
		}
		key += "\n"
	}
	if g, ok := w.filters[key]; ok {
		return g
	}
	g := &nodeFilter{
		terms: kube.NodeTermsOf(spec, kube.AsWritten), preferred: kube.PreferredTermsOf(spec, kube.AsWritten), tolerations: spec.Tolerations, volumes: places,
		affinityText: affinity, tolerationText: tolerations,
	}
	w.filters[key] = g
	return g
}

// sortNodes tells the kinds of nodes apart that some pod can tell apart.
func (w *replayState) sortNodes(daemons []*podInfo) {
	mentioned := map[string]bool{}
	for _, g := range w.filters {
		g.mention(mentioned)
	}
	keys := kube.SortedKeys(mentioned)
	kinds := map[string]int{}
	var samples []int // one node of each kind
	for i, n := range w.nodes {
		look := n.look(keys)
		if _, ok := kinds[look]; !ok {
			kinds[look] = len(kinds)
			samples = append(samples, i)
		}
		w.kindOf[i] = int32(kinds[look])
	}
	for _, g := range w.filters {
		g.verdicts = make([]filterResult, len(kinds))
		g.plain = w.isPlain(g, samples)
	}
}

// readDaemons makes of every DaemonSet the pod that it will have on nodes that have none of it yet, the most important first.
func (w *replayState) readDaemons() []*podInfo {
	var out []*podInfo
	for _, d := range w.cache.DaemonPods(w.replay.Snapshot) {
		p := &podInfo{pod: d.Pod, rules: w.reader.read(d.Pod, d.Pod.Spec.TopologySpreadConstraints, true)}
		w.measure(p, nil)
		p.scoring, p.extras = w.scoringOf(d.Pod), w.extrasOf(p.request.List)
		p.volumes = w.volumes.Attached(d.Pod)
		p.filter = w.nodeFilterOf(&d.Pod.Spec, nil)
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b *podInfo) int {
		return cmp.Compare(inventory.DaemonPriority(b.pod), inventory.DaemonPriority(a.pod))
	})
	return out
}

// spreadDaemon puts a DaemonSet's pod on every node that it is for, that has none of it and where kube-scheduler lets it run.
func (w *replayState) spreadDaemon(p *podInfo) {
	key := p.pod.Namespace + "/" + p.pod.Name
	for i, n := range w.nodes {
		if !slices.Contains(n.daemons, key) && w.passes(p, i) {
			w.bind(p, i)
		}
	}
}
