package engine

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/parallel"
)

// podReader reads pods. What several of them have in common it keeps once, by its name or its text.
type podReader struct {
	rolls map[string]*roll
	kinds map[string]*alike
	needs map[string]*podNeed
	asks  map[string]*podAsk
	works map[workloadName]*workloadFacts
	owned map[string]*ownerFacts
	// templates are what owners make their pods from, by the owners' keys; all readers of a memo share them.
	templates map[string]*corev1.PodSpec
	key       keyWriter
}

func newPodReader() podReader {
	return podReader{
		rolls: map[string]*roll{}, kinds: map[string]*alike{}, needs: map[string]*podNeed{}, asks: map[string]*podAsk{},
		works: map[workloadName]*workloadFacts{}, owned: map[string]*ownerFacts{},
	}
}

// fewUnread is how many pods are not worth a goroutine of their own.
const fewUnread = 1000

// readAll reads pods that the memo does not know yet.
func (m *Memo) readAll(pods []*corev1.Pod, threads int) {
	facts, first := make([]*podFacts, len(pods)), m.next+1
	m.next += uint64(len(pods))
	ranges := parallel.Ranges(len(pods), threads, fewUnread)
	readers, parts := make([]*podReader, len(ranges)), make([]func(), len(ranges))
	for i, x := range ranges {
		reader := &m.podReader
		if i > 0 {
			other := newPodReader()
			other.templates = m.templates
			reader = &other
		}
		readers[i] = reader
		parts[i] = func() {
			for j := x.From; j < x.To; j++ {
				facts[j] = reader.read(pods[j], first+uint64(j))
				if len(ranges) > 1 {
					reader.readAhead(facts[j])
				}
			}
		}
	}
	parallel.Run(parts...)
	for i, x := range ranges {
		if i > 0 {
			m.join(readers[i], facts[x.From:x.To])
		}
	}
	for i, pod := range pods {
		m.pods[pod] = facts[i]
	}
}

// join makes the facts that another reader has read this one's.
func (r *podReader) join(other *podReader, facts []*podFacts) {
	rolls, kinds, works := joined(r.rolls, other.rolls), joined(r.kinds, other.kinds), joined(r.works, other.works)
	needs, asks, owned := joined(r.needs, other.needs), joined(r.asks, other.asks), joined(r.owned, other.owned)
	for _, f := range facts {
		f.roll, f.kind, f.need, f.next, f.ask = rolls[f.roll], kinds[f.kind], needs[f.need], needs[f.next], asks[f.ask]
		f.workload, f.owner = works[f.workload], owned[f.owner]
	}
}

// joined adds what only the other map has, and says what stands for each of the other's.
func joined[K comparable, V any](mine, others map[K]*V) map[*V]*V {
	out := make(map[*V]*V, len(others))
	for k, v := range others {
		if _, known := mine[k]; !known {
			mine[k] = v
		}
		out[v] = mine[k]
	}
	return out
}

// read reads a pod, the one of that number.
func (r *podReader) read(pod *corev1.Pod, number uint64) *podFacts {
	f := &podFacts{
		pod: pod, id: mixed(number), counts: !IsTerminal(pod), ending: IsTerminating(pod), mounts: hasVolumes(&pod.Spec),
		kind: r.kindOf(pod), event: podEvent(pod), brief: IsBrief(pod), daemonKey: daemonKey(pod),
		created: pod.CreationTimestamp.Time, boundAt: boundAt(pod), weight: min(max(evictionCost(pod), 0.1), 10),
	}
	if name := ownerKey(pod); name != "" {
		f.owner = r.ownerNamed(name)
	}
	if w, revision, ok := revisionOf(pod); ok {
		f.workload, f.revision = r.workOf(w), revision
	}
	ports, a := len(hostPortsOf(&pod.Spec)) > 0, pod.Spec.Affinity
	f.particular = a != nil && a.PodAntiAffinity != nil || ports || f.mounts
	f.apart = a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || ports || f.mounts
	f.drainable = !IsMirror(pod) && !toleratesDisruption(pod)
	_, f.guarded = pod.Annotations[v1.DoNotDisruptAnnotationKey]
	if pod.Spec.NodeName != "" {
		f.roll = r.rolls[pod.Spec.NodeName]
		if f.roll == nil {
			f.roll = &roll{}
			r.rolls[pod.Spec.NodeName] = f.roll
		}
	}
	return f
}

// readAhead reads what will be asked of most pods that run.
func (r *podReader) readAhead(f *podFacts) {
	if f.roll == nil || !f.counts || !f.requestProblem().OK() {
		return
	}
	r.nextNeed(f)
	r.needFor(f)
	if !f.mounts {
		r.askOf(f)
	}
}

func (r *podReader) kindOf(pod *corev1.Pod) *alike {
	key := r.key.kind(pod)
	k, ok := r.kinds[string(key)]
	if !ok {
		k = &alike{sample: pod}
		r.kinds[string(key)] = k
	}
	return k
}

func (r *podReader) ownerNamed(name string) *ownerFacts {
	o := r.owned[name]
	if o == nil {
		o = &ownerFacts{name: name}
		r.owned[name] = o
	}
	return o
}

func (r *podReader) workOf(name workloadName) *workloadFacts {
	w := r.works[name]
	if w == nil {
		w = &workloadFacts{name: name}
		r.works[name] = w
	}
	return w
}

// needFor is what the pod requests.
func (r *podReader) needFor(f *podFacts) *podNeed {
	if f.need == nil {
		f.need = r.readNeed(f.pod)
	}
	return f.need
}

// nextNeed is what the pod's successor requests.
func (r *podReader) nextNeed(f *podFacts) *podNeed {
	if f.next == nil {
		var template *corev1.PodSpec
		if f.owner != nil {
			template = r.templates[f.owner.name]
		}
		if s := successor(f.pod, template); s == f.pod {
			f.next = r.needFor(f)
		} else {
			f.next = r.readNeed(s)
		}
	}
	return f.next
}

func (r *podReader) readNeed(pod *corev1.Pod) *podNeed {
	key := r.key.need(pod)
	n, ok := r.needs[string(key)]
	if !ok {
		n = &podNeed{text: string(key), list: PodRequests(pod)}
		r.needs[n.text] = n
	}
	return n
}

// askOf is what the pod asks for beside resources and volumes, of which it has none.
func (r *podReader) askOf(f *podFacts) *podAsk {
	if f.ask != nil {
		return f.ask
	}
	key := r.key.wish(f.pod, f.pod.Spec.TopologySpreadConstraints, &podVolumes{})
	a, ok := r.asks[string(key)]
	if !ok {
		a = &podAsk{string(key)}
		r.asks[a.text] = a
	}
	f.ask = a
	return a
}
