package simulator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// mentioned returns the labels that some object of the world names. The other labels decide nothing, and take time in every plan.
func mentioned(cfg *Config, base *engine.Snapshot) map[string]bool {
	keys := map[string]bool{corev1.LabelArchStable: true, corev1.LabelOSStable: true}
	note := func(key string) { keys[v1.NormalizeLabel(key)] = true }
	for _, p := range base.NodePools {
		for _, r := range p.Spec.Template.Spec.Requirements {
			note(r.Key)
		}
	}
	for _, d := range base.DaemonSets {
		mentionedBy(&d.Spec.Template.Spec, note)
	}
	for _, pod := range base.Pods {
		mentionedBy(&pod.Spec, note)
	}
	for _, x := range cfg.Course.Workloads {
		mentionedBy(&x.Template.Spec, note)
	}
	if t := cfg.Trace; t != nil {
		for i := range t.Kinds {
			mentionedBy(&corev1.PodSpec{NodeSelector: t.Kinds[i].Selector}, note)
		}
	}
	for _, v := range base.PersistentVolumes {
		if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
			mentionedByTerms(a.Required.NodeSelectorTerms, note)
		}
	}
	for _, c := range base.StorageClasses {
		for _, t := range c.AllowedTopologies {
			for _, e := range t.MatchLabelExpressions {
				note(e.Key)
			}
		}
	}
	for _, c := range cfg.Options.DefaultConstraints {
		note(c.TopologyKey)
	}
	for _, p := range cfg.Options.Profiles {
		for _, c := range p.DefaultConstraints {
			note(c.TopologyKey)
		}
	}
	return keys
}

func mentionedBy(spec *corev1.PodSpec, note func(string)) {
	for key := range spec.NodeSelector {
		note(key)
	}
	for _, c := range spec.TopologySpreadConstraints {
		note(c.TopologyKey)
	}
	a := spec.Affinity
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			mentionedByTerms(n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, note)
		}
		for _, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			mentionedByTerms([]corev1.NodeSelectorTerm{t.Preference}, note)
		}
	}
	ofPods := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for _, t := range required {
			note(t.TopologyKey)
		}
		for _, t := range preferred {
			note(t.PodAffinityTerm.TopologyKey)
		}
	}
	if p := a.PodAffinity; p != nil {
		ofPods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		ofPods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func mentionedByTerms(terms []corev1.NodeSelectorTerm, note func(string)) {
	for _, t := range terms {
		for _, e := range t.MatchExpressions {
			note(e.Key)
		}
	}
}

// plainLabels returns for every type, by name, its labels with these keys.
func plainLabels(types []engine.InstanceType, keys map[string]bool) map[string]map[string][]string {
	out := make(map[string]map[string][]string, len(types))
	for _, t := range types {
		labels := map[string][]string{}
		for key, values := range t.Labels {
			if keys[v1.NormalizeLabel(key)] {
				labels[key] = values
			}
		}
		out[t.Name] = labels
	}
	return out
}

// plainTypes returns the types with these labels only.
func plainTypes(types []engine.InstanceType, labels map[string]map[string][]string) []engine.InstanceType {
	out := slices.Clone(types)
	for i := range out {
		out[i].Labels = labels[out[i].Name]
	}
	return out
}
