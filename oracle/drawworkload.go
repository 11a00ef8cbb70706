package oracle

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

const (
	appLabel     = "app"
	versionLabel = "version" // differs within a workload that is being rolled out
)

// mostWaiting is the largest number of waiting pods in a cluster.
const mostWaiting = 40

// An app is a workload: pods of one kind. Some of them run and some wait.
type app struct {
	name, namespace string
	labels          map[string]string
	owner           string
	template        corev1.PodSpec
	volumes         []*volumePlan
	waiting         int
}

// workloads makes all workloads before the first pod, because they refer to each other.
func (d *drawing) workloads() {
	for left := 5 + d.IntN(mostWaiting-4); left > 0; {
		a := d.app(fmt.Sprintf("app%d", len(d.apps)))
		a.waiting = min(left, 1+d.IntN(8))
		left -= a.waiting
		d.apps = append(d.apps, a)
	}
	for _, a := range d.apps {
		d.owner(a)
		for range d.IntN(5) {
			d.running(a)
		}
		for i := range a.waiting {
			d.waiting(a, i)
		}
	}
}

func (d *drawing) app(name string) *app {
	a := &app{name: name, namespace: d.namespace(), owner: pick(d, "ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "")}
	a.labels = map[string]string{appLabel: name, "part-of": pick(d, "front", "back")}
	a.template = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers:    []corev1.Container{{Name: "main", Image: "example.com/main", Resources: d.requests()}},
		// The API server adds these to each pod.
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
		},
	}
	if d.chance(2) {
		a.template.Tolerations = append(a.template.Tolerations, pick(d,
			corev1.Toleration{Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: "example.com/team", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "example.com/team", Operator: corev1.TolerationOpEqual, Value: pick(d, "t1", "t2", "t3")},
			corev1.Toleration{Key: "example.com/team", Operator: corev1.TolerationOpEqual, Value: pick(d, "t1", "t2"), Effect: corev1.TaintEffectNoSchedule}))
	}
	if d.devices && d.chance(5) {
		requests := a.template.Containers[0].Resources.Requests
		requests[gpu] = count(1)
		a.template.Containers[0].Resources.Limits = corev1.ResourceList{gpu: count(1)}
		a.template.Tolerations = append(a.template.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		return a
	}
	if d.chance(4) {
		return a // it has no demands except room
	}
	for range 1 + d.IntN(3) {
		d.feature(a)
	}
	return a
}

func (d *drawing) requests() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    milli(pick(d, 50, 100, 250, 500, 900, 1500)),
		corev1.ResourceMemory: mebi(pick(d, 64, 128, 512, 1024, 3000)),
	}}
}

// The themes are families of features. A cluster without a theme has features of all families.
const (
	themeSpread = iota
	themeAntiAffinity
	themeVolumes
	themePorts
	themeNodes
	themeShape
	themeAffinity
	themeFeatures
	themeNone
	themes
)

// feature adds one feature to the workload that limits the nodes of its pods.
func (d *drawing) feature(a *app) {
	theme := d.theme
	if theme == themeNone || d.chance(2) {
		theme = pick(d, themeSpread, themeSpread, themeSpread, themeAntiAffinity, themeAntiAffinity, themeVolumes, themeVolumes, themeVolumes,
			themePorts, themePorts, themeNodes, themeNodes, themeShape, themeShape, themeAffinity, themeAffinity, themeFeatures)
	}
	spec := &a.template
	switch theme {
	case themeSpread:
		d.spread(a)
	case themeAntiAffinity:
		d.antiAffinity(a)
	case themeAffinity:
		d.affinity(a)
	case themeVolumes:
		if len(a.volumes) == 0 {
			for range 1 + d.IntN(3) {
				a.volumes = append(a.volumes, d.volumePlan())
			}
		}
	case themePorts:
		d.hostPort(spec)
	case themeNodes:
		d.nodeAffinity(spec)
	case themeShape:
		d.shape(spec)
	case themeFeatures:
		if d.chance(4) {
			spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To("nobody-has-made-it")}}
			return
		}
		spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
	}
}

// shape adds a container, or requests of other resources than cpu and memory.
func (d *drawing) shape(spec *corev1.PodSpec) {
	switch d.IntN(10) {
	case 0:
		if len(spec.InitContainers) == 0 {
			large := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(pick(d, 500, 2000, 3000)), corev1.ResourceMemory: mebi(2048)}}
			spec.InitContainers = []corev1.Container{{Name: "init", Image: "example.com/init", Resources: large}}
		}
	case 1:
		if len(spec.InitContainers) == 0 {
			spec.InitContainers = []corev1.Container{d.sidecar()}
		}
	case 2:
		if len(spec.Containers) == 1 {
			spec.Containers = append(spec.Containers, corev1.Container{Name: "second", Image: "example.com/second", Resources: d.requests()})
		}
	case 3:
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: milli(400), corev1.ResourceMemory: mebi(512)}
	case 4:
		// The sum of the containers' requests must not exceed these amounts.
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(pick(d, 3000, 3500)), corev1.ResourceMemory: mebi(6200)}}
	case 5, 9:
		device := gpu
		if d.chance(2) && len(d.s.DeviceClasses) > 0 {
			device = accelerator
		}
		spec.Containers[0].Resources.Requests[device] = count(1)
		spec.Containers[0].Resources.Limits = corev1.ResourceList{device: count(1)}
	case 6, 8:
		spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = mebi(1024 * pick(d, 4, 9, 15))
	case 7:
		spec.Priority = ptr.To(pick(d, int32(-10), 1000, 1_000_000))
	}
}

func (d *drawing) sidecar() corev1.Container {
	return corev1.Container{Name: "sidecar", Image: "example.com/sidecar", Resources: d.requests(), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
}

// hostPort adds a host port, on all addresses or on one, to a container or a sidecar.
func (d *drawing) hostPort(spec *corev1.PodSpec) {
	port := corev1.ContainerPort{
		ContainerPort: 80, HostPort: pick(d, int32(8080), 8080, 8080, 9090), Protocol: pick(d, corev1.ProtocolTCP, corev1.ProtocolUDP),
		HostIP: pick(d, "", "0.0.0.0", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"),
	}
	if len(spec.Containers[0].Ports) > 0 {
		return
	}
	if d.chance(2) && len(spec.NodeSelector) == 0 { // so that the pods meet other pods with the same port
		spec.NodeSelector = map[string]string{corev1.LabelHostname: pick(d, "node0", "node1", "node2")}
	}
	if d.chance(3) && len(spec.InitContainers) == 0 {
		spec.InitContainers = []corev1.Container{d.sidecar()}
		spec.InitContainers[0].Ports = []corev1.ContainerPort{port}
		return
	}
	spec.Containers[0].Ports = []corev1.ContainerPort{port}
}

// owner makes objects that select the workload's pods, because default spread constraints count the selected pods.
func (d *drawing) owner(a *app) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}}
	switch a.owner {
	case "ReplicaSet":
		rs := &appsv1.ReplicaSet{ObjectMeta: d.meta(a.namespace, a.name)}
		rs.Spec.Selector = selector
		d.s.ReplicaSets = append(d.s.ReplicaSets, rs)
	case "StatefulSet":
		set := &appsv1.StatefulSet{ObjectMeta: d.meta(a.namespace, a.name)}
		set.Spec.Selector = selector
		d.s.StatefulSets = append(d.s.StatefulSets, set)
	}
	if d.chance(3) {
		service := &corev1.Service{ObjectMeta: d.meta(a.namespace, a.name)}
		service.Spec.Selector = map[string]string{"part-of": a.labels["part-of"]}
		d.s.Services = append(d.s.Services, service)
	}
}

// pod returns the next pod of the workload as the API server stores it, without its volumes.
func (d *drawing) pod(a *app, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: d.meta(a.namespace, name), Spec: *a.template.DeepCopy()}
	p.Labels = map[string]string{versionLabel: pick(d, "1", "2")}
	for key, value := range a.labels {
		p.Labels[key] = value
	}
	if a.owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: a.owner, Name: a.name, UID: d.meta(a.namespace, a.name).UID, Controller: ptr.To(true)}}
	}
	mergeLabelKeys(p)
	return p
}

// running binds a pod of the workload to a node with room. Constraints are ignored, because labels, taints and constraints may change while pods
// run.
func (d *drawing) running(a *app) {
	if len(d.hosts) == 0 {
		return
	}
	home := pick(d, d.hosts...)
	p := d.pod(a, d.name(a.name))
	d.resize(p)
	alone := slices.ContainsFunc(a.volumes, func(v *volumePlan) bool { return v.shared && v.mode == corev1.ReadWriteOncePod && !v.unused })
	if alone || !home.place(p) {
		return
	}
	p.Spec.NodeName = home.Name
	for _, v := range a.volumes {
		d.mount(p, v, home)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	switch {
	case d.chance(6):
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(d.s.Now)), ptr.To[int64](30)
	case d.chance(20):
		p.Status.Phase = corev1.PodSucceeded
	case d.chance(20):
		p.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	}
	d.s.Pods = append(d.s.Pods, p)
}

// resize makes some pods larger than their spec, because their kubelet has not completed a resize.
func (d *drawing) resize(p *corev1.Pod) {
	if !d.chance(10) {
		return
	}
	has := corev1.ResourceList{corev1.ResourceCPU: milli(1600), corev1.ResourceMemory: mebi(3200)}
	if p.Spec.Resources != nil {
		p.Status.AllocatedResources, p.Status.Resources = has, &corev1.ResourceRequirements{Requests: has}
		return
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, AllocatedResources: has, Resources: &corev1.ResourceRequirements{Requests: has},
	}}
}

// waiting adds a pod for which kube-scheduler has found no node.
func (d *drawing) waiting(a *app, i int) {
	p := d.pod(a, fmt.Sprintf("%s-wait-%d", a.name, i))
	for _, v := range a.volumes {
		d.mount(p, v, nil)
	}
	p.Status.Phase = corev1.PodPending
	reason := corev1.PodReasonUnschedulable
	if d.chance(50) {
		p.Spec.SchedulingGates, reason = []corev1.PodSchedulingGate{{Name: "example.com/later"}}, corev1.PodReasonSchedulingGated
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	d.s.Pods = append(d.s.Pods, p)
}

// replicas adds, in some clusters, small workloads without demands except room. All replicas of one workload may be planned for the same
// machine, and change places with replicas of another. Some machines refuse some of the workloads. kube-scheduler has not tried some pods yet,
// but has tried another replica.
func (d *drawing) replicas(seed uint64) {
	dice := newDrawing(seed, 2)
	if dice.IntN(3) > 0 {
		return
	}
	before := d.Rand
	d.Rand = dice.Rand
	defer func() { d.Rand = before }()
	left := mostWaiting
	for _, a := range d.apps {
		left -= a.waiting
	}
	sizes := []corev1.ResourceRequirements{d.requests(), d.requests()}
	for range 3 + d.IntN(4) {
		a := &app{name: d.name("replicas"), namespace: "default", owner: pick(d, "ReplicaSet", "ReplicaSet", "StatefulSet")}
		a.labels = map[string]string{appLabel: a.name, "part-of": "replicas"}
		a.template = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/main", Resources: *pick(d, &sizes[0], &sizes[1]).DeepCopy()}},
		}
		switch d.IntN(6) {
		case 0:
			a.template.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case 1:
			a.template.NodeSelector = map[string]string{corev1.LabelTopologyZone: pick(d, d.zones...)}
		case 2:
			requireNodes(affinityOf(&a.template), matching(corev1.LabelArchStable, corev1.NodeSelectorOpIn, v1.ArchitectureAMD64))
		case 3:
			a.template.Overhead = corev1.ResourceList{corev1.ResourceCPU: milli(200), corev1.ResourceMemory: mebi(128)}
		}
		d.apps = append(d.apps, a)
		d.owner(a)
		a.waiting = min(left, 2+d.IntN(3))
		left -= a.waiting
		for i := range a.waiting {
			d.waiting(a, i)
			pod := d.s.Pods[len(d.s.Pods)-1]
			pod.Labels[versionLabel] = "1"
			if i > 0 && len(pod.Spec.SchedulingGates) == 0 && d.chance(3) {
				pod.Status.Conditions = nil
			}
		}
	}
}

func affinityOf(spec *corev1.PodSpec) *corev1.Affinity {
	spec.Affinity = &corev1.Affinity{}
	return spec.Affinity
}
