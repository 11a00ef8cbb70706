package engine

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/capacity"
)

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
	pods  map[*corev1.Pod]*podFacts
	list  []*corev1.Pod // of the last call
	last  []*podFacts   // of these
	marks []mark        // of these
	// spareFacts and spareMarks are those of the call before, to be written over.
	spareFacts []*podFacts
	spareMarks []mark
	nodes      map[*corev1.Node]*nodeFacts
	// offer is what the classes of the last call sell, fleet its machines.
	offer   *offer
	fleet   *fleet
	fleets  uint64 // number of the last fleet
	daemons knownDaemons
	// ofDaemons are the facts of the last call's pods of DaemonSets.
	ofDaemons []*podFacts
	pass      uint64
	kept      map[reflect.Type]any // see keptBy
	// otherRolls and otherOwners are those that have lost or got pods since the last call.
	otherRolls  []*roll
	otherOwners []*ownerFacts
	next        uint64 // number of the next pod
	worlds      uint64 // number of the last replay
	crowds      uint64 // ID of the last crowd
}

// keptBy is what a decider keeps of its own from call to call: the T of the memo, empty when it is asked for first.
func keptBy[T any](m *Memo) *T {
	kind := reflect.TypeFor[T]()
	if m.kept == nil {
		m.kept = map[reflect.Type]any{}
	}
	if m.kept[kind] == nil {
		m.kept[kind] = new(T)
	}
	return m.kept[kind].(*T)
}

// podFacts is what the engine asks of a pod again and again.
type podFacts struct {
	// What every call reads of every pod stands first: it fits one line of the processor's cache.
	pod   *corev1.Pod
	id    uint64      // random, so that sums tell apart sets of pods
	left  uint64      // the last call that missed the pod where it stood before
	roll  *roll       // of its node; nil if it has none
	owner *ownerFacts // nil for pods that nobody owns
	// workload is nil for pods whose owners do not roll out revisions of them.
	workload *workloadFacts
	// counts is true for pods that take room on their node, ending for those that have been told to stop.
	counts, ending bool
	mounts         bool // has volumes that matter to where it runs
	brief          bool // it is a brief one
	startedKnown   bool
	sound          bool // its requests make sense
	particular     bool // keeps others off its node: by anti-affinity or host ports
	listed         bool // the last call's snapshot has it
	drainable      bool // a drain sends it away, unless it is stuck or protected
	guarded        bool // has an annotation that may protect it
	apart          bool // every replay reads it for itself
	scoredRead     bool
	kind           *alike

	need *podNeed
	// next is what its successor requests; nil until it was asked.
	next *podNeed
	ask  *podAsk // nil until it was asked
	// event is when the pod last came or went; it does not count for DaemonSets' pods.
	event            time.Time
	created, boundAt time.Time
	weight           float64 // of the pod when it is moved, 1 for most
	revision         string
	daemonKey        string // of its DaemonSet, as daemonKey has it
	// started is how long the pod took to become ready, known only once it was asked for.
	started time.Duration
	scored  usage  // what scores count of it, once scoredRead
	landing uint64 // number of the last replay in which it had to land
}

// active is true for pods that have not ended, and have not been told to.
func (f *podFacts) active() bool { return f.counts && !f.ending }

// podNeed is what pods request; equal ones share it.
type podNeed struct {
	text  string
	list  corev1.ResourceList
	size  string // list as text, in order of size; empty until it was asked
	usage usage  // of the list, once used
	used  bool
}

// podAsk is what pods ask for beside resources and volumes; equal ones share it as long as the memo knows it.
type podAsk struct{ text string }

// alike is pods with the same namespace and labels: the same selectors are about them.
type alike struct {
	sample  *corev1.Pod
	pass    uint64
	crowd   uint64 // ID of the crowd for which matched was worked out
	matched []int
	text    string // of matched
}

// roll is the pods of one node.
type roll struct {
	facts []*podFacts // oldest pod first
	bound []*corev1.Pod
	kinds []kindCount
	// particular are the facts of pods that keep others off the node.
	particular []*podFacts
	crew
	seen         uint64        // the last call that saw any pods, ended ones too, and forgot others
	movable      []*corev1.Pod // reschedulable pods, once movableRead; movers are their facts
	movers       []*podFacts
	movableRead  bool
	lots         []lot // of the movers, once lotsRead
	lotsRead     bool
	evictees     []*podFacts // of pods that a drain would send away at evicteesAt, once evicteesRead
	evicteesAt   time.Time
	evicteesRead bool
	evicteesLast bool // and at any other time
	annotated    bool // some pod has annotations
	activity     activity
	activityNow  time.Time // when activity was read, once activityRead
	activityRead bool
	used         capacity.Vector // by all pods, in the order of resources that usedFor names
	usedFor      string
	replay       any      // what engine/scheduler has worked out about the pods, nil before
	daemons      []string // DaemonSets that have a pod here, once daemonsRead
	daemonsRead  bool
}

type kindCount struct {
	kind      *alike
	n, ending int
}

// census is the pods of a snapshot, sorted by what has to be done with them.
type census struct {
	memo    *Memo
	all     []*podFacts // in the order of the snapshot
	unbound []*corev1.Pod
	mounts  []*corev1.Pod
	ended   []*podFacts // of those that had a node
	// ofDaemons are the facts of those of DaemonSets.
	ofDaemons []*podFacts
	// endings is when those ended, by node, as far as now.
	endings map[*roll]activity
	now     time.Time
	// hosts are what every compilation of the snapshot begins with; nil before the first.
	hosts []*host
	// patient is true if machines that are late are counted on like others.
	patient bool
}

// take counts the pods of the snapshot. A nil memo is an empty one.
func (m *Memo) take(s *Snapshot, threads int) *census {
	if m == nil {
		m = &Memo{}
	}
	if m.pods == nil {
		m.pods, m.podReader = make(map[*corev1.Pod]*podFacts, len(s.Pods)), newPodReader()
		m.nodes = map[*corev1.Node]*nodeFacts{}
	}
	m.pass++
	m.learnTemplates(s)
	m.follow(s.Pods, threads)
	m.refresh(threads)
	c := &census{memo: m, all: m.last}
	for i, mark := range m.marks {
		if mark == 0 {
			continue
		}
		if mark&isUnbound != 0 {
			c.unbound = append(c.unbound, m.list[i])
		}
		if mark&hasEnded != 0 {
			c.ended = append(c.ended, m.last[i])
		}
		if mark&mountsVolumes != 0 {
			c.mounts = append(c.mounts, m.list[i])
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

// factsOf is what is known of the pod; of one that is in no snapshot, for this once.
func (m *Memo) factsOf(pod *corev1.Pod) *podFacts {
	if f := m.pods[pod]; f != nil {
		return f
	}
	return &podFacts{pod: pod, kind: m.kindOf(pod), mounts: hasVolumes(&pod.Spec)}
}

// needOf is what the pod requests.
func (m *Memo) needOf(pod *corev1.Pod) *podNeed { return m.needKnown(pod, m.pods[pod]) }

// needKnown is needOf for a caller that has the facts of the pod, nil for one that the memo does not know.
func (m *Memo) needKnown(pod *corev1.Pod, f *podFacts) *podNeed {
	if f != nil {
		return m.needFor(f)
	}
	return m.readNeed(pod)
}

// requestProblem says what is wrong with the pod's requests.
func (f *podFacts) requestProblem() Reason {
	if f.sound {
		return Reason{}
	}
	r := requestProblem(&f.pod.Spec)
	f.sound = r.OK()
	return r
}

// forget drops pods that the last call has not seen, once there are many of them.
func (m *Memo) forget(live int) {
	if len(m.pods) <= 2*live+1000 {
		return
	}
	needs, asks := map[string]*podNeed{}, map[string]*podAsk{}
	for pod, f := range m.pods {
		if !f.listed {
			delete(m.pods, pod)
			continue
		}
		f.kind.pass = m.pass
		if f.roll != nil {
			f.roll.seen = m.pass
		}
		if f.workload != nil {
			f.workload.seen = m.pass
		}
		for _, n := range []*podNeed{f.need, f.next} {
			if n != nil {
				needs[n.text] = n
			}
		}
		if f.ask != nil {
			asks[f.ask.text] = f.ask
		}
	}
	m.needs, m.asks = needs, asks
	for name, r := range m.rolls {
		if r.seen != m.pass {
			delete(m.rolls, name)
		}
	}
	for text, k := range m.kinds {
		if k.pass != m.pass {
			delete(m.kinds, text)
		}
	}
	for name, w := range m.works {
		if w.seen != m.pass {
			delete(m.works, name)
		}
	}
	for name, o := range m.owned {
		if o.count == 0 {
			delete(m.owned, name)
		}
	}
}

// of is the roll of a node.
func (c *census) of(node string) *roll { return c.memo.rollOf(node) }

func (m *Memo) rollOf(node string) *roll {
	if r := m.rolls[node]; r != nil {
		return r
	}
	return &roll{}
}

// match is the selectors of the index that are about pods with these labels; crowd is the ID of those whose index it is.
func (k *alike) match(crowd uint64, index *selectorIndex) []int {
	if k.crowd != crowd {
		k.crowd, k.matched = crowd, index.match(k.sample, k.matched[:0])
		var text []byte
		for _, m := range k.matched {
			text = append(strconv.AppendInt(text, int64(m), 10), ' ')
		}
		k.text = string(text)
	}
	return k.matched
}

// usedBy adds up what the pods of the roll request.
func (p *problem) usedBy(r *roll) capacity.Vector {
	if len(r.facts) == 0 {
		return make(capacity.Vector, p.names.Len())
	}
	if r.usedFor != p.namesText {
		r.used, r.usedFor = make(capacity.Vector, p.names.Len()), p.namesText
		for _, f := range r.facts {
			r.used.Add(p.requestFor(p.census.memo.needFor(f)), 1)
		}
	}
	return r.used
}

// text lists the resources in their order.
func (r *resourceNames) text() string {
	var b strings.Builder
	for i := range r.Len() {
		b.WriteString(strconv.Quote(r.Name(i)))
	}
	return b.String()
}
