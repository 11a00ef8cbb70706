package oracle

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// forgettable returns the rules that an engine might lack: rules that change answers of kube-scheduler by themselves, rules about future
// machines, and rules about offerings.
func forgettable() []ablation {
	return slices.Concat(ablations(), rulesOfPods(), rulesOfPreferences(), rulesOfVolumes(), rulesOfNodes(), rulesOfStartingNodes(),
		rulesOfMachines(), rulesOfPurchases())
}

func rulesOfPods() []ablation {
	return []ablation{
		{rule: "node selectors", pod: func(p *corev1.Pod) { p.Spec.NodeSelector = nil }},
		{rule: "node affinity", pod: func(p *corev1.Pod) {
			if p.Spec.Affinity != nil {
				p.Spec.Affinity.NodeAffinity = nil
			}
		}},
		{rule: "terms of node affinity are alternatives", pod: nodeTerms(func(terms []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
			return terms[:1]
		})},
		{rule: "numbers in node affinity", pod: nodeTerms(without(corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt))},
		{rule: "exceptions in node affinity", pod: nodeTerms(without(corev1.NodeSelectorOpNotIn))},
		{rule: "labels that have to be there, or not", pod: nodeTerms(without(corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist))},
		{rule: "spread", pod: func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }},
		{rule: "soft spread", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })},
		{rule: "default spread constraints", options: func(o *engine.Options) { o.DefaultConstraints = nil }},
		{rule: "default constraints count what a service selects", cluster: func(s *engine.Snapshot) { s.Services = nil }},
		{rule: "default constraints count what an owner selects", cluster: func(s *engine.Snapshot) { s.ReplicaSets, s.StatefulSets = nil, nil }},
		{rule: "labels of namespaces", cluster: func(s *engine.Snapshot) { s.Namespaces = nil }},
		{rule: "host ports", pod: ports(func(c *corev1.ContainerPort) { c.HostPort = 0 })},
		{rule: "devices that are claimed", pod: func(p *corev1.Pod) { p.Spec.ResourceClaims = nil }},
		{rule: "devices of a class under the name of a resource", cluster: func(s *engine.Snapshot) { s.DeviceClasses = nil }},
	}
}

// nodeTerms changes the pods' requirements for their node.
func nodeTerms(change func([]corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			s := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			s.NodeSelectorTerms = change(s.NodeSelectorTerms)
		}
	}
}

// without makes each expression with one of the operators admit all nodes.
func without(operators ...corev1.NodeSelectorOperator) func([]corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	return func(terms []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
		for i := range terms {
			for j := range terms[i].MatchExpressions {
				if e := &terms[i].MatchExpressions[j]; slices.Contains(operators, e.Operator) {
					*e = corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"none"}}
				}
			}
		}
		return terms
	}
}

// rulesOfPreferences returns rules in which a preference would become a requirement.
func rulesOfPreferences() []ablation {
	all := func(weighted []corev1.WeightedPodAffinityTerm) (out []corev1.PodAffinityTerm) {
		for _, w := range weighted {
			out = append(out, w.PodAffinityTerm)
		}
		return out
	}
	return []ablation{
		{rule: "preferred node affinity is preferred", pod: func(p *corev1.Pod) {
			if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
				for _, preferred := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					requireNodes(a, preferred.Preference)
				}
			}
		}},
		{rule: "preferred affinity is preferred", pod: func(p *corev1.Pod) {
			if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
				a := a.PodAffinity
				a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
					all(a.PreferredDuringSchedulingIgnoredDuringExecution)...)
			}
		}},
		{rule: "preferred anti-affinity is preferred", pod: func(p *corev1.Pod) {
			if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
				a := a.PodAntiAffinity
				a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
					all(a.PreferredDuringSchedulingIgnoredDuringExecution)...)
			}
		}},
		{rule: "PreferNoSchedule is a preference", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				for i := range n.Spec.Taints {
					if n.Spec.Taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
						n.Spec.Taints[i].Effect = corev1.TaintEffectNoSchedule
					}
				}
			}
		}},
	}
}

func rulesOfVolumes() []ablation {
	return []ablation{
		{rule: "volumes", pod: func(p *corev1.Pod) { p.Spec.Volumes = nil }},
		{rule: "volumes of running pods", pod: func(p *corev1.Pod) {
			if p.Spec.NodeName != "" {
				p.Spec.Volumes = nil
			}
		}},
		{rule: "volumes wait for their first pod", cluster: func(s *engine.Snapshot) {
			now := storagev1.VolumeBindingImmediate
			for _, c := range s.StorageClasses {
				c.VolumeBindingMode = &now
			}
		}},
		{rule: "classes without a provisioner", cluster: func(s *engine.Snapshot) {
			for _, c := range s.StorageClasses {
				if c.Name == localClass {
					c.Provisioner = fileDriver
				}
			}
		}},
		{rule: "volumes that nobody has claimed", cluster: func(s *engine.Snapshot) {
			s.PersistentVolumes = slices.DeleteFunc(s.PersistentVolumes, func(pv *corev1.PersistentVolume) bool {
				return pv.Spec.ClaimRef == nil && pv.Spec.StorageClassName == localClass
			})
		}},
		{rule: "claims without a volume are shared", cluster: apartClaims},
		{rule: "claims that are going", cluster: func(s *engine.Snapshot) {
			for _, c := range s.PersistentVolumeClaims {
				c.DeletionTimestamp = nil
			}
		}},
		{rule: "claims that have lost their volume", cluster: func(s *engine.Snapshot) {
			for _, c := range s.PersistentVolumeClaims {
				if c.Status.Phase == corev1.ClaimLost {
					c.Spec.VolumeName, c.Status.Phase, c.Annotations = "", corev1.ClaimPending, nil
				}
			}
		}},
	}
}

// apartClaims gives each waiting pod its own copies of the shared claims.
func apartClaims(s *engine.Snapshot) {
	for _, p := range s.Pods {
		for i := range p.Spec.Volumes {
			named := p.Spec.Volumes[i].PersistentVolumeClaim
			if named == nil || p.Spec.NodeName != "" {
				continue
			}
			for _, c := range s.PersistentVolumeClaims {
				if c.Namespace == p.Namespace && c.Name == named.ClaimName && c.Spec.VolumeName == "" {
					c = c.DeepCopy()
					c.Name += "-of-" + p.Name
					named.ClaimName = c.Name
					s.PersistentVolumeClaims = append(s.PersistentVolumeClaims, c)
					break
				}
			}
		}
	}
}

func rulesOfNodes() []ablation {
	return []ablation{
		{rule: "cordons", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				if n.Spec.Unschedulable {
					n.Spec.Unschedulable, n.Spec.Taints = false, nil
				}
			}
		}},
		{rule: "nodes that leave", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, n := range s.Nodes {
				n.DeletionTimestamp = nil
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
			}
			for _, c := range s.NodeClaims {
				c.DeletionTimestamp = nil
			}
		}},
		{rule: "devices of nodes", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				n.Status.Allocatable[gpu] = count(8)
			}
		}},
		{rule: "room that running pods take", pod: func(p *corev1.Pod) {
			if p.Spec.NodeName != "" {
				p.Spec.Resources, p.Spec.Overhead, p.Status = nil, nil, corev1.PodStatus{Phase: p.Status.Phase}
				for _, c := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
					for i := range c {
						c[i].Resources = corev1.ResourceRequirements{}
					}
				}
			}
		}},
		{rule: "labels of running pods", pod: func(p *corev1.Pod) {
			if p.Spec.NodeName != "" {
				p.Labels = nil
			}
		}},
		{rule: "nominations", pod: func(p *corev1.Pod) { p.Status.NominatedNodeName = "" }},
		{rule: "features of nodes", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				n.Status.DeclaredFeatures = []string{restartFeature}
			}
		}},
	}
}

func rulesOfStartingNodes() []ablation {
	return []ablation{
		{rule: "start-up taints go", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				c.Spec.StartupTaints = nil
			}
		}},
		{rule: "taints of nodes that start", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				c.Spec.Taints = nil
			}
		}},
		{rule: "machines that start", cluster: func(s *engine.Snapshot) {
			var there []*v1.NodeClaim
			for _, c := range s.NodeClaims {
				if c.Status.NodeName != "" {
					there = append(there, c)
				}
			}
			s.NodeClaims = there
		}},
		{rule: "labels of nodes that start", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				if n.Labels[v1.RegisteredLabelKey] == "" {
					delete(n.Labels, rackLabel)
				}
			}
		}},
		{rule: "devices that are not reported yet", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				delete(c.Status.Allocatable, gpu)
			}
		}},
		{rule: "zones of machines that are not launched", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				for i := range c.Spec.Requirements {
					if q := &c.Spec.Requirements[i]; len(c.Status.Capacity) == 0 && q.Key == corev1.LabelTopologyZone && q.Operator == v1.In {
						q.Values = q.Values[:1]
					}
				}
			}
		}},
	}
}

func rulesOfMachines() []ablation {
	return []ablation{
		{rule: "attach limits of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.AttachLimits = nil })
		}},
		{rule: "pod limit of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.Capacity[corev1.ResourcePods] = count(200) })
		}},
		{rule: "devices of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.Capacity[gpu] = count(8) })
		}},
		{rule: "ephemeral storage of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.Capacity[corev1.ResourceEphemeralStorage] = mebi(1 << 20) })
		}},
		{rule: "overhead of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.Overhead = nil })
		}},
		{rule: "DaemonSets", cluster: func(s *engine.Snapshot) { s.DaemonSets = nil }},
		{rule: "DaemonSets wait until start-up taints are gone", cluster: func(s *engine.Snapshot) {
			s.DaemonSets = slices.DeleteFunc(cloned(s.DaemonSets), func(set *appsv1.DaemonSet) bool { return len(set.Spec.Template.Spec.Tolerations) == 0 })
		}},
		{rule: "DaemonSets run on some machines only", cluster: func(s *engine.Snapshot) {
			s.DaemonSets = slices.DeleteFunc(cloned(s.DaemonSets), func(set *appsv1.DaemonSet) bool { return len(set.Spec.Template.Spec.NodeSelector) > 0 })
		}},
		{rule: "ports of DaemonSets", cluster: func(s *engine.Snapshot) {
			s.DaemonSets = cloned(s.DaemonSets)
			for _, set := range s.DaemonSets {
				set.Spec.Template.Spec.Containers[0].Ports = nil
			}
			for _, p := range s.Pods {
				if kube.OwnedByDaemonSet(p) {
					p.Spec.Containers[0].Ports = nil
				}
			}
		}},
		{rule: "LimitRanges", cluster: func(s *engine.Snapshot) {
			s.LimitRanges = nil
			for _, p := range s.Pods { // a running pod shows the requests of the next one
				p.OwnerReferences = slices.DeleteFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
			}
		}},
		{rule: "taints of pools", cluster: func(s *engine.Snapshot) {
			eachPool(s, func(p *v1.NodePool) { p.Spec.Template.Spec.Taints = nil })
		}},
		{rule: "labels of pools", cluster: func(s *engine.Snapshot) {
			eachPool(s, func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{tierLabel: "gold"} })
		}},
	}
}

// rulesOfPurchases returns the rules of clouds and pools, which kube-scheduler does not know.
func rulesOfPurchases() []ablation {
	return []ablation{
		{rule: "requirements of pools", cluster: func(s *engine.Snapshot) {
			eachPool(s, func(p *v1.NodePool) { p.Spec.Template.Spec.Requirements = nil })
		}},
		{rule: "limits", cluster: func(s *engine.Snapshot) { eachPool(s, func(p *v1.NodePool) { p.Spec.Limits = nil }) }},
		{rule: "machines that there are count against limits", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				c.Labels[v1.NodePoolLabelKey] = "another"
			}
		}},
		{rule: "minValues", cluster: func(s *engine.Snapshot) {
			eachPool(s, func(p *v1.NodePool) {
				for i := range p.Spec.Template.Spec.Requirements {
					p.Spec.Template.Spec.Requirements[i].MinValues = nil
				}
			})
		}},
		{rule: "slots of reservations", cluster: func(s *engine.Snapshot) {
			eachOffering(s, func(o *engine.Offering) { o.Slots = 9 })
		}},
		{rule: "what is sold out", cluster: func(s *engine.Snapshot) {
			eachOffering(s, func(o *engine.Offering) { o.SoldOut = false })
		}},
	}
}

func eachPool(s *engine.Snapshot, change func(p *v1.NodePool)) {
	s.NodePools = cloned(s.NodePools)
	for _, p := range s.NodePools {
		change(p)
	}
}

func eachType(s *engine.Snapshot, change func(t *engine.InstanceType)) {
	class := s.Classes[0]
	class.InstanceTypes = slices.Clone(class.InstanceTypes)
	for i := range class.InstanceTypes {
		t := &class.InstanceTypes[i]
		t.Capacity, t.Offerings = t.Capacity.DeepCopy(), slices.Clone(t.Offerings)
		change(t)
	}
	s.Classes = []engine.Class{class}
}

func eachOffering(s *engine.Snapshot, change func(o *engine.Offering)) {
	eachType(s, func(t *engine.InstanceType) {
		for i := range t.Offerings {
			change(&t.Offerings[i])
		}
	})
}
