package oracle

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// forgettable are the rules that an engine might forget: those that decide something for kube-scheduler by themselves, and
// those about machines that it does not know yet.
func forgettable() []ablation {
	return append(ablations(), []ablation{
		{rule: "node selectors", pod: func(p *corev1.Pod) { p.Spec.NodeSelector = nil }},
		{rule: "node affinity", pod: func(p *corev1.Pod) {
			if p.Spec.Affinity != nil {
				p.Spec.Affinity.NodeAffinity = nil
			}
		}},
		{rule: "spread", pod: func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }},
		{rule: "soft spread", pod: spreads(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })},
		{rule: "host ports", pod: ports(func(c *corev1.ContainerPort) { c.HostPort = 0 })},
		{rule: "volumes", pod: func(p *corev1.Pod) { p.Spec.Volumes = nil }},
		{rule: "cordons", cluster: func(s *engine.Snapshot) {
			for _, n := range s.Nodes {
				if n.Spec.Unschedulable {
					n.Spec.Unschedulable, n.Spec.Taints = false, nil
				}
			}
		}},
		{rule: "volumes wait for their first pod", cluster: func(s *engine.Snapshot) {
			now := storagev1.VolumeBindingImmediate
			for _, c := range s.StorageClasses {
				c.VolumeBindingMode = &now
			}
		}},
		{rule: "claims without a volume are shared", cluster: apartClaims},
		{rule: "attach limits of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.AttachLimits = nil })
		}},
		{rule: "pod limit of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) {
				t.Capacity = t.Capacity.DeepCopy()
				t.Capacity[corev1.ResourcePods] = count(200)
			})
		}},
		{rule: "overhead of new machines", cluster: func(s *engine.Snapshot) {
			eachType(s, func(t *engine.InstanceType) { t.Overhead = nil })
		}},
		{rule: "taints of pools", cluster: func(s *engine.Snapshot) {
			s.NodePools = cloned(s.NodePools)
			for _, p := range s.NodePools {
				p.Spec.Template.Spec.Taints = nil
			}
		}},
		{rule: "start-up taints go", cluster: func(s *engine.Snapshot) {
			s.NodeClaims = cloned(s.NodeClaims)
			for _, c := range s.NodeClaims {
				c.Spec.StartupTaints = nil
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
		{rule: "labels of namespaces", cluster: func(s *engine.Snapshot) { s.Namespaces = nil }},
	}...)
}

// apartClaims gives each waiting pod a copy of the claims that it shares.
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

func eachType(s *engine.Snapshot, change func(t *engine.InstanceType)) {
	class := s.Classes[0]
	class.InstanceTypes = append([]engine.InstanceType(nil), class.InstanceTypes...)
	for i := range class.InstanceTypes {
		change(&class.InstanceTypes[i])
	}
	s.Classes = []engine.Class{class}
}

// An engine that does not know a rule plans what kube-scheduler does not accept, or refuses what it would. The judge finds
// that within 5,000 placements, whichever rule it is: the engine plans for a cluster from which the rule has been taken out,
// and the judge looks at the plan in the cluster as it is.
func TestAnyRuleThatTheEngineForgetsIsFound(t *testing.T) {
	t.Parallel()
	most := number(t, "ORACLE_FORGOTTEN", 5000)
	for _, a := range forgettable() {
		t.Run(a.rule, func(t *testing.T) {
			t.Parallel()
			scheduler := open(t)
			placements := 0
			for seed := uint64(number(t, "ORACLE_SEED", 1)); placements < most; seed++ {
				whole := Draw(seed)
				part := deepCopy(whole)
				a.apply(part)
				constraints := Constraints(seed)
				plan := engine.Provision(part, engine.Options{DefaultConstraints: constraints}, nil)
				if reflect.DeepEqual(whole, part) {
					placements += len(plan.Sequence)
					continue
				}
				j := &Judge{Scheduler: scheduler, Seed: seed, DefaultConstraints: constraints, Others: -1}
				report, err := j.Judge(whole, plan)
				placements += report.Placements
				if len(report.Disagreements) > 0 { // the scheduler may not be able to carry on with a wrong plan
					t.Logf("found after %d placements: %s", placements, report.Disagreements[0])
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("no plan for %d pods is found wrong without the rule", placements)
		})
	}
}
