package oracle

import (
	"reflect"
	"sync/atomic"
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
// and the judge looks at the plan in the cluster as it is. ORACLE_FORGOTTEN says how many placements to look at, ORACLE_SEED
// where to begin; with fewer than 5,000 most rules, not all, have to be found.
func TestAnyRuleThatTheEngineForgetsIsFound(t *testing.T) {
	t.Parallel()
	most, first := number(t, "ORACLE_FORGOTTEN", 500), number(t, "ORACLE_SEED", 1)
	rules := forgettable()
	var missed atomic.Int32
	t.Run("rules", func(t *testing.T) {
		for _, a := range rules {
			t.Run(a.rule, func(t *testing.T) {
				t.Parallel()
				found, placements := a.isMissed(t, uint64(first), most)
				switch {
				case found != "":
					t.Logf("found after %d placements: %s", placements, found)
				case most < 5000:
					missed.Add(1)
					t.Logf("not found in %d placements", placements)
				default:
					t.Errorf("no plan for %d pods is found wrong without the rule", placements)
				}
			})
		}
	})
	if n := int(missed.Load()); n > len(rules)/3 {
		t.Errorf("%d of %d rules are not found in %d placements", n, len(rules), most)
	}
}

// isMissed looks for a plan that is wrong because the engine knows nothing of the rule, and says what is wrong with it, nothing
// if it finds none.
func (a ablation) isMissed(t *testing.T, seed uint64, most int) (found string, placements int) {
	scheduler := open(t)
	for ; placements < most; seed++ {
		whole := Draw(seed)
		part := deepCopy(whole)
		a.apply(part)
		plan := engine.Provision(part, options(seed), nil)
		if reflect.DeepEqual(whole, part) {
			placements += len(plan.Sequence)
			continue
		}
		j := &Judge{Scheduler: scheduler, Seed: seed, DefaultConstraints: Constraints(seed), Others: -1}
		report, err := j.Judge(whole, plan)
		placements += report.Placements
		if len(report.Disagreements) > 0 { // the scheduler may not be able to carry on with a wrong plan
			return report.Disagreements[0].String(), placements
		}
		do(t, err)
	}
	return "", placements
}
