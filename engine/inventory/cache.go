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

// UsageOf is what scores count of the request.
func (n *PodNeed) UsageOf() kube.Usage {
	if !n.used {
		n.usage, n.used = kube.UsageOf(n.List), true
	}
	return n.usage
}

// Memo keeps what one call has worked out for the next; it changes how long a call takes, never (but for DisruptAgain) what it
// answers. Its owner calls the engine with it from one goroutine at a time.
//
// It remembers objects by their address: a snapshot never changes them, so that one that has changed is another object.
// What the last calls have not seen is forgotten.
type Memo struct {
	// LookAgain is how old a look at everything may be that DisruptAgain goes on from, also in a cluster of few machines and
	// however many of them have changed; 0 means a minute where there are many machines and few have changed.
	LookAgain time.Duration

	podReader
	Pods  map[*corev1.Pod]*PodFacts
	list  []*corev1.Pod // of the last call
	last  []*PodFacts   // of these
	marks []mark        // of these
	// spareFacts and spareMarks are those of the call before, to be written over.
	spareFacts []*PodFacts
	spareMarks []mark
	nodes      map[*corev1.Node]*NodeFacts
	// offer is what the classes of the last call sell, fleet its machines.
	offer   *offer
	fleet   *fleet
	fleets  uint64 // number of the last fleet
	daemons knownDaemons
	// ofDaemons are the facts of the last call's pods of DaemonSets.
	ofDaemons []*PodFacts
	Pass      uint64
	kept      map[reflect.Type]any // see keptBy
	// otherRolls and otherOwners are those that have lost or got pods since the last call.
	otherRolls  []*Roll
	otherOwners []*OwnerFacts
	next        uint64 // number of the next pod
	Worlds      uint64 // number of the last replay
	Crowds      uint64 // ID of the last crowd
}

// KeptBy is what a decider keeps of its own from call to call: the T of the memo, empty when it is asked for first.
func KeptBy[T any](m *Memo) *T {
	kind := reflect.TypeFor[T]()
	if m.kept == nil {
		m.kept = map[reflect.Type]any{}
	}
	if m.kept[kind] == nil {
		m.kept[kind] = new(T)
	}
	return m.kept[kind].(*T)
}

// PodFacts is what the engine asks of a pod again and again.
type PodFacts struct {
	// What every call reads of every pod stands first: it fits one line of the processor's cache.
	Pod   *corev1.Pod
	id    uint64      // random, so that sums tell apart sets of pods
	left  uint64      // the last call that missed the pod where it stood before
	roll  *Roll       // of its node; nil if it has none
	Owner *OwnerFacts // nil for pods that nobody owns
	// workload is nil for pods whose owners do not roll out revisions of them.
	workload *workloadFacts
	// counts is true for pods that take room on their node, ending for those that have been told to stop.
	counts, Ending bool
	Mounts         bool // has volumes that matter to where it runs
	brief          bool // it is a brief one
	startedKnown   bool
	sound          bool // its requests make sense
	particular     bool // keeps others off its node: by anti-affinity or host ports
	Listed         bool // the last call's snapshot has it
	Drainable      bool // a drain sends it away, unless it is stuck or protected
	Guarded        bool // has an annotation that may protect it
	Apart          bool // every replay reads it for itself
	ScoredRead     bool
	Kind           *Alike

	need *PodNeed
	// next is what its successor requests; nil until it was asked.
	next *PodNeed
	ask  *PodAsk // nil until it was asked
	// event is when the pod last came or went; it does not count for DaemonSets' pods.
	event            time.Time
	created, boundAt time.Time
	weight           float64 // of the pod when it is moved, 1 for most
	revision         string
	DaemonKey        string // of its DaemonSet, as daemonKey has it
	// started is how long the pod took to become ready, known only once it was asked for.
	started time.Duration
	Scored  kube.Usage // what scores count of it, once scoredRead
	Landing uint64     // number of the last replay in which it had to land
}

// Active is true for pods that have not ended, and have not been told to.
func (f *PodFacts) Active() bool { return f.counts && !f.Ending }

// PodNeed is what pods request; equal ones share it.
type PodNeed struct {
	Text  string
	List  corev1.ResourceList
	Size  string     // list as text, in order of size; empty until it was asked
	usage kube.Usage // of the list, once used
	used  bool
}

// PodAsk is what pods ask for beside resources and volumes; equal ones share it as long as the memo knows it.
type PodAsk struct{ Text string }

// Alike is pods with the same namespace and labels: the same selectors are about them.
type Alike struct {
	Sample  *corev1.Pod
	pass    uint64
	crowd   uint64 // ID of the crowd for which matched was worked out
	matched []int
	Text    string // of matched
}

// Roll is the pods of one node.
type Roll struct {
	Facts []*PodFacts // oldest pod first
	Bound []*corev1.Pod
	Kinds []kindCount
	// Particular are the facts of pods that keep others off the node.
	Particular []*PodFacts
	crew
	seen         uint64        // the last call that saw any pods, ended ones too, and forgot others
	Movable      []*corev1.Pod // reschedulable pods, once movableRead; movers are their facts
	Movers       []*PodFacts
	movableRead  bool
	lots         []Lot // of the movers, once lotsRead
	lotsRead     bool
	Evictees     []*PodFacts // of pods that a drain would send away at evicteesAt, once evicteesRead
	EvicteesAt   time.Time
	EvicteesRead bool
	EvicteesLast bool // and at any other time
	Annotated    bool // some pod has annotations
	activity     Activity
	activityNow  time.Time // when activity was read, once activityRead
	activityRead bool
	Used         capacity.Vector // by all pods, in the order of resources that usedFor names
	UsedFor      string
	Replay       any      // what engine/scheduler has worked out about the pods, nil before
	daemons      []string // DaemonSets that have a pod here, once daemonsRead
	daemonsRead  bool
}

type kindCount struct {
	Kind      *Alike
	N, Ending int
}

// Census is the pods of a snapshot, sorted by what has to be done with them.
type Census struct {
	Memo    *Memo
	all     []*PodFacts // in the order of the snapshot
	Unbound []*corev1.Pod
	Mounts  []*corev1.Pod
	ended   []*PodFacts // of those that had a node
	// ofDaemons are the facts of those of DaemonSets.
	ofDaemons []*PodFacts
	// endings is when those ended, by node, as far as now.
	endings map[*Roll]Activity
	now     time.Time
	// hosts are what every compilation of the snapshot begins with; nil before the first.
	hosts []*Host
	// Patient is true if machines that are late are counted on like others.
	Patient bool
}

// Take counts the pods of the snapshot. A nil memo is an empty one.
func (m *Memo) Take(s *engine.Snapshot, threads int) *Census {
	if m == nil {
		m = &Memo{}
	}
	if m.Pods == nil {
		m.Pods, m.podReader = make(map[*corev1.Pod]*PodFacts, len(s.Pods)), newPodReader()
		m.nodes = map[*corev1.Node]*NodeFacts{}
	}
	m.Pass++
	m.learnTemplates(s)
	m.follow(s.Pods, threads)
	m.refresh(threads)
	c := &Census{Memo: m, all: m.last}
	for i, mark := range m.marks {
		if mark == 0 {
			continue
		}
		if mark&isUnbound != 0 {
			c.Unbound = append(c.Unbound, m.list[i])
		}
		if mark&hasEnded != 0 {
			c.ended = append(c.ended, m.last[i])
		}
		if mark&mountsVolumes != 0 {
			c.Mounts = append(c.Mounts, m.list[i])
		}
		if mark&ofDaemonSet != 0 {
			c.ofDaemons = append(c.ofDaemons, m.last[i])
		}
	}
	m.ofDaemons = c.ofDaemons
	m.forget(len(s.Pods))
	m.forgetNodes(len(s.Nodes))
	return c
}

// FactsOf is what is known of the pod; of one that is in no snapshot, for this once.
func (m *Memo) FactsOf(pod *corev1.Pod) *PodFacts {
	if f := m.Pods[pod]; f != nil {
		return f
	}
	return &PodFacts{Pod: pod, Kind: m.kindOf(pod), Mounts: volume.HasVolumes(&pod.Spec)}
}

// NeedOf is what the pod requests.
func (m *Memo) NeedOf(pod *corev1.Pod) *PodNeed { return m.NeedKnown(pod, m.Pods[pod]) }

// NeedKnown is needOf for a caller that has the facts of the pod, nil for one that the memo does not know.
func (m *Memo) NeedKnown(pod *corev1.Pod, f *PodFacts) *PodNeed {
	if f != nil {
		return m.NeedFor(f)
	}
	return m.readNeed(pod)
}

// RequestProblem says what is wrong with the pod's requests.
func (f *PodFacts) RequestProblem() engine.Reason {
	if f.sound {
		return engine.Reason{}
	}
	r := kube.RequestProblem(&f.Pod.Spec)
	f.sound = r.OK()
	return r
}

// forget drops pods that the last call has not seen, once there are many of them.
func (m *Memo) forget(live int) {
	if len(m.Pods) <= 2*live+1000 {
		return
	}
	needs, asks := map[string]*PodNeed{}, map[string]*PodAsk{}
	for pod, f := range m.Pods {
		if !f.Listed {
			delete(m.Pods, pod)
			continue
		}
		f.Kind.pass = m.Pass
		if f.roll != nil {
			f.roll.seen = m.Pass
		}
		if f.workload != nil {
			f.workload.seen = m.Pass
		}
		for _, n := range []*PodNeed{f.need, f.next} {
			if n != nil {
				needs[n.Text] = n
			}
		}
		if f.ask != nil {
			asks[f.ask.Text] = f.ask
		}
	}
	m.needs, m.asks = needs, asks
	for name, r := range m.rolls {
		if r.seen != m.Pass {
			delete(m.rolls, name)
		}
	}
	for text, k := range m.kinds {
		if k.pass != m.Pass {
			delete(m.kinds, text)
		}
	}
	for name, w := range m.works {
		if w.seen != m.Pass {
			delete(m.works, name)
		}
	}
	for name, o := range m.Owned {
		if o.Count == 0 {
			delete(m.Owned, name)
		}
	}
}

// of is the roll of a node.
func (c *Census) of(node string) *Roll { return c.Memo.RollOf(node) }

func (m *Memo) RollOf(node string) *Roll {
	if r := m.rolls[node]; r != nil {
		return r
	}
	return &Roll{}
}

// Match is the selectors of the index that are about pods with these labels; crowd is the ID of those whose index it is.
func (k *Alike) Match(crowd uint64, index *kube.SelectorIndex) []int {
	if k.crowd != crowd {
		k.crowd, k.matched = crowd, index.Match(k.Sample, k.matched[:0])
		var text []byte
		for _, m := range k.matched {
			text = append(strconv.AppendInt(text, int64(m), 10), ' ')
		}
		k.Text = string(text)
	}
	return k.matched
}
