package inventory

import (
	"reflect"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// Cache keeps results of one call for the next. It changes how long a call takes, never its result. Its owner calls the engine with it from
// one goroutine at a time.
//
// It remembers objects by their address, because a snapshot never changes them: an object that has changed is another object. Objects that
// the last calls have not seen are forgotten.
type Cache struct {
	podReader
	Pods  map[*corev1.Pod]*PodInfo
	list  []*corev1.Pod // the pods of the last call
	last  []*PodInfo    // the infos of these pods, in the same order
	marks []mark        // the marks of these pods, in the same order
	nodes map[*corev1.Node]*NodeInfo
	// catalogs are the catalogs of the last call's classes, machines its machines.
	catalogs     *catalogs
	machines     *machineList
	machineLists uint64 // index of the last list of machines
	daemons      knownDaemons
	// ofDaemons are the infos of the last call's pods of DaemonSets.
	ofDaemons []*PodInfo
	Pass      uint64
	kept      map[reflect.Type]any // the data of KeptBy
	// otherNodes and otherOwners have lost or got pods since the last call.
	otherNodes  []*NodePods
	otherOwners []*OwnerInfo
	next        uint64 // the id of the next pod
	Worlds      uint64 // index of the last replay
	InterPods   uint64 // ID of the last InterPod
	// Devices are the resources that represent devices in the snapshot of the last call.
	Devices *kube.DeviceResources
}

// KeptBy returns the decider's own data that the cache keeps from call to call: its T, empty at first.
func KeptBy[T any](c *Cache) *T {
	kind := reflect.TypeFor[T]()
	if c.kept == nil {
		c.kept = map[reflect.Type]any{}
	}
	if c.kept[kind] == nil {
		c.kept[kind] = new(T)
	}
	return c.kept[kind].(*T)
}

// PodInfo holds the facts about a pod that the engine needs often.
type PodInfo struct {
	// Fields that every call reads of every pod come first: they fit one line of the processor's cache.
	Pod   *corev1.Pod
	id    uint64     // a random number, because sums of ids identify sets of pods
	hash  uint64     // a hash of the pod's identity and state
	left  uint64     // the last call that missed the pod at its earlier place in the list
	node  *NodePods  // the pods of its node; nil if it has none
	Owner *OwnerInfo // nil for pods without an owner
	// workload is nil for pods whose owners do not roll out revisions of them.
	workload *workloadInfo
	// counts is true for pods that take room on their node, Ending for terminating ones.
	counts, Ending bool
	Mounts         bool // has volumes that matter to where it runs
	brief          bool // the result of IsBrief
	startedKnown   bool
	sound          bool // its requests are valid
	particular     bool // may keep others off its node: by anti-affinity, host ports or volumes
	Listed         bool // the last call's snapshot has it
	Drainable      bool // a drain evicts it, unless it is stuck or protected
	Guarded        bool // has an annotation that may protect it
	Apart          bool // has affinities, ports or volumes: every replay reads it for itself
	ScoredRead     bool
	Labels         *LabelClass

	requests *RequestClass
	// nextRequests are the requests of its successor; nil until they are needed.
	nextRequests *RequestClass
	constraints  *ConstraintClass // nil until they are needed
	// event is the time when the pod was last bound or last left. It is zero for DaemonSets' pods.
	event            time.Time
	created, boundAt time.Time
	weight           float64 // the weight of the pod when it is moved, 1 for most
	revision         string
	DaemonKey        string // the key of its DaemonSet (see daemonKey)
	// started is how long the pod took to become ready; valid if startedKnown is true.
	started time.Duration
	Scored  kube.Usage // its usage for scores, once ScoredRead
	Replay  uint64     // index of the last replay in which it had to land
}

// Active reports whether the pod has not ended and is not terminating.
func (info *PodInfo) Active() bool { return info.counts && !info.Ending }

// RequestClass holds the requests of pods; pods with equal requests share it.
type RequestClass struct {
	Text string
	List corev1.ResourceList
	// Devices holds the requests for resources that represent devices. List leaves them out if claims are acted on.
	Devices corev1.ResourceList
	Size    string     // List as text that sorts by size; empty until it is needed
	usage   kube.Usage // the usage of the list, once used
	used    bool
}

// ConstraintClass represents the constraints of pods, except resources and volumes. Pods with equal constraints share one class, as long as the
// cache keeps it.
type ConstraintClass struct{ Text string }

// LabelClass is a set of pods with the same namespace and labels: the same selectors select them.
type LabelClass struct {
	Sample   *corev1.Pod
	pass     uint64
	interPod uint64 // ID of the InterPod for which matched was worked out
	matched  []int
	Text     string // matched as text
}

// NodePods holds the pods of one node.
type NodePods struct {
	Infos []*PodInfo // oldest pod first
	Hash  uint64     // a hash of the pods' identities and states; the same in every process
	Bound []*corev1.Pod
	Kinds []kindCount
	// Particular are the infos of pods that keep others off the node.
	Particular []*PodInfo
	podSet
	seen         uint64        // the last call that forgot pods and saw one of the node, ended ones too
	Movable      []*corev1.Pod // reschedulable pods, once movableRead; Movers are their infos
	Movers       []*PodInfo
	movableRead  bool
	classes      []EquivalenceClass // of the movers, once classesRead
	classesRead  bool
	Annotated    bool // some pod has annotations
	activity     Activity
	activityNow  time.Time // the time of activity, once activityRead
	activityRead bool
	Used         capacity.Vector // the amounts used by all pods, in the order of resources that UsedFor names
	UsedFor      string
	Replay       any      // data of engine/scheduler about the pods; nil until it is computed
	daemons      []string // DaemonSets that have a pod here, once daemonsRead
	daemonsRead  bool
}

type kindCount struct {
	Kind      *LabelClass
	N, Ending int
}

// PodIndex holds the pods of a snapshot, sorted by how the engine treats them.
type PodIndex struct {
	Cache *Cache
	// Pass is the index of the call that made the PodIndex.
	Pass    uint64
	all     []*PodInfo // in the order of the snapshot
	Unbound []*corev1.Pod
	Mounts  []*corev1.Pod
	ended   []*PodInfo // the ended pods that had a node
	// ofDaemons are the infos of DaemonSets' pods.
	ofDaemons []*PodInfo
	// endings are the times when the ended pods ended, by node, until now.
	endings map[*NodePods]Activity
	now     time.Time
	// machines are the machines with which every compilation of the snapshot begins; nil before the first.
	machines []*Machine
	// Patient is true if plans also use machines that are late.
	Patient bool
	held    map[*corev1.Pod]bool
}

// Hold marks these pods, which run on no node, as pods that need no place.
func (c *PodIndex) Hold(pods []*corev1.Pod) {
	if c.held == nil {
		c.held = map[*corev1.Pod]bool{}
	}
	for _, pod := range pods {
		c.held[pod] = true
	}
}

// HeldCount returns the number of pods marked by Hold.
func (c *PodIndex) HeldCount() int { return len(c.held) }

// Held reports whether Hold has marked the pod.
func (c *PodIndex) Held(pod *corev1.Pod) bool { return c.held[pod] }

// Take reads the pods of the snapshot. A nil cache is treated as an empty one.
func (cache *Cache) Take(s *engine.Snapshot, threads int) *PodIndex {
	if cache == nil {
		cache = &Cache{}
	}
	claimed := cache.learnDevices(s)
	if cache.Pods == nil {
		cache.Pods, cache.podReader = make(map[*corev1.Pod]*PodInfo, len(s.Pods)), newPodReader()
		cache.nodes = map[*corev1.Node]*NodeInfo{}
	}
	cache.claimed = claimed
	cache.Pass++
	cache.learnTemplates(s)
	cache.follow(s.Pods, threads)
	cache.refresh(threads)
	c := &PodIndex{Cache: cache, Pass: cache.Pass, all: cache.last}
	for i, mark := range cache.marks {
		if mark == 0 {
			continue
		}
		if mark&isUnbound != 0 {
			c.Unbound = append(c.Unbound, cache.list[i])
		}
		if mark&hasEnded != 0 {
			c.ended = append(c.ended, cache.last[i])
		}
		if mark&mountsVolumes != 0 {
			c.Mounts = append(c.Mounts, cache.list[i])
		}
		if mark&ofDaemonSet != 0 {
			c.ofDaemons = append(c.ofDaemons, cache.last[i])
		}
	}
	cache.ofDaemons = c.ofDaemons
	cache.forget(len(s.Pods))
	cache.forgetNodes(len(s.Nodes))
	return c
}

// learnDevices finds the resources that represent claimed devices; pods do not request these from a node. If the names of these resources have
// changed, the cached facts about pods may be wrong, so the cache begins anew.
func (cache *Cache) learnDevices(s *engine.Snapshot) (claimed *kube.DeviceResources) {
	cache.Devices = kube.NewDeviceResources(s)
	if s.Selectors != nil {
		claimed = cache.Devices
	}
	if cache.Pods != nil && !claimed.SameNames(cache.claimed) {
		*cache = Cache{Pass: cache.Pass, Worlds: cache.Worlds, InterPods: cache.InterPods, next: cache.next, machineLists: cache.machineLists, Devices: cache.Devices}
	}
	return claimed
}

// ClaimsDevices reports whether the pod claims devices: by name, or by requests for resources that represent devices.
func (cache *Cache) ClaimsDevices(info *PodInfo) bool {
	return len(info.Pod.Spec.ResourceClaims) > 0 || cache.claimed.Any() && len(cache.NextRequests(info).Devices) > 0
}

// InfoOf returns the pod's info. For a pod that no snapshot has, the info is new each time.
func (cache *Cache) InfoOf(pod *corev1.Pod) *PodInfo {
	if info := cache.Pods[pod]; info != nil {
		return info
	}
	return &PodInfo{Pod: pod, Labels: cache.kindOf(pod), Mounts: volume.HasVolumes(&pod.Spec)}
}

// RequestsOf returns the pod's requests.
func (cache *Cache) RequestsOf(pod *corev1.Pod) *RequestClass {
	return cache.RequestsKnown(pod, cache.Pods[pod])
}

// RequestsKnown is RequestsOf for a caller that has the pod's info, which is nil if the cache does not contain the pod.
func (cache *Cache) RequestsKnown(pod *corev1.Pod, info *PodInfo) *RequestClass {
	if info != nil {
		return cache.RequestsFor(info)
	}
	return cache.readRequests(pod)
}

// RequestProblem returns the problem with the pod's requests, if there is one.
func (info *PodInfo) RequestProblem() engine.Reason {
	if info.sound {
		return engine.Reason{}
	}
	r := kube.RequestProblem(&info.Pod.Spec)
	info.sound = r.OK()
	return r
}

// forget drops pods that the last call has not seen, once there are many of them.
func (cache *Cache) forget(live int) {
	if len(cache.Pods) <= 2*live+1000 {
		return
	}
	needs, asks := map[string]*RequestClass{}, map[string]*ConstraintClass{}
	for pod, info := range cache.Pods {
		if !info.Listed {
			delete(cache.Pods, pod)
			continue
		}
		info.Labels.pass = cache.Pass
		if info.node != nil {
			info.node.seen = cache.Pass
		}
		if info.workload != nil {
			info.workload.seen = cache.Pass
		}
		for _, n := range []*RequestClass{info.requests, info.nextRequests} {
			if n != nil {
				needs[n.Text] = n
			}
		}
		if info.constraints != nil {
			asks[info.constraints.Text] = info.constraints
		}
	}
	cache.requestClasses, cache.constraintClasses = needs, asks
	for name, r := range cache.podsByNode {
		if r.seen != cache.Pass {
			delete(cache.podsByNode, name)
		}
	}
	for text, k := range cache.kinds {
		if k.pass != cache.Pass {
			delete(cache.kinds, text)
		}
	}
	for name, w := range cache.works {
		if w.seen != cache.Pass {
			delete(cache.works, name)
		}
	}
	for name, o := range cache.Owned {
		if o.Count == 0 {
			delete(cache.Owned, name)
		}
	}
}

// PodsOn returns the pods of a node.
func (c *PodIndex) PodsOn(node string) *NodePods { return c.Cache.PodsOn(node) }

func (cache *Cache) PodsOn(node string) *NodePods {
	if r := cache.podsByNode[node]; r != nil {
		return r
	}
	return &NodePods{}
}

// Match returns the selectors of the index that select pods with these labels; interPod is the ID of the InterPod of the index.
func (k *LabelClass) Match(interPod uint64, index *kube.SelectorIndex) []int {
	if k.interPod != interPod {
		k.interPod, k.matched = interPod, index.Match(k.Sample, k.matched[:0])
		var text []byte
		for _, m := range k.matched {
			text = append(strconv.AppendInt(text, int64(m), 10), ' ')
		}
		k.Text = string(text)
	}
	return k.matched
}

// UsageOf returns the usage of the requests that scores use.
func (n *RequestClass) UsageOf() kube.Usage {
	if !n.used {
		n.usage, n.used = kube.UsageOf(n.List), true
	}
	return n.usage
}
