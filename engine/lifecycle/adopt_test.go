package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func TestMachinesThatRunPodsAreAdopted(t *testing.T) {
	t.Parallel()
	class := v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	pool := func(name string, change ...func(*v1.NodePool)) *v1.NodePool {
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
		p.Spec.Template.Spec.NodeClassRef = &class
		p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{"on-demand"}}}
		p.Spec.Template.Spec.StartupTaints = []v1.Taint{{Key: "booting", Effect: corev1.TaintEffectNoExecute}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	tainted := func(p *v1.NodePool) {
		p.Spec.Template.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	web := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
	daemon := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}}}}}
	tests := []struct {
		name    string
		machine func(*engine.Machine)
		node    func(*corev1.Node)
		pods    []*corev1.Pod
		pools   []*v1.NodePool
		want    string // pool
	}{
		{name: "pods run on it", pods: web, pools: []*v1.NodePool{pool("general")}, want: "general"},
		{name: "only those of DaemonSets", pods: daemon, pools: []*v1.NodePool{pool("general")}},
		{name: "it is to go", machine: func(m *engine.Machine) { m.Leaving = true }, pods: web, pools: []*v1.NodePool{pool("general")}},
		{name: "its node is to go", node: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: enginetest.LifeStart} }, pods: web, pools: []*v1.NodePool{pool("general")}},
		{name: "the heaviest pool", pods: web, want: "heavy", pools: []*v1.NodePool{pool("a"), pool("heavy", func(p *v1.NodePool) { p.Spec.Weight = ptr.To[int32](10) })}},
		{name: "no pool of another class", pods: web, pools: []*v1.NodePool{pool("general", func(p *v1.NodePool) {
			p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: "other"}
		})}},
		{name: "no pool that counts its nodes", pods: web, pools: []*v1.NodePool{pool("general", func(p *v1.NodePool) { p.Spec.Replicas = ptr.To[int64](3) })}},
		{name: "no pool that is to go", pods: web, pools: []*v1.NodePool{pool("general", func(p *v1.NodePool) { p.DeletionTimestamp = &metav1.Time{Time: enginetest.LifeStart} })}},
		{name: "no pool that is retired", pods: web, pools: []*v1.NodePool{pool("general", func(p *v1.NodePool) { p.Annotations = map[string]string{v1.RetireAnnotationKey: "true"} })}},
		{name: "no pool that requires something else", machine: func(m *engine.Machine) { m.Labels[v1.CapacityTypeLabelKey] = "spot" }, pods: web, pools: []*v1.NodePool{pool("general")}},
		{name: "no pool whose taints its pods have not met", pods: web, pools: []*v1.NodePool{pool("gpu", tainted)}},
		{name: "a pool whose taints the node has", pods: web, want: "gpu", pools: []*v1.NodePool{pool("gpu", tainted)}, node: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := engine.Machine{
				ID:          "sim://2",
				Labels:      map[string]string{corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "on-demand"},
				Annotations: map[string]string{"machine": "it"},
			}
			if tt.machine != nil {
				tt.machine(&m)
			}
			node := enginetest.LifeNode(enginetest.LifeOpen)
			if tt.node != nil {
				tt.node(node)
			}
			claim := Adopt(m, class, node, tt.pods, tt.pools)
			if tt.want == "" {
				if claim != nil {
					t.Errorf("adopted by pool %s", claim.Labels[v1.NodePoolLabelKey])
				}
				return
			}
			if claim == nil || claim.Labels[v1.NodePoolLabelKey] != tt.want {
				t.Fatalf("adopted: %+v, want one of pool %s", claim, tt.want)
			}
			if again := Adopt(m, class, node, tt.pods, tt.pools); again.Name != claim.Name || claim.Name == "" {
				t.Errorf("named %q and then %q: it would be adopted twice", claim.Name, again.Name)
			}
			if claim.Annotations["machine"] != "it" || len(claim.Spec.StartupTaints) > 0 || len(claim.Finalizers) == 0 {
				t.Errorf("claim %+v: want the machine's annotations, a finalizer and no startup taints", claim)
			}
			for _, r := range claim.Spec.Requirements {
				if len(r.Values) != 1 || r.Values[0] != m.Labels[r.Key] {
					t.Errorf("requirement %+v, want the machine's own value", r)
				}
			}
		})
	}
}
