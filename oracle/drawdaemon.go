package oracle

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// daemonSets makes up to three DaemonSets, with pods on most of their nodes.
func (d *drawing) daemonSets() {
	for i := range d.IntN(4) {
		set := d.daemonSet(fmt.Sprintf("daemon%d", i))
		d.s.DaemonSets = append(d.s.DaemonSets, set)
		for _, home := range d.hosts {
			if d.chance(5) {
				continue
			}
			p := daemonPod(set, d.s.LimitRanges, home.Name)
			p.ObjectMeta = d.meta(set.Namespace, set.Name+"-"+home.Name)
			p.Labels = set.Spec.Template.Labels
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
			p.Spec.NodeName = home.Name
			if !selects(p.Spec.NodeSelector, home.Labels) || !home.place(p) {
				continue
			}
			p.Status.Phase = corev1.PodRunning
			d.s.Pods = append(d.s.Pods, p)
		}
	}
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func (d *drawing) daemonSet(name string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: d.meta(d.namespace(), name)}
	labels := map[string]string{appLabel: name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
	if d.chance(2) {
		labels["part-of"] = pick(d, "front", "back")
	}
	set.Spec.Template.Labels = labels
	c := corev1.Container{Name: "main", Image: "example.com/daemon"}
	if d.chance(3) && set.Namespace == "shop" {
		c.Resources = corev1.ResourceRequirements{} // the LimitRange sets the requests
	} else {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: milli(20 * (1 + d.IntN(8))), corev1.ResourceMemory: mebi(32 * (1 + d.IntN(8)))}
	}
	spec := &set.Spec.Template.Spec
	spec.Containers = []corev1.Container{c}
	spec.Tolerations = pick(d, nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []corev1.Toleration{{Key: "example.com/starting", Operator: corev1.TolerationOpExists}})
	spec.NodeSelector = pick(d, nil, nil, map[string]string{corev1.LabelArchStable: v1.ArchitectureAMD64}, map[string]string{tierLabel: "gold"})
	if d.chance(3) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: pick(d, int32(8080), 9090, 9100), Protocol: corev1.ProtocolTCP}}
	}
	if d.chance(3) {
		spec.Priority = ptr.To(pick(d, int32(0), 100, 2000001000))
	}
	if d.chance(3) {
		d.daemonAffinity(name, spec)
	}
	return set
}

// daemonAffinity gives the DaemonSet's pods affinity or anti-affinity to other pods, as workloads have.
func (d *drawing) daemonAffinity(name string, spec *corev1.PodSpec) {
	a := &app{name: name}
	if d.chance(6) {
		d.affinity(a)
	} else {
		d.antiAffinity(a)
	}
	spec.Affinity = a.template.Affinity
}

// nominations nominates some waiting pods to a node where pods are ending, as a preemption does. For other waiting pods it records that a
// machine was started for them.
func (d *drawing) nominations() {
	for _, p := range d.s.Pods {
		if p.Spec.NodeName != "" || !isPlain(p) || !kube.IsPending(p) || !d.chance(8) {
			continue
		}
		if d.chance(2) && len(d.hosts) > 0 {
			home := pick(d, d.hosts...)
			if !home.Spec.Unschedulable && !home.leaving && len(home.Spec.Taints) == 0 && home.place(p) {
				p.Status.NominatedNodeName = home.Name
			}
			continue
		}
		d.plan(p)
	}
}

// isPlain reports whether the pod has no demands except room.
func isPlain(p *corev1.Pod) bool {
	return p.Spec.Affinity == nil && len(p.Spec.NodeSelector) == 0 && len(p.Spec.TopologySpreadConstraints) == 0 && len(p.Spec.Volumes) == 0 &&
		len(p.Spec.Containers[0].Ports) == 0 && len(p.Spec.InitContainers) == 0 && len(p.Spec.Containers[0].RestartPolicyRules) == 0 && len(p.Spec.ResourceClaims) == 0
}

// plan records on a claim without a ready machine that it was made for the pod, if the pod can run there beside the DaemonSets' pods.
func (d *drawing) plan(p *corev1.Pod) {
	need := kube.PodRequests(p)
	if !need.Name(gpu, "").IsZero() || !need.Name(accelerator, "").IsZero() {
		return
	}
	room := corev1.ResourceList{corev1.ResourceCPU: *need.Cpu(), corev1.ResourceMemory: *need.Memory()}
	for _, set := range d.s.DaemonSets {
		for name, q := range kube.PodRequests(daemonPod(set, d.s.LimitRanges, "")) {
			sum := room[name]
			sum.Add(q)
			room[name] = sum
		}
	}
	for _, c := range d.s.NodeClaims {
		cpu, memory := c.Status.Allocatable[corev1.ResourceCPU], c.Status.Allocatable[corev1.ResourceMemory]
		if v1.IsTrue(c, v1.ConditionInitialized) || len(c.Spec.Taints) > 0 || c.Annotations != nil ||
			room.Cpu().Cmp(cpu) > 0 || room.Memory().Cmp(memory) > 0 {
			continue
		}
		c.Annotations = map[string]string{kube.PlannedPodsAnnotation: string(p.UID)}
		return
	}
}
