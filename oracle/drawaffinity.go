package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

// topology returns a random topology key for spread constraints and affinity terms.
func (d *drawing) topology() string {
	switch d.IntN(12) {
	case 0:
		return v1.CapacityTypeLabelKey
	case 1, 2:
		return rackLabel
	case 3:
		return tierLabel
	}
	return pick(d, corev1.LabelTopologyZone, corev1.LabelHostname)
}

// selector returns a selector of the workload itself, mostly, or of pods of other workloads.
func (d *drawing) selector(a *app) *metav1.LabelSelector {
	switch d.IntN(9) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"part-of": pick(d, "front", "back")}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: appLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{a.name, d.anyApp()}},
		}}
	case 2:
		return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: d.anyApp()}}
	case 3:
		return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: d.anyDaemon()}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}}
}

func (d *drawing) anyDaemon() string { return pick(d, "daemon0", "daemon1") }

func (d *drawing) anyApp() string { return pick(d, "app0", "app1", "app2", "app3") }

// spread adds a constraint, unless the API server would refuse it beside another constraint.
func (d *drawing) spread(a *app) {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: pick(d, int32(1), 1, 1, 2), TopologyKey: d.topology(), LabelSelector: d.selector(a),
		WhenUnsatisfiable: pick(d, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
	}
	if d.chance(3) {
		c.NodeAffinityPolicy = ptr.To(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyIgnore))
		if a.affinity().NodeAffinity == nil { // so that the policy matters
			requireNodes(a.affinity(), matching(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, some(d, 1, 2, d.zones)...))
			c.TopologyKey = corev1.LabelTopologyZone
		}
	}
	if d.chance(2) {
		c.NodeTaintsPolicy = ptr.To(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if d.chance(2) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
		c.MinDomains = ptr.To(pick(d, int32(2), 3, 4, 5))
	}
	if d.chance(3) {
		c.MatchLabelKeys = []string{versionLabel}
	}
	if d.chance(20) {
		c.LabelSelector, c.MatchLabelKeys = nil, nil
	}
	for _, other := range a.template.TopologySpreadConstraints {
		if other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return
		}
	}
	a.template.TopologySpreadConstraints = append(a.template.TopologySpreadConstraints, c)
}

func (d *drawing) term(a *app) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: d.topology(), LabelSelector: d.selector(a)}
	switch d.IntN(7) {
	case 0:
		t.Namespaces = some(d, 1, 2, []string{"default", "shop", "data"})
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{teamLabel: pick(d, "blue", "green")}}
	case 3, 4:
		t.MatchLabelKeys = []string{versionLabel}
	case 5:
		t.MismatchLabelKeys = []string{versionLabel}
	}
	return t
}

func (a *app) affinity() *corev1.Affinity {
	if a.template.Affinity == nil {
		a.template.Affinity = &corev1.Affinity{}
	}
	return a.template.Affinity
}

func (d *drawing) antiAffinity(a *app) {
	all := a.affinity()
	if all.PodAntiAffinity == nil {
		all.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	anti := all.PodAntiAffinity
	if d.chance(4) {
		anti.PreferredDuringSchedulingIgnoredDuringExecution = append(anti.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: pick(d, int32(1), 50, 100), PodAffinityTerm: d.term(a)})
		return
	}
	term := d.term(a)
	if d.chance(2) { // pods of other workloads
		term.TopologyKey = pick(d, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone)
		term.LabelSelector = &metav1.LabelSelector{MatchLabels: pick(d, map[string]string{"part-of": pick(d, "front", "back")}, map[string]string{appLabel: d.anyApp()}, map[string]string{appLabel: d.anyDaemon()})}
	}
	anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, term)
}

func (d *drawing) affinity(a *app) {
	all := a.affinity()
	if all.PodAffinity == nil {
		all.PodAffinity = &corev1.PodAffinity{}
	}
	with := all.PodAffinity
	if d.chance(3) {
		with.PreferredDuringSchedulingIgnoredDuringExecution = append(with.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: pick(d, int32(1), 50, 100), PodAffinityTerm: d.term(a)})
		return
	}
	with.RequiredDuringSchedulingIgnoredDuringExecution = append(with.RequiredDuringSchedulingIgnoredDuringExecution, d.term(a))
}

// nodeAffinity adds requirements about a label, a number or a name of nodes, or a preference.
func (d *drawing) nodeAffinity(spec *corev1.PodSpec) {
	if d.chance(4) {
		spec.NodeSelector = pick(d, map[string]string{tierLabel: "gold"}, map[string]string{corev1.LabelTopologyZone: pick(d, d.zones...)},
			map[string]string{corev1.LabelArchStable: v1.ArchitectureAMD64}, map[string]string{v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand})
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity != nil {
		return
	}
	if d.chance(4) {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: pick(d, int32(1), 50, 100), Preference: d.nodeTerm()},
		}}
		return
	}
	terms := []corev1.NodeSelectorTerm{d.nodeTerm()}
	if d.chance(3) {
		terms = append(terms, d.nodeTerm())
	}
	requireNodes(spec.Affinity, terms...)
}

func requireNodes(a *corev1.Affinity, terms ...corev1.NodeSelectorTerm) {
	a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func matching(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func (d *drawing) nodeTerm() corev1.NodeSelectorTerm {
	switch d.IntN(11) {
	case 0, 1:
		return matching(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, some(d, 1, 2, d.zones)...)
	case 2:
		return matching(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, pick(d, d.zones...))
	case 3:
		return matching(generationLabel, pick(d, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt), pick(d, "3", "6", "9"))
	case 4:
		return matching(tierLabel, pick(d, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist))
	case 5:
		return matching(familyLabel, corev1.NodeSelectorOpIn, some(d, 1, 2, []string{"c", "m", "r"})...)
	case 6:
		return matching(rackLabel, corev1.NodeSelectorOpNotIn, "r1")
	case 7:
		return matching(v1.NodePoolLabelKey, pick(d, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist))
	case 8:
		return matching(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeSpot)
	}
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(d, "node0", "node1", "node2")}},
	}}
}

// mergeLabelKeys does the work of the API server when a pod is created. It adds the labels that matchLabelKeys and mismatchLabelKeys name to the
// selectors.
func mergeLabelKeys(p *corev1.Pod) {
	merge := func(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := p.Labels[key]; ok && s != nil {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
			}
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	for _, t := range affinityTerms(p) {
		merge(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		merge(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
}

// affinityTerms lists all of the pod's terms about other pods, required and preferred.
func affinityTerms(p *corev1.Pod) []*corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil {
		return nil
	}
	var required [][]corev1.PodAffinityTerm
	var preferred []corev1.WeightedPodAffinityTerm
	var out []*corev1.PodAffinityTerm
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		required, preferred = append(required, a.RequiredDuringSchedulingIgnoredDuringExecution), a.PreferredDuringSchedulingIgnoredDuringExecution
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		required, preferred = append(required, a.RequiredDuringSchedulingIgnoredDuringExecution), a.PreferredDuringSchedulingIgnoredDuringExecution
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	for _, terms := range slices.Clone(required) {
		for i := range terms {
			out = append(out, &terms[i])
		}
	}
	return out
}
