package constraints

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// PodConstraints holds the constraints of a pod, except its resources. Pods with the same constraints share one.
type PodConstraints struct {
	kube.NodeConstraints
	ID        int
	Backoff   *ShapeBackoff // reasons not to start some machines for the pods; nil for none
	Priority  int32
	OnDemand  bool // required by the owner's share on demand, not by the pod's own spec
	Volumes   volume.PodVolumes
	Devices   deviceplan.Need
	Ports     []kube.HostPort
	Spreads   []SpreadConstraint // DoNotSchedule
	Affinity  []kube.AffinityTerm
	Set       int // the index in InterPod of the set that the affinity looks for; -1 for none
	Anti      []kube.AffinityTerm
	Soft      []Preference  // in the order in which they are dropped
	Objection engine.Reason // why no plan can place the pods
	shape     string        // the cached result of Structure
}

// SpreadConstraint is a topology spread constraint.
type SpreadConstraint struct {
	kube.SpreadConstraint
	Group int // the index in InterPod
}

// text describes the constraint without names.
func (s *SpreadConstraint) text() string {
	text := s.Key + ", at most " + strconv.Itoa(s.MaxSkew) + " apart"
	if s.MinDomains > 0 {
		text += ", at least " + strconv.Itoa(s.MinDomains) + " domains"
	}
	return text
}

// Preference is one preference of the pod. Exactly one of the fields from Near to OfOthers is set.
type Preference struct {
	Weight   int
	Near     *kube.AffinityTerm
	Apart    *kube.AffinityTerm
	Spread   *SpreadConstraint
	Node     []requirement.Expression
	Tolerate bool // avoid PreferNoSchedule taints
	OfOthers bool // the preferred anti-affinity of running pods
	Set      int  // the index in InterPod of the set that Near looks for
}

// Name returns the name of the preference's field in the pod, and its weight if the field has one.
func (p *Preference) Name() string {
	switch {
	case p.Near != nil:
		return fmt.Sprintf("preferred podAffinity over %s (weight %d)", p.Near.Key, p.Weight)
	case p.Apart != nil:
		return fmt.Sprintf("preferred podAntiAffinity over %s (weight %d)", p.Apart.Key, p.Weight)
	case p.Spread != nil:
		return "topologySpreadConstraint over " + p.Spread.Key + " with ScheduleAnyway"
	case p.Tolerate:
		return "distance from taints with PreferNoSchedule"
	case p.OfOthers:
		return "preferred podAntiAffinity of other pods"
	}
	return fmt.Sprintf("preferred nodeAffinity (weight %d)", p.Weight)
}

// `offered` holds the values of labels that machines can have. Its methods remove all other values from the terms of a requirement.
type offered interface {
	Reduced(terms [][]requirement.Expression) [][]requirement.Expression
	ReducedTerm(term []requirement.Expression) []requirement.Expression
}

// anyValue is an `offered` that removes nothing, because the machines are not known.
type anyValue struct{}

func (anyValue) Reduced(terms [][]requirement.Expression) [][]requirement.Expression { return terms }

func (anyValue) ReducedTerm(term []requirement.Expression) []requirement.Expression { return term }

// Reader reads pods' specs, and reads equal specs only once. Only one goroutine may use it.
type Reader struct {
	opt       engine.Options
	Selectors *kube.Selectors
	Volumes   *volume.Volumes
	Claims    *deviceplan.Plan // nil if claims for devices are ignored, or there are none
	Spreads   *kube.DefaultSpreads
	values    offered
	avoided   bool // some pool or node has a PreferNoSchedule taint
	byKey     map[string]*PodConstraints
	byClass   map[*inventory.ConstraintClass]*PodConstraints // constraints that do not depend on other objects
	byApart   map[apartKey]*AntiAffinity
	byBackoff map[backoffKey]*PodConstraints
	Backoffs  *LaunchBackoffs // nil until they are known
	list      []*PodConstraints
	cache     *inventory.Cache
	key       inventory.KeyWriter
}

// NewReader returns a reader for the pods of the index. The reader removes from terms the values that are not offered; nil removes none.
func NewReader(s *engine.Snapshot, opt engine.Options, c *inventory.PodIndex, values offered) *Reader {
	if values == nil {
		values = anyValue{}
	}
	sold := c.Cache.CatalogsOf(s)
	return &Reader{
		opt: opt, values: values, Selectors: kube.NewSelectors(s), Volumes: volume.NewVolumes(s, c.Mounts, sold.Drivers, sold.Types), cache: c.Cache, Spreads: kube.NewDefaultSpreads(s, opt),
		Claims: deviceplan.Of(s, c.Cache), avoided: hasAvoidedTaint(s), byKey: map[string]*PodConstraints{}, byClass: map[*inventory.ConstraintClass]*PodConstraints{}, byApart: map[apartKey]*AntiAffinity{},
		byBackoff: map[backoffKey]*PodConstraints{},
	}
}

func hasAvoidedTaint(s *engine.Snapshot) bool {
	avoided := func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule && !kube.MayLeave(t)
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

// Of returns the constraints of the pod.
func (w *Reader) Of(pod *corev1.Pod) *PodConstraints { return w.OfInfo(w.cache.InfoOf(pod)) }

// OfInfo returns the constraints of the pod of that info.
func (w *Reader) OfInfo(info *inventory.PodInfo) *PodConstraints {
	if r := info.RequestProblem(); !r.OK() {
		return &PodConstraints{NodeConstraints: kube.NodeConstraintsOf(&info.Pod.Spec), Objection: r} // not shared: requests are no constraint
	}
	if info.Mounts || w.cache.ClaimsDevices(info) || w.Spreads.Deduces(info.Pod) {
		return w.backedOff(w.find(info.Pod), info) // the pod's constraints depend on other objects
	}
	ask := w.cache.ConstraintsOf(info)
	have, ok := w.byClass[ask]
	if !ok {
		have = w.find(info.Pod)
		w.byClass[ask] = have
	}
	return w.backedOff(have, info)
}

// find returns the constraints of a pod with valid requests.
func (w *Reader) find(pod *corev1.Pod) *PodConstraints {
	spreads := w.Spreads.ConstraintsOf(pod)
	var volumes volume.PodVolumes
	if volume.HasVolumes(&pod.Spec) {
		volumes = w.Volumes.Of(pod)
	}
	devices := w.Claims.Of(pod)
	key := w.key.Constraints(pod, spreads, &volumes)
	if devices.Asks() {
		key = append(key, devices.Key()...)
	}
	if have, ok := w.byKey[string(key)]; ok {
		return have
	}
	text := string(key)
	made := w.read(pod, spreads, volumes, devices)
	made.ID = len(w.list)
	w.byKey[text] = made
	w.list = append(w.list, made)
	return made
}

// WithVolumes returns the sum of the pod's requests, of the volumes that it attaches to a node without these volumes, and of the devices
// that it claims. It returns the sum also as text.
func (c *PodConstraints) WithVolumes(need *inventory.RequestClass) (corev1.ResourceList, string) {
	if len(c.Volumes.Attach) == 0 && len(c.Devices.Requests) == 0 {
		if need.Size == "" {
			need.Size = kube.ListText(need.List)
		}
		return need.List, need.Size
	}
	out := need.List.DeepCopy()
	for _, a := range c.Volumes.Attach {
		kube.AddList(out, corev1.ResourceList{kube.AttachResource(a.Driver): *resource.NewQuantity(1, resource.DecimalSI)})
	}
	kube.AddList(out, c.Devices.Requests)
	return out, kube.ListText(out)
}

func (w *Reader) read(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint, volumes volume.PodVolumes, devices deviceplan.Need) *PodConstraints {
	out := &PodConstraints{NodeConstraints: kube.NodeConstraintsOf(&pod.Spec), Volumes: volumes, Devices: devices, Ports: kube.HostPortsOf(&pod.Spec)}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	out.Objection = w.objection(pod, &volumes, &devices).Bounded()
	if !out.Objection.OK() {
		return out
	}
	var soft []SpreadConstraint
	for i := range spreads {
		if c := (SpreadConstraint{SpreadConstraint: w.Selectors.SpreadOf(pod, &spreads[i])}); c.Soft {
			soft = append(soft, c)
		} else {
			out.Spreads = append(out.Spreads, c)
		}
	}
	strict := out.Told // kube-scheduler uses only these terms to find the nodes of a spread
	if out.OnDemand = kube.MustRunOnDemand(pod); out.OnDemand {
		out.Told, _ = kube.Combine(out.Told, [][]requirement.Expression{kube.OnDemand}, volume.MostAlternatives)
	}
	combined, ok := kube.Combine(out.Told, volumes.Alternatives, volume.MostAlternatives)
	if !ok {
		out.Objection = volumesElsewhere(out.Told, &volumes).Bounded()
	}
	for _, alternatives := range devices.Within {
		if combined, ok = kube.Combine(combined, alternatives, volume.MostAlternatives); !ok {
			out.Objection = engine.Reason{Code: engine.ClaimNotReady, Key: pod.Spec.ResourceClaims[0].Name, Have: "no node is both where the pod may run and where its devices are"}
		}
	}
	out.Strict = w.values.Reduced(strict)
	out.Told, out.Terms = combined, w.values.Reduced(combined)
	out.Features = kube.RequiredFeatures(&pod.Spec)
	near, apart := w.Selectors.AffinityOf(pod), w.Selectors.AntiAffinityOf(pod)
	out.Affinity, out.Anti = near.Required, apart.Required
	if w.opt.Preferences != engine.Ignore {
		out.Soft = w.preferences(pod, near.Preferred, apart.Preferred, soft)
	}
	return out
}

// volumesElsewhere returns the reason that no node is both where the pod may run and where its volumes are.
func volumesElsewhere(own [][]requirement.Expression, volumes *volume.PodVolumes) engine.Reason {
	words := func(terms [][]requirement.Expression) string {
		var texts []string
		for _, term := range terms {
			rest := slices.DeleteFunc(slices.Clone(term), func(e requirement.Expression) bool { return e.Key == kube.NodeNameKey && e.Op == requirement.NotIn })
			texts = append(texts, cmp.Or(kube.TermText(rest), "a node that is not there yet"))
		}
		return engine.AtMost(texts, 3)
	}
	have := words(own) + " for itself, but for its volumes " + words(volumes.Alternatives)
	if volumes.Storage != "" {
		have += ": " + volumes.Storage + " there"
	}
	return engine.Reason{Code: engine.RequirementsConflict, Have: have}
}

// objection returns why no plan can place the pod: it is not valid, or no machine can meet its needs.
func (w *Reader) objection(pod *corev1.Pod, volumes *volume.PodVolumes, devices *deviceplan.Need) engine.Reason {
	if r := kube.ProblemOf(pod); !r.OK() {
		return r
	}
	if !devices.Problem.OK() {
		return devices.Problem
	}
	if r := w.cache.Devices.ProblemOf(kube.PodRequests(pod), w.Claims != nil); !r.OK() {
		return r
	}
	return volumes.Problem
}

// apartKey is the input of the terms of a pod's anti-affinity. It holds the anti-affinity's address: the pods of a simulation share one
// address, and any other pod is read at most twice.
type apartKey struct {
	kind     *inventory.LabelClass
	affinity *corev1.PodAntiAffinity
}

// AntiAffinity holds the terms of an anti-affinity.
type AntiAffinity struct {
	kube.AffinityTerms
	ran bool // InterPod has them from a running pod
}

// AntiAffinityOf returns the terms of the pod's anti-affinity. It returns nil if there is none.
func (w *Reader) AntiAffinityOf(info *inventory.PodInfo) *AntiAffinity {
	if info.Pod.Spec.Affinity == nil || info.Pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	key := apartKey{info.Labels, info.Pod.Spec.Affinity.PodAntiAffinity}
	out := w.byApart[key]
	if out == nil {
		out = &AntiAffinity{AffinityTerms: w.Selectors.AntiAffinityOf(info.Pod)}
		w.byApart[key] = out
	}
	return out
}

// preferences returns the pod's preferences in the order in which they are dropped: affinity to pods, anti-affinity to pods, then nodes,
// each the heaviest first, then soft spreads, then PreferNoSchedule taints.
func (w *Reader) preferences(pod *corev1.Pod, together, asunder []kube.WeightedAffinityTerm, spreads []SpreadConstraint) []Preference {
	var near, apart, node, rest []Preference
	for i := range together {
		near = append(near, Preference{Weight: together[i].Weight, Near: &together[i].AffinityTerm})
	}
	for i := range asunder {
		apart = append(apart, Preference{Weight: asunder[i].Weight, Apart: &asunder[i].AffinityTerm})
	}
	for _, t := range kube.PreferredTermsOf(&pod.Spec, v1.NormalizeLabel) {
		node = append(node, Preference{Weight: t.Weight, Node: w.values.ReducedTerm(t.Term)})
	}
	for i := range spreads {
		rest = append(rest, Preference{Weight: 50, Spread: &spreads[i]})
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

// Topologies returns the label keys of the domains that the constraints' rules count.
func (c *PodConstraints) Topologies() []string {
	var keys []string
	add := func(key string) {
		if !kube.IsHost(key) {
			keys = append(keys, key)
		}
	}
	for i := range c.Spreads {
		add(c.Spreads[i].Key)
	}
	for _, list := range [][]kube.AffinityTerm{c.Affinity, c.Anti} {
		for _, t := range list {
			add(t.Key)
		}
	}
	for i := range c.Soft {
		switch s := &c.Soft[i]; {
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

// Selectors returns the pod selectors of the constraints' rules.
func (c *PodConstraints) Selectors() []*kube.PodSelector {
	var out []*kube.PodSelector
	for i := range c.Spreads {
		out = append(out, c.Spreads[i].Selector)
	}
	for _, list := range [][]kube.AffinityTerm{c.Affinity, c.Anti} {
		for _, t := range list {
			out = append(out, t.Selector)
		}
	}
	for i := range c.Soft {
		switch s := &c.Soft[i]; {
		case s.Spread != nil:
			out = append(out, s.Spread.Selector)
		case s.Near != nil:
			out = append(out, s.Near.Selector)
		case s.Apart != nil:
			out = append(out, s.Apart.Selector)
		}
	}
	return out
}
