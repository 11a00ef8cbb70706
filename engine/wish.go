package engine

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/requirement"
)

// wish is what a pod asks of the place where it runs, room aside. Pods with the same wish share it.
type wish struct {
	demand
	id        int
	backoff   *shapeBackoff // nil where every machine that was started for such pods took them, or may have
	priority  int32
	volumes   podVolumes
	ports     []hostPort
	spreads   []spreadWish // DoNotSchedule
	affinity  []termWish
	set       int // of the crowd, that the affinity is about; -1 for none
	anti      []termWish
	soft      []softWish // in the order in which they are given up
	objection Reason     // why the pods cannot be planned for at all
	shape     string     // of structure
}

// spreadWish is a topology spread constraint.
type spreadWish struct {
	selector            *podSelector
	key                 string
	maxSkew, minDomains int
	affinity, taints    bool // nodeAffinityPolicy and nodeTaintsPolicy are Honor
	text                string
	group               int // of the crowd
}

// termWish is a term of pod affinity or anti-affinity.
type termWish struct {
	selector *podSelector
	key      string
}

// softWish is one thing that the pod would like. Exactly one of the fields but weight is set.
type softWish struct {
	weight   int
	near     *termWish
	apart    *termWish
	spread   *spreadWish
	node     []requirement.Expression
	tolerate bool // of the taints that should rather be avoided
	ofOthers bool // what running pods would rather have apart from them
	set      int  // of the crowd, that near is about
}

// wishes reads pods' specs, each kind once. It is to be used from one goroutine.
type wishes struct {
	s         *Snapshot
	opt       Options
	selectors *selectors
	volumes   *volumes
	spreads   *defaultSpreads
	devices   *deviceResources
	values    *labelValues
	avoided   bool // some pool or node has a PreferNoSchedule taint
	byKey     map[string]*wish
	byAsk     map[*podAsk]*wish // of pods whose wish hangs on nothing but themselves
	byApart   map[apartKey]*apartTerms
	byBackoff map[wishBackoff]*wish
	backoffs  *launchBackoffs // nil until they are known
	list      []*wish
	memo      *Memo
	key       keyWriter
}

func newWishes(s *Snapshot, opt Options, c *census, values *labelValues) *wishes {
	sold := c.memo.offerOf(s)
	return &wishes{
		s: s, opt: opt, values: values, selectors: newSelectors(s), volumes: newVolumes(s, c.mounts, sold.drivers, sold.types), memo: c.memo, spreads: newDefaultSpreads(s, opt),
		devices: newDeviceResources(s), avoided: hasAvoidedTaint(s), byKey: map[string]*wish{}, byAsk: map[*podAsk]*wish{}, byApart: map[apartKey]*apartTerms{},
		byBackoff: map[wishBackoff]*wish{},
	}
}

func hasAvoidedTaint(s *Snapshot) bool {
	avoided := func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule && !IsLeavingSoon(t) }
	for _, n := range s.Nodes {
		if slices.ContainsFunc(n.Spec.Taints, avoided) {
			return true
		}
	}
	for _, p := range s.NodePools {
		for _, t := range p.Spec.Template.Spec.Taints {
			if t.Effect == corev1.TaintEffectPreferNoSchedule {
				return true
			}
		}
	}
	return false
}

// of is the pod's wish.
func (w *wishes) of(pod *corev1.Pod) *wish { return w.ofFacts(w.memo.factsOf(pod)) }

// ofFacts is the wish of the pod of the facts.
func (w *wishes) ofFacts(f *podFacts) *wish {
	if r := f.requestProblem(); !r.OK() {
		return &wish{demand: demandOf(&f.pod.Spec), objection: r} // nobody shares that: requests are no part of a wish
	}
	if f.mounts || w.spreads.deduces(f.pod) {
		return w.backedOff(w.find(f.pod), f) // what the pod asks for hangs on other objects
	}
	ask := w.memo.askOf(f)
	have, ok := w.byAsk[ask]
	if !ok {
		have = w.find(f.pod)
		w.byAsk[ask] = have
	}
	return w.backedOff(have, f)
}

// find is the wish of a pod whose requests make sense.
func (w *wishes) find(pod *corev1.Pod) *wish {
	spreads := w.spreads.constraintsOf(pod)
	var volumes podVolumes
	if hasVolumes(&pod.Spec) {
		volumes = w.volumes.of(pod)
	}
	key := w.key.wish(pod, spreads, &volumes)
	if have, ok := w.byKey[string(key)]; ok {
		return have
	}
	text := string(key)
	made := w.read(pod, spreads, volumes)
	made.id = len(w.list)
	w.byKey[text] = made
	w.list = append(w.list, made)
	return made
}

// withVolumes adds the volumes that a pod with this wish attaches where nobody has them yet. It returns the sum also as text.
func (w *wish) withVolumes(need *podNeed) (corev1.ResourceList, string) {
	if len(w.volumes.Attach) == 0 {
		if need.size == "" {
			need.size = listText(need.list)
		}
		return need.list, need.size
	}
	out := need.list.DeepCopy()
	for _, a := range w.volumes.Attach {
		addList(out, corev1.ResourceList{attachResource(a.driver): *resource.NewQuantity(1, resource.DecimalSI)})
	}
	return out, listText(out)
}

func (w *wishes) read(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint, volumes podVolumes) *wish {
	out := &wish{demand: demandOf(&pod.Spec), volumes: volumes, ports: hostPortsOf(&pod.Spec)}
	if pod.Spec.Priority != nil {
		out.priority = *pod.Spec.Priority
	}
	out.objection = w.objection(pod, &volumes).bounded()
	if !out.objection.OK() {
		return out
	}
	for i := range spreads {
		c := &spreads[i]
		read := w.spread(pod, c)
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out.spreads = append(out.spreads, read)
		}
	}
	combined, ok := combine(out.told, volumes.Alternatives, mostAlternatives)
	if !ok {
		out.objection = volumesElsewhere(out.told, volumes.Alternatives).bounded()
	}
	out.strict = w.values.reduced(out.told)
	out.told, out.terms = combined, w.values.reduced(combined)
	out.features = requiredFeatures(&pod.Spec)
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			out.affinity = w.terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			out.anti = w.terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if w.opt.Preferences != Ignore {
		out.soft = w.preferences(pod, spreads)
	}
	return out
}

// volumesElsewhere says that no node can be where the pod wants to be and where its volumes are.
func volumesElsewhere(own, volumes [][]requirement.Expression) Reason {
	words := func(terms [][]requirement.Expression) string {
		var texts []string
		for _, term := range terms {
			texts = append(texts, termText(term))
		}
		return shortened(texts, 3)
	}
	return Reason{Code: RequirementsConflict, Have: words(own) + " for itself, but for its volumes " + words(volumes)}
}

// objection says why the engine cannot plan for the pod at all: it is not valid, or it needs what no plan can give.
func (w *wishes) objection(pod *corev1.Pod, volumes *podVolumes) Reason {
	if r := problemOf(pod); !r.OK() {
		return r
	}
	if r := unsupportedOf(&pod.Spec); !r.OK() {
		return r
	}
	if r := w.devices.problemOf(PodRequests(pod)); !r.OK() {
		return r
	}
	return volumes.Problem
}

func (w *wishes) spread(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) spreadWish {
	selector, _ := w.selectors.spread(pod, c)
	out := spreadWish{selector: selector, key: c.TopologyKey, maxSkew: int(c.MaxSkew), affinity: true}
	if c.MinDomains != nil {
		out.minDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		out.affinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		out.taints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	out.text = c.TopologyKey + ", at most " + strconv.Itoa(out.maxSkew) + " apart"
	if out.minDomains > 0 {
		out.text += ", at least " + strconv.Itoa(out.minDomains) + " domains"
	}
	return out
}

func (w *wishes) terms(pod *corev1.Pod, terms []corev1.PodAffinityTerm) []termWish {
	var out []termWish
	for i := range terms {
		selector, _ := w.selectors.affinity(pod, &terms[i])
		out = append(out, termWish{selector, terms[i].TopologyKey})
	}
	return out
}

// apartKey is what the terms of a pod's anti-affinity follow from. It is told apart by its address: the pods of a simulation
// share it, and of any other it is asked twice.
type apartKey struct {
	kind     *alike
	affinity *corev1.PodAntiAffinity
}

// apartTerms are the terms of an anti-affinity.
type apartTerms struct {
	required, preferred []termWish
	ran                 bool // the crowd knows that a running pod has them
}

// apartOf are the terms of the pod's anti-affinity, nil if it has none.
func (w *wishes) apartOf(f *podFacts) *apartTerms {
	if f.pod.Spec.Affinity == nil || f.pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	a := f.pod.Spec.Affinity.PodAntiAffinity
	key := apartKey{f.kind, a}
	out := w.byApart[key]
	if out == nil {
		out = &apartTerms{required: w.terms(f.pod, a.RequiredDuringSchedulingIgnoredDuringExecution)}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm
			selector, _ := w.selectors.affinity(f.pod, t)
			out.preferred = append(out.preferred, termWish{selector, t.TopologyKey})
		}
		w.byApart[key] = out
	}
	return out
}

// preferences lists what the pod would like, in the order in which it is given up: affinity to pods, then being apart
// from pods, then nodes, each the heaviest first, then soft spreads, then taints that should rather be avoided.
func (w *wishes) preferences(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint) []softWish {
	var near, apart, node, rest []softWish
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			for i := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				selector, _ := w.selectors.affinity(pod, &t.PodAffinityTerm)
				near = append(near, softWish{weight: int(t.Weight), near: &termWish{selector, t.PodAffinityTerm.TopologyKey}})
			}
		}
		if a.PodAntiAffinity != nil {
			for i := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				selector, _ := w.selectors.affinity(pod, &t.PodAffinityTerm)
				apart = append(apart, softWish{weight: int(t.Weight), apart: &termWish{selector, t.PodAffinityTerm.TopologyKey}})
			}
		}
		if a.NodeAffinity != nil {
			for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				if _, text := nodeTermProblem(t.Preference); text == "" && !isEmptyTerm(t.Preference) {
					node = append(node, softWish{weight: int(t.Weight), node: w.values.reducedTerm(expressionsOf(t.Preference))})
				}
			}
		}
	}
	for i := range spreads {
		if c := &spreads[i]; c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			read := w.spread(pod, c)
			rest = append(rest, softWish{weight: 50, spread: &read})
		}
	}
	if w.avoided {
		rest = append(rest, softWish{weight: 50, tolerate: true})
	}
	out := make([]softWish, 0, len(near)+len(apart)+len(node)+len(rest))
	for _, list := range [][]softWish{near, apart, node} {
		slices.SortStableFunc(list, func(a, b softWish) int { return cmp.Compare(b.weight, a.weight) })
		out = append(out, list...)
	}
	return append(out, rest...)
}
