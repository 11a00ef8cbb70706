package constraints

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// PodConstraints is what a pod asks of the place where it runs, room aside. Pods with the same constraints share it.
type PodConstraints struct {
	kube.NodeConstraints
	ID        int
	Backoff   *ShapeBackoff // nil where every machine that was started for such pods took them, or may have
	Priority  int32
	Volumes   volume.PodVolumes
	Ports     []kube.HostPort
	Spreads   []SpreadConstraint // DoNotSchedule
	Affinity  []AffinityTerm
	Set       int // of InterPod, that the affinity is about; -1 for none
	Anti      []AffinityTerm
	Soft      []Preference  // in the order in which they are given up
	Objection engine.Reason // why the pods cannot be planned for at all
	shape     string        // of structure
}

// SpreadConstraint is a topology spread constraint.
type SpreadConstraint struct {
	selector            *kube.PodSelector
	Key                 string
	MaxSkew, MinDomains int
	affinity, taints    bool // nodeAffinityPolicy and nodeTaintsPolicy are Honor
	text                string
	Group               int // of InterPod
}

// AffinityTerm is a term of pod affinity or anti-affinity.
type AffinityTerm struct {
	Selector *kube.PodSelector
	Key      string
}

// Preference is one thing that the pod would like. Exactly one of the fields but weight is set.
type Preference struct {
	Weight   int
	Near     *AffinityTerm
	Apart    *AffinityTerm
	Spread   *SpreadConstraint
	Node     []requirement.Expression
	Tolerate bool // of the taints that should rather be avoided
	OfOthers bool // what running pods would rather have apart from them
	Set      int  // of InterPod, that near is about
}

// offered leaves out of terms the values that no machine has.
type offered interface {
	Reduced(terms [][]requirement.Expression) [][]requirement.Expression
	ReducedTerm(term []requirement.Expression) []requirement.Expression
}

// anyValue is offered where nothing is known of machines.
type anyValue struct{}

func (anyValue) Reduced(terms [][]requirement.Expression) [][]requirement.Expression { return terms }

func (anyValue) ReducedTerm(term []requirement.Expression) []requirement.Expression { return term }

// Reader reads pods' specs, each kind once. It is to be used from one goroutine.
type Reader struct {
	s         *engine.Snapshot
	opt       engine.Options
	selectors *kube.Selectors
	Volumes   *volume.Volumes
	Spreads   *kube.DefaultSpreads
	devices   *kube.DeviceResources
	values    offered
	avoided   bool // some pool or node has a PreferNoSchedule taint
	byKey     map[string]*PodConstraints
	byClass   map[*inventory.ConstraintClass]*PodConstraints // of pods whose constraints hang on nothing but themselves
	byApart   map[apartKey]*AntiAffinity
	byBackoff map[backoffKey]*PodConstraints
	Backoffs  *LaunchBackoffs // nil until they are known
	list      []*PodConstraints
	cache     *inventory.Cache
	key       inventory.KeyWriter
}

// NewReader reads what pods of the index ask for; of terms it leaves out the values that are not offered, nil for none.
func NewReader(s *engine.Snapshot, opt engine.Options, c *inventory.PodIndex, values offered) *Reader {
	if values == nil {
		values = anyValue{}
	}
	sold := c.Cache.CatalogsOf(s)
	return &Reader{
		s: s, opt: opt, values: values, selectors: kube.NewSelectors(s), Volumes: volume.NewVolumes(s, c.Mounts, sold.Drivers, sold.Types), cache: c.Cache, Spreads: kube.NewDefaultSpreads(s, opt),
		devices: kube.NewDeviceResources(s), avoided: hasAvoidedTaint(s), byKey: map[string]*PodConstraints{}, byClass: map[*inventory.ConstraintClass]*PodConstraints{}, byApart: map[apartKey]*AntiAffinity{},
		byBackoff: map[backoffKey]*PodConstraints{},
	}
}

func hasAvoidedTaint(s *engine.Snapshot) bool {
	avoided := func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule && !kube.IsLeavingSoon(t)
	}
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

// Of is what the pod asks for.
func (w *Reader) Of(pod *corev1.Pod) *PodConstraints { return w.OfInfo(w.cache.InfoOf(pod)) }

// OfInfo are the constraints of the pod of that info.
func (w *Reader) OfInfo(f *inventory.PodInfo) *PodConstraints {
	if r := f.RequestProblem(); !r.OK() {
		return &PodConstraints{NodeConstraints: kube.NodeConstraintsOf(&f.Pod.Spec), Objection: r} // nobody shares that: requests are no part of it
	}
	if f.Mounts || w.Spreads.Deduces(f.Pod) {
		return w.backedOff(w.find(f.Pod), f) // what the pod asks for hangs on other objects
	}
	ask := w.cache.ConstraintsOf(f)
	have, ok := w.byClass[ask]
	if !ok {
		have = w.find(f.Pod)
		w.byClass[ask] = have
	}
	return w.backedOff(have, f)
}

// find are the constraints of a pod whose requests make sense.
func (w *Reader) find(pod *corev1.Pod) *PodConstraints {
	spreads := w.Spreads.ConstraintsOf(pod)
	var volumes volume.PodVolumes
	if volume.HasVolumes(&pod.Spec) {
		volumes = w.Volumes.Of(pod)
	}
	key := w.key.Constraints(pod, spreads, &volumes)
	if have, ok := w.byKey[string(key)]; ok {
		return have
	}
	text := string(key)
	made := w.read(pod, spreads, volumes)
	made.ID = len(w.list)
	w.byKey[text] = made
	w.list = append(w.list, made)
	return made
}

// WithVolumes adds the volumes that a pod with these constraints attaches where nobody has them yet. It returns the sum also as text.
func (w *PodConstraints) WithVolumes(need *inventory.RequestClass) (corev1.ResourceList, string) {
	if len(w.Volumes.Attach) == 0 {
		if need.Size == "" {
			need.Size = kube.ListText(need.List)
		}
		return need.List, need.Size
	}
	out := need.List.DeepCopy()
	for _, a := range w.Volumes.Attach {
		kube.AddList(out, corev1.ResourceList{kube.AttachResource(a.Driver): *resource.NewQuantity(1, resource.DecimalSI)})
	}
	return out, kube.ListText(out)
}

func (w *Reader) read(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint, volumes volume.PodVolumes) *PodConstraints {
	out := &PodConstraints{NodeConstraints: kube.NodeConstraintsOf(&pod.Spec), Volumes: volumes, Ports: kube.HostPortsOf(&pod.Spec)}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	out.Objection = w.objection(pod, &volumes).Bounded()
	if !out.Objection.OK() {
		return out
	}
	for i := range spreads {
		c := &spreads[i]
		read := w.spread(pod, c)
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out.Spreads = append(out.Spreads, read)
		}
	}
	combined, ok := kube.Combine(out.Told, volumes.Alternatives, volume.MostAlternatives)
	if !ok {
		out.Objection = volumesElsewhere(out.Told, volumes.Alternatives).Bounded()
	}
	out.Strict = w.values.Reduced(out.Told)
	out.Told, out.Terms = combined, w.values.Reduced(combined)
	out.Features = kube.RequiredFeatures(&pod.Spec)
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			out.Affinity = w.Terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			out.Anti = w.Terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if w.opt.Preferences != engine.Ignore {
		out.Soft = w.preferences(pod, spreads)
	}
	return out
}

// volumesElsewhere says that no node can be where the pod wants to be and where its volumes are.
func volumesElsewhere(own, volumes [][]requirement.Expression) engine.Reason {
	words := func(terms [][]requirement.Expression) string {
		var texts []string
		for _, term := range terms {
			texts = append(texts, kube.TermText(term))
		}
		return engine.Shortened(texts, 3)
	}
	return engine.Reason{Code: engine.RequirementsConflict, Have: words(own) + " for itself, but for its volumes " + words(volumes)}
}

// objection says why the engine cannot plan for the pod at all: it is not valid, or it needs what no plan can give.
func (w *Reader) objection(pod *corev1.Pod, volumes *volume.PodVolumes) engine.Reason {
	if r := kube.ProblemOf(pod); !r.OK() {
		return r
	}
	if r := kube.UnsupportedOf(&pod.Spec); !r.OK() {
		return r
	}
	if r := w.devices.ProblemOf(kube.PodRequests(pod)); !r.OK() {
		return r
	}
	return volumes.Problem
}

func (w *Reader) spread(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) SpreadConstraint {
	selector, _ := w.selectors.Spread(pod, c)
	out := SpreadConstraint{selector: selector, Key: c.TopologyKey, MaxSkew: int(c.MaxSkew), affinity: true}
	if c.MinDomains != nil {
		out.MinDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		out.affinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		out.taints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	out.text = c.TopologyKey + ", at most " + strconv.Itoa(out.MaxSkew) + " apart"
	if out.MinDomains > 0 {
		out.text += ", at least " + strconv.Itoa(out.MinDomains) + " domains"
	}
	return out
}

func (w *Reader) Terms(pod *corev1.Pod, terms []corev1.PodAffinityTerm) []AffinityTerm {
	var out []AffinityTerm
	for i := range terms {
		selector, _ := w.selectors.Affinity(pod, &terms[i])
		out = append(out, AffinityTerm{selector, terms[i].TopologyKey})
	}
	return out
}

// apartKey is what the terms of a pod's anti-affinity follow from. It is told apart by its address: the pods of a simulation
// share it, and of any other it is asked twice.
type apartKey struct {
	kind     *inventory.LabelClass
	affinity *corev1.PodAntiAffinity
}

// AntiAffinity are the terms of an anti-affinity.
type AntiAffinity struct {
	Required, preferred []AffinityTerm
	ran                 bool // InterPod knows that a running pod has them
}

// AntiAffinityOf are the terms of the pod's anti-affinity, nil if it has none.
func (w *Reader) AntiAffinityOf(f *inventory.PodInfo) *AntiAffinity {
	if f.Pod.Spec.Affinity == nil || f.Pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	a := f.Pod.Spec.Affinity.PodAntiAffinity
	key := apartKey{f.Labels, a}
	out := w.byApart[key]
	if out == nil {
		out = &AntiAffinity{Required: w.Terms(f.Pod, a.RequiredDuringSchedulingIgnoredDuringExecution)}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm
			selector, _ := w.selectors.Affinity(f.Pod, t)
			out.preferred = append(out.preferred, AffinityTerm{selector, t.TopologyKey})
		}
		w.byApart[key] = out
	}
	return out
}

// preferences lists what the pod would like, in the order in which it is given up: affinity to pods, then being apart
// from pods, then nodes, each the heaviest first, then soft spreads, then taints that should rather be avoided.
func (w *Reader) preferences(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint) []Preference {
	var near, apart, node, rest []Preference
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			for i := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				selector, _ := w.selectors.Affinity(pod, &t.PodAffinityTerm)
				near = append(near, Preference{Weight: int(t.Weight), Near: &AffinityTerm{selector, t.PodAffinityTerm.TopologyKey}})
			}
		}
		if a.PodAntiAffinity != nil {
			for i := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				selector, _ := w.selectors.Affinity(pod, &t.PodAffinityTerm)
				apart = append(apart, Preference{Weight: int(t.Weight), Apart: &AffinityTerm{selector, t.PodAffinityTerm.TopologyKey}})
			}
		}
		if a.NodeAffinity != nil {
			for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				t := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
				if _, text := kube.NodeTermProblem(t.Preference); text == "" && !kube.IsEmptyTerm(t.Preference) {
					node = append(node, Preference{Weight: int(t.Weight), Node: w.values.ReducedTerm(kube.ExpressionsOf(t.Preference))})
				}
			}
		}
	}
	for i := range spreads {
		if c := &spreads[i]; c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			read := w.spread(pod, c)
			rest = append(rest, Preference{Weight: 50, Spread: &read})
		}
	}
	if w.avoided {
		rest = append(rest, Preference{Weight: 50, Tolerate: true})
	}
	out := make([]Preference, 0, len(near)+len(apart)+len(node)+len(rest))
	for _, list := range [][]Preference{near, apart, node} {
		slices.SortStableFunc(list, func(a, b Preference) int { return cmp.Compare(b.Weight, a.Weight) })
		out = append(out, list...)
	}
	return append(out, rest...)
}

// Topologies lists the labels by which the constraints' rules count domains.
func (w *PodConstraints) Topologies() []string {
	var keys []string
	add := func(key string) {
		if !kube.IsHost(key) {
			keys = append(keys, key)
		}
	}
	for i := range w.Spreads {
		add(w.Spreads[i].Key)
	}
	for _, list := range [][]AffinityTerm{w.Affinity, w.Anti} {
		for _, t := range list {
			add(t.Key)
		}
	}
	for i := range w.Soft {
		switch s := &w.Soft[i]; {
		case s.Spread != nil:
			add(s.Spread.Key)
		case s.Near != nil:
			add(s.Near.Key)
		case s.Apart != nil:
			add(s.Apart.Key)
		}
	}
	return keys
}

// Selectors lists what the constraints' rules are about.
func (w *PodConstraints) Selectors() []*kube.PodSelector {
	var out []*kube.PodSelector
	for i := range w.Spreads {
		out = append(out, w.Spreads[i].selector)
	}
	for _, list := range [][]AffinityTerm{w.Affinity, w.Anti} {
		for _, t := range list {
			out = append(out, t.Selector)
		}
	}
	for i := range w.Soft {
		switch s := &w.Soft[i]; {
		case s.Spread != nil:
			out = append(out, s.Spread.selector)
		case s.Near != nil:
			out = append(out, s.Near.Selector)
		case s.Apart != nil:
			out = append(out, s.Apart.Selector)
		}
	}
	return out
}
