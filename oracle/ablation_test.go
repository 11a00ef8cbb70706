package oracle

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
)

// An ablation removes one rule from a cluster. kube-scheduler's answers are then the answers of an engine without the rule.
type ablation struct {
	rule    string
	cluster func(s *engine.Snapshot)
	pod     func(p *corev1.Pod) // applied to each pod
	options func(o *engine.Options)
}

func spreads(change func(c *corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range p.Spec.TopologySpreadConstraints {
			change(&p.Spec.TopologySpreadConstraints[i])
		}
	}
}

func terms(change func(t *corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, t := range affinityTerms(p) {
			change(t)
		}
	}
}

func ports(change func(c *corev1.ContainerPort)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for i := range c.Ports {
				change(&c.Ports[i])
			}
		}
	}
}

// unmerged removes the parts of selectors that the API server adds for matchLabelKeys.
func unmerged(p *corev1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		if c := &p.Spec.TopologySpreadConstraints[i]; len(c.MatchLabelKeys) > 0 {
			c.MatchLabelKeys = nil
			anyVersion(c.LabelSelector)
		}
	}
}

// anyVersion removes from the selector the part that label keys have added.
func anyVersion(s *metav1.LabelSelector) {
	if s != nil {
		s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Key == versionLabel })
	}
}

func ablations() []ablation {
	claims := func(keep func(v corev1.Volume) bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return !keep(v) })
		}
	}
	return []ablation{
		{rule: "minDomains", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = nil })},
		{rule: "maxSkew", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.MaxSkew++ })},
		{rule: "nodeTaintsPolicy", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = nil })},
		{rule: "nodeAffinityPolicy", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = nil })},
		{rule: "matchLabelKeys of spread", pod: unmerged},
		{rule: "soft spread is soft", pod: spreads(func(c *corev1.TopologySpreadConstraint) {
			c.WhenUnsatisfiable = corev1.DoNotSchedule
			c.MinDomains = nil
		})},
		{rule: "selector of spread", pod: spreads(func(c *corev1.TopologySpreadConstraint) {
			if c.LabelSelector != nil {
				c.LabelSelector.MatchLabels, c.LabelSelector.MatchExpressions = nil, nil
			}
		})},
		{rule: "affinity", pod: func(p *corev1.Pod) {
			if p.Spec.Affinity != nil {
				p.Spec.Affinity.PodAffinity = nil
			}
		}},
		{rule: "anti-affinity of pods that wait", pod: func(p *corev1.Pod) {
			if p.Spec.Affinity != nil && p.Spec.NodeName == "" {
				p.Spec.Affinity.PodAntiAffinity = nil
			}
		}},
		{rule: "anti-affinity of running pods", pod: func(p *corev1.Pod) {
			if p.Spec.Affinity != nil && p.Spec.NodeName != "" {
				p.Spec.Affinity.PodAntiAffinity = nil
			}
		}},
		{rule: "namespaces of terms", pod: terms(func(t *corev1.PodAffinityTerm) { t.Namespaces = nil })},
		{rule: "namespaceSelector", pod: terms(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = nil })},
		{rule: "matchLabelKeys of terms", pod: terms(func(t *corev1.PodAffinityTerm) {
			if len(t.MatchLabelKeys) > 0 {
				t.MatchLabelKeys = nil
				anyVersion(t.LabelSelector)
			}
		})},
		{rule: "mismatchLabelKeys of terms", pod: terms(func(t *corev1.PodAffinityTerm) {
			if len(t.MismatchLabelKeys) > 0 {
				t.MismatchLabelKeys = nil
				anyVersion(t.LabelSelector)
			}
		})},
		{rule: "0.0.0.0 is every hostIP", pod: ports(func(c *corev1.ContainerPort) {
			if c.HostIP == "" || c.HostIP == "0.0.0.0" {
				c.HostIP = "10.0.0.9"
			}
		})},
		{rule: "hostIP", pod: ports(func(c *corev1.ContainerPort) { c.HostIP = "" })},
		{rule: "protocol of host ports", pod: ports(func(c *corev1.ContainerPort) { c.Protocol = corev1.ProtocolTCP })},
		{rule: "host ports of sidecars", pod: func(p *corev1.Pod) {
			for i := range p.Spec.InitContainers {
				p.Spec.InitContainers[i].Ports = nil
			}
		}},
		{rule: "ephemeral volumes", pod: claims(func(v corev1.Volume) bool { return v.Ephemeral == nil })},
		{rule: "several claims", pod: func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:min(1, len(p.Spec.Volumes))] }},
		{rule: "ReadWriteOncePod", cluster: func(s *engine.Snapshot) {
			for _, c := range s.PersistentVolumeClaims {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			}
		}},
		{rule: "allowedTopologies", cluster: func(s *engine.Snapshot) {
			for _, c := range s.StorageClasses {
				c.AllowedTopologies = nil
			}
		}},
		{rule: "labels of volumes", cluster: func(s *engine.Snapshot) {
			for _, pv := range s.PersistentVolumes {
				pv.Labels = nil
			}
		}},
		{rule: "affinity of volumes", cluster: func(s *engine.Snapshot) {
			for _, pv := range s.PersistentVolumes {
				pv.Spec.NodeAffinity = nil
			}
		}},
		{rule: "attach limits", cluster: func(s *engine.Snapshot) { s.CSINodes = nil }},
		{rule: "volumes that are attaching", cluster: func(s *engine.Snapshot) { s.VolumeAttachments = nil }},
		{rule: "matchFields", pod: func(p *corev1.Pod) {
			if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
					if len(t.MatchFields) > 0 {
						a.NodeAffinity = nil
						return
					}
				}
			}
		}},
		{rule: "pod-level resources", pod: func(p *corev1.Pod) { p.Spec.Resources = nil }},
		{rule: "overhead", pod: func(p *corev1.Pod) { p.Spec.Overhead = nil }},
		{rule: "sidecars", pod: func(p *corev1.Pod) {
			p.Spec.InitContainers = slices.DeleteFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy != nil })
		}},
		{rule: "init containers", pod: func(p *corev1.Pod) {
			p.Spec.InitContainers = slices.DeleteFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy == nil })
		}},
		{rule: "resize in place", pod: func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: p.Status.Phase} }},
		{rule: "declared features", pod: func(p *corev1.Pod) { p.Spec.Containers[0].RestartPolicyRules = nil }},
		{rule: "pod limit", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				n.Status.Allocatable[corev1.ResourcePods] = count(200)
			}
		}},
		{rule: "terminal pods", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		{rule: "terminating pods", pod: func(p *corev1.Pod) { p.DeletionTimestamp = nil }},
		{rule: "taints", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				n.Spec.Taints = nil
			}
		}},
		{rule: "effect of tolerations", pod: func(p *corev1.Pod) {
			for i := range p.Spec.Tolerations {
				p.Spec.Tolerations[i].Effect = ""
			}
		}},
		{rule: "value of tolerations", pod: func(p *corev1.Pod) {
			for i := range p.Spec.Tolerations {
				p.Spec.Tolerations[i].Operator, p.Spec.Tolerations[i].Value = corev1.TolerationOpExists, ""
			}
		}},
		{rule: "ephemeral storage", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				n.Status.Allocatable[corev1.ResourceEphemeralStorage] = mebi(1 << 20)
			}
		}},
	}
}

func deepCopy(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.Nodes, out.Pods = cloned(s.Nodes), cloned(s.Pods)
	out.PersistentVolumes, out.PersistentVolumeClaims, out.StorageClasses = cloned(s.PersistentVolumes), cloned(s.PersistentVolumeClaims), cloned(s.StorageClasses)
	return &out
}

func cloned[T interface{ DeepCopy() T }](list []T) []T {
	out := make([]T, len(list))
	for i, x := range list {
		out[i] = x.DeepCopy()
	}
	return out
}

// If no random cluster depends on a rule, the judge cannot notice that the engine breaks the rule. Each rule changes some answers of
// kube-scheduler: at least three times in the first 300 clusters. make test tries one rule in ten, make test-draws tries all.
func TestEveryRuleDecidesSomethingSoon(t *testing.T) {
	t.Parallel()
	const clusters, enough = 300, 3
	rules := ablations()
	for _, a := range rules[:enginetest.Draws(len(rules))] {
		t.Run(a.rule, func(t *testing.T) {
			t.Parallel()
			whole, part := open(t), open(t)
			decided, last := 0, uint64(0)
			for seed := uint64(1); seed <= clusters && decided < enough; seed++ {
				decided += a.decides(t, whole, part, seed)
				last = seed
			}
			t.Logf("decided %d by seed %d", decided, last)
			if decided < enough {
				t.Errorf("only %d verdicts differ without the rule", decided)
			}
		})
	}
}

// apply removes the rule from the cluster.
func (a ablation) apply(s *engine.Snapshot) {
	if a.cluster != nil {
		a.cluster(s)
	}
	if a.pod != nil {
		for _, p := range s.Pods {
			a.pod(p)
		}
	}
}

// decides counts the verdicts of a cluster that change without the rule. Both schedulers bind the same pods.
func (a ablation) decides(t *testing.T, whole, part *Scheduler, seed uint64) (differ int) {
	s := Draw(seed)
	addEmptyNodes(s)
	less := deepCopy(s)
	a.apply(less)
	if reflect.DeepEqual(s, less) {
		return 0
	}
	do(t, whole.Reset(s, nil))
	do(t, part.Reset(less, nil))
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	for i, p := range s.Pods {
		if !kube.IsPending(p) {
			continue
		}
		with, err := whole.Ask(p, names...)
		do(t, err)
		without, err := part.Ask(less.Pods[i], names...)
		do(t, err)
		home := ""
		for k, name := range names {
			if with[k].OK != without[k].OK {
				differ++
			}
			if with[k].OK && (home == "" || (i+k)%3 == 0) {
				home = name
			}
		}
		if home != "" {
			do(t, whole.Bind(p, home))
			do(t, part.Bind(less.Pods[i], home))
		}
	}
	return differ
}

// addEmptyNodes adds the nodes that launches would add.
func addEmptyNodes(s *engine.Snapshot) {
	for i := range 3 {
		kind := &s.Classes[0].InstanceTypes[i]
		n, csi := standIn(s.NodePools[0], &engine.Launch{Name: "new-" + kind.Name, NodePool: s.NodePools[0].Name}, kind, kind.Offerings[0])
		n.Labels[corev1.LabelHostname] = n.Name
		s.Nodes, s.CSINodes = append(s.Nodes, n), append(s.CSINodes, csi)
	}
}
