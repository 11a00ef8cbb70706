package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// A feature that a kubelet of this version declares and that a pod can require.
const restartFeature = "RestartAllContainersOnContainerExits"

// A drawnNode is a node that can run pods, with its free resources.
type drawnNode struct {
	*corev1.Node
	cpu, memory, pods int64
	ports             []corev1.ContainerPort
	leaving           bool
}

// The stages of a machine's life.
const (
	stageReady = iota
	stageCordoned
	stageNotReady
	stageLeaving
	stageUninitialized
	stageUnregistered
	stageLaunched // a claim with a machine and no node yet
	stageAsked    // a claim without a machine
)

// nodes draws 3 to 12 machines.
func (d *drawing) nodes() {
	for i := range 3 + d.IntN(10) {
		name := fmt.Sprintf("node%d", i)
		if d.chance(6) {
			d.unmanaged(name)
			continue
		}
		d.managed(name, pick(d, stageReady, stageReady, stageReady, stageReady, stageReady, stageReady, stageReady, stageCordoned,
			stageNotReady, stageLeaving, stageLeaving, stageUninitialized, stageUnregistered, stageUnregistered, stageLaunched, stageAsked))
	}
}

// unmanaged makes a node without a pool.
func (d *drawing) unmanaged(name string) {
	n := d.node(name)
	if !d.chance(4) {
		n.Labels[corev1.LabelTopologyZone] = pick(d, d.zones...)
	}
	cpu := pick(d, 2, 4, 8)
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: count(cpu), corev1.ResourceMemory: mebi(cpu * 4096), corev1.ResourcePods: count(pick(d, 5, 20)),
		corev1.ResourceEphemeralStorage: mebi(10 * 1024),
	}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	d.csiNode(n, map[string]int{diskDriver: pick(d, 1, 3)})
	d.settle(n, stageReady)
}

func (d *drawing) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: d.meta("", name)}
	n.Labels = map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: v1.ArchitectureAMD64, corev1.LabelOSStable: string(corev1.Linux),
	}
	if d.chance(2) {
		n.Labels[rackLabel] = pick(d, "r1", "r2")
	}
	if d.chance(2) {
		n.Status.DeclaredFeatures = []string{restartFeature}
	}
	return n
}

func (d *drawing) managed(name string, stage int) {
	pool, t, o := d.machine()
	for tries := 0; stage == stageUninitialized && t.Capacity[gpu] == (resource.Quantity{}) && tries < 20; tries++ {
		pool, t, o = d.machine() // resources that are not reported yet matter most
	}
	claim := d.claim(name, pool, t, o, stage)
	d.s.NodeClaims = append(d.s.NodeClaims, claim)
	if stage >= stageLaunched {
		return
	}
	n := d.node(name)
	n.Spec.ProviderID = claim.Status.ProviderID
	n.Finalizers = []string{v1.TerminationFinalizer}
	n.Status.Capacity, n.Status.Allocatable = t.Capacity.DeepCopy(), t.Allocatable()
	maps.Copy(n.Labels, map[string]string{corev1.LabelTopologyZone: o.Zone, corev1.LabelInstanceTypeStable: t.Name, corev1.LabelArchStable: t.Labels[corev1.LabelArchStable][0]})
	if stage == stageUnregistered {
		n.Spec.Taints = append(n.Spec.Taints, v1.UnregisteredTaint(), notReady(corev1.TaintEffectNoSchedule))
		d.s.Nodes = append(d.s.Nodes, n)
		return
	}
	maps.Copy(n.Labels, claim.Labels)
	n.Labels[v1.RegisteredLabelKey] = "true"
	n.Spec.Taints = v1.CoreTaints(pool.Spec.Template.Spec.Taints)
	if stage == stageUninitialized {
		n.Spec.Taints = append(n.Spec.Taints, v1.CoreTaints(pool.Spec.Template.Spec.StartupTaints)...)
		n.Spec.Taints = append(n.Spec.Taints, notReady(corev1.TaintEffectNoSchedule))
		if _, ok := n.Status.Allocatable[gpu]; ok {
			n.Status.Allocatable[gpu] = count(0) // its plugin has not started
			d.devices = true
		}
		d.s.Nodes = append(d.s.Nodes, n)
		return
	}
	n.Labels[v1.InitializedLabelKey] = "true"
	d.csiNode(n, t.AttachLimits)
	d.settle(n, stage)
}

func notReady(effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: effect}
}

// settle completes a node that has been ready before.
func (d *drawing) settle(n *corev1.Node, stage int) {
	ready := corev1.ConditionTrue
	switch stage {
	case stageCordoned:
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	case stageNotReady:
		ready = corev1.ConditionFalse
		n.Spec.Taints = append(n.Spec.Taints, notReady(corev1.TaintEffectNoSchedule), notReady(corev1.TaintEffectNoExecute))
	case stageReady:
		if d.chance(4) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/team", Value: "t1", Effect: corev1.TaintEffectNoSchedule})
		}
	case stageLeaving:
		n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
		n.DeletionTimestamp = ptr.To(metav1.NewTime(d.s.Now))
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	d.s.Nodes = append(d.s.Nodes, n)
	d.hosts = append(d.hosts, &drawnNode{
		Node: n, cpu: n.Status.Allocatable.Cpu().MilliValue(), memory: n.Status.Allocatable.Memory().Value() >> 20,
		pods: n.Status.Allocatable.Pods().Value(), leaving: stage == stageLeaving,
	})
}

// claim returns the NodeClaim of a machine in that stage.
func (d *drawing) claim(name string, p *v1.NodePool, t *engine.InstanceType, o engine.Offering, stage int) *v1.NodeClaim {
	template := &p.Spec.Template
	c := &v1.NodeClaim{ObjectMeta: d.meta("", name)}
	c.Finalizers = []string{v1.TerminationFinalizer}
	c.Spec = v1.NodeClaimSpec{
		Taints: template.Spec.Taints, StartupTaints: template.Spec.StartupTaints, NodeClassRef: template.Spec.NodeClassRef,
		Requirements: append(slices.Clone(template.Spec.Requirements),
			v1.Requirement{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{t.Name}}),
	}
	if stage == stageAsked {
		c.Labels = maps.Clone(template.Labels)
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[v1.NodePoolLabelKey] = p.Name
		c.Labels[template.Spec.NodeClassRef.LabelKey()] = template.Spec.NodeClassRef.Name
		zones := []string{o.Zone}
		for _, other := range t.Offerings {
			if other.CapacityType == o.CapacityType && !other.SoldOut && !slices.Contains(zones, other.Zone) && d.chance(2) {
				zones = append(zones, other.Zone)
			}
		}
		c.Spec.Requirements = append(slices.DeleteFunc(c.Spec.Requirements, func(r v1.Requirement) bool {
			return r.Key == corev1.LabelTopologyZone || r.Key == v1.CapacityTypeLabelKey
		}),
			v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: zones},
			v1.Requirement{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{o.CapacityType}})
		v1.InitializeConditions(c, d.s.Now)
		return c
	}
	c.Labels = machineLabels(p, t, o)
	c.Status.ProviderID = "kwok://" + name
	c.Status.Capacity, c.Status.Allocatable = t.Capacity.DeepCopy(), t.Allocatable()
	conditions := []string{v1.ConditionLaunched}
	if stage <= stageUninitialized {
		conditions = append(conditions, v1.ConditionRegistered)
		c.Status.NodeName = name
	}
	if stage <= stageLeaving {
		conditions = append(conditions, v1.ConditionInitialized)
	}
	for _, condition := range conditions {
		v1.SetCondition(c, condition, metav1.ConditionTrue, "", "", d.s.Now)
	}
	if stage == stageLeaving {
		c.DeletionTimestamp = ptr.To(metav1.NewTime(d.s.Now))
	}
	return c
}

// csiNode makes the CSINode with the node's drivers and their attach limits. It attaches some volumes to the node that no pod uses, as before
// the first or after the last pod of a volume.
func (d *drawing) csiNode(n *corev1.Node, limits map[string]int) {
	c := &storagev1.CSINode{ObjectMeta: d.meta("", n.Name)}
	disk := storagev1.CSINodeDriver{Name: diskDriver, NodeID: n.Name, TopologyKeys: []string{corev1.LabelTopologyZone}}
	if limit, ok := limits[diskDriver]; ok {
		disk.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(limit))}
	} else if d.chance(4) { // a limit that the catalog does not have
		disk.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(pick[int32](d, 1, 2, 4))}
	}
	// The judge creates all volumes in the zone of their first pod, including volumes of this driver.
	file := storagev1.CSINodeDriver{Name: fileDriver, NodeID: n.Name, TopologyKeys: []string{corev1.LabelTopologyZone}}
	if n.Labels[corev1.LabelTopologyZone] == "" { // the zone of a volume that is created here would be unknown
		disk.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To[int32](0)}
		file.Allocatable = disk.Allocatable
	}
	c.Spec.Drivers = []storagev1.CSINodeDriver{disk, file}
	d.s.CSINodes = append(d.s.CSINodes, c)
	for d.chance(2) {
		pv := d.name("detaching")
		d.s.PersistentVolumes = append(d.s.PersistentVolumes, d.volume(pv, diskDriver, "", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}))
		va := &storagev1.VolumeAttachment{ObjectMeta: d.meta("", "attach-"+pv)}
		va.Spec = storagev1.VolumeAttachmentSpec{Attacher: diskDriver, NodeName: n.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}
		va.Status.Attached = d.chance(2)
		d.s.VolumeAttachments = append(d.s.VolumeAttachments, va)
	}
}

// place reserves room on the node for a running pod, if there is enough and its ports are free.
func (n *drawnNode) place(pod *corev1.Pod) bool {
	need := kube.PodRequests(pod)
	cpu, memory := need.Cpu().MilliValue(), (need.Memory().Value()+1<<20-1)>>20
	var ports []corev1.ContainerPort
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		ports = append(ports, c.Ports...)
	}
	for _, p := range ports {
		if p.HostPort > 0 && slices.ContainsFunc(n.ports, func(o corev1.ContainerPort) bool {
			return o.HostPort == p.HostPort && o.Protocol == p.Protocol && meetIP(o.HostIP, p.HostIP)
		}) {
			return false
		}
	}
	if cpu > n.cpu || memory > n.memory || n.pods < 1 || !need.Name(gpu, "").IsZero() || !need.Name(accelerator, "").IsZero() {
		return false
	}
	n.cpu, n.memory, n.pods = n.cpu-cpu, n.memory-memory, n.pods-1
	n.ports = append(n.ports, ports...)
	return true
}

// meetIP reports whether equal ports on these two addresses conflict.
func meetIP(a, b string) bool {
	return a == b || a == "" || b == "" || a == "0.0.0.0" || b == "0.0.0.0"
}
