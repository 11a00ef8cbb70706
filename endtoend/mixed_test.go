package endtoend_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// TestEveryPodOfAMixedClusterRuns runs 300 pods that want all that pods can want, and a DaemonSet. Machines whose pods
// have ended, or found room elsewhere, go.
func TestEveryPodOfAMixedClusterRuns(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.clearMixed)
	w.start()
	whenEmpty := func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidationPolicy = v1.WhenEmpty
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second)
	}
	w.pool("general", whenEmpty)
	w.pool("batch", func(p *v1.NodePool) {
		whenEmpty(p)
		p.Spec.Template.Labels = map[string]string{"team": "batch"}
		p.Spec.Template.Spec.Taints = []v1.Taint{{Key: "team", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
	})
	w.poolReady("general")
	w.poolReady("batch")
	w.provisionVolumes()
	never := corev1.PreemptNever // a pod that is preempted would be another pod afterwards
	w.must(w.Create(w, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000, PreemptionPolicy: &never}))
	claims := w.openLedger()
	pods := 0
	for _, o := range mixedWorkloads() {
		w.must(w.Create(w, o))
		pods += replicasOf(o)
	}
	if pods != 300 {
		t.Fatalf("there are %d pods in the mix", pods)
	}
	w.until(3*time.Minute, func() (bool, string) {
		done := 0
		for _, pod := range w.pods() {
			if pod.DeletionTimestamp == nil && pod.Labels["app"] != "agent" && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded) {
				done++
			}
		}
		return done == pods, fmt.Sprintf("%d of %d pods run, on %d nodes for %d claims\n%s", done, pods, len(w.nodes()), len(w.claims()), w.waiting(5))
	})
	w.until(time.Minute, func() (bool, string) {
		idle := w.idle()
		return len(idle) == 0 && len(w.nodes()) == len(w.claims()), fmt.Sprintf("%d claims, %d nodes, idle: %q", len(w.claims()), len(w.nodes()), idle)
	})
	tooSoon, displaced := claims.again(t)
	if len(tooSoon) > 0 {
		t.Errorf("machines were started twice for the same pods: %q", tooSoon)
	}
	t.Logf("%d machines were started, %d are left, %d of them for pods whose room others took", len(claims.all(t)), len(w.nodes()), len(displaced))
}

// mixedWorkloads are 300 pods and a DaemonSet.
func mixedWorkloads() []client.Object {
	zone, host := corev1.LabelTopologyZone, corev1.LabelHostname
	return []client.Object{
		agent(),
		mixed("zonal", 48, "250m", func(p *corev1.PodSpec) { spreads(p, "zonal", zone, 1, corev1.DoNotSchedule) }),
		mixed("hosts", 24, "500m", func(p *corev1.PodSpec) { spreads(p, "hosts", host, 2, corev1.DoNotSchedule) }),
		mixed("anyway", 20, "300m", func(p *corev1.PodSpec) { spreads(p, "anyway", zone, 1, corev1.ScheduleAnyway) }),
		mixed("apart", 10, "700m", func(p *corev1.PodSpec) { affinity(p).PodAntiAffinity = requiredApart("apart", host) }),
		mixed("cache", 6, "1", nil),
		mixed("front", 24, "200m", func(p *corev1.PodSpec) { affinity(p).PodAffinity = requiredNear("cache", zone) }),
		mixed("shy", 16, "400m", func(p *corev1.PodSpec) { affinity(p).PodAntiAffinity = preferredApart("shy", host) }),
		mixed("fond", 12, "300m", func(p *corev1.PodSpec) { affinity(p).PodAffinity = preferredNear("cache", host) }),
		mixed("pinned", 20, "350m", func(p *corev1.PodSpec) { affinity(p).NodeAffinity = requiredIn(zone, "test-zone-b") }),
		mixed("leaning", 12, "450m", func(p *corev1.PodSpec) { affinity(p).NodeAffinity = preferredIn(zone, "test-zone-c") }),
		mixed("batch", 30, "1500m", func(p *corev1.PodSpec) {
			p.NodeSelector = map[string]string{"team": "batch"}
			p.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpEqual, Value: "batch"}}
		}),
		mixed("ports", 8, "150m", func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		}),
		mixed("urgent", 20, "600m", func(p *corev1.PodSpec) { p.PriorityClassName = "urgent" }),
		mixed("plain", 25, "800m", nil),
		stateful("data", 10),
		job("report", 15),
	}
}

func replicasOf(o client.Object) int {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	case *batchv1.Job:
		return int(*o.Spec.Completions)
	}
	return 0
}

// template is that of pods which ask for so much cpu and twice as many GiB as cores.
func template(app, cpu string, change func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	memory := resource.MustParse(cpu)
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	t.Spec.TerminationGracePeriodSeconds = new(int64)
	t.Spec.Containers = []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: *resource.NewQuantity(memory.MilliValue()<<21, resource.BinarySI),
		},
	}}}
	if change != nil {
		change(&t.Spec)
	}
	return t
}

func inDefault(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}
}

func selectorOf(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func mixed(app string, replicas int32, cpu string, change func(*corev1.PodSpec)) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: inDefault(app), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: selectorOf(app), Template: template(app, cpu, change),
	}}
}

func agent() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: inDefault("agent"), Spec: appsv1.DaemonSetSpec{
		Selector: selectorOf("agent"),
		Template: template("agent", "100m", func(p *corev1.PodSpec) {
			p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}),
	}}
}

func job(name string, completions int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: inDefault(name), Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &completions,
		Template: template(name, "900m", func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyNever }),
	}}
}

// stateful is a StatefulSet whose pods each have a volume that is made where the pod goes.
func stateful(name string, replicas int32) *appsv1.StatefulSet {
	class := volumeClass
	volume := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.StorageClassName = &class
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return &appsv1.StatefulSet{ObjectMeta: inDefault(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: selectorOf(name), ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{volume},
		Template: template(name, "500m", func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
		}),
	}}
}

func affinity(p *corev1.PodSpec) *corev1.Affinity {
	if p.Affinity == nil {
		p.Affinity = &corev1.Affinity{}
	}
	return p.Affinity
}

func spreads(p *corev1.PodSpec, app, key string, skew int32, when corev1.UnsatisfiableConstraintAction) {
	p.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selectorOf(app),
	}}
}

func podTerm(app, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: selectorOf(app), TopologyKey: key}
}

func requiredNear(app, key string) *corev1.PodAffinity {
	return &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{podTerm(app, key)}}
}

func preferredNear(app, key string) *corev1.PodAffinity {
	return &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: podTerm(app, key)}}}
}

func requiredApart(app, key string) *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{podTerm(app, key)}}
}

func preferredApart(app, key string) *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: podTerm(app, key)}}}
}

func nodeTerm(key, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
}

func requiredIn(key, value string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{nodeTerm(key, value)}}}
}

func preferredIn(key, value string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 50, Preference: nodeTerm(key, value)}}}
}

// The storage class of the mix, whose volumes are made by the test, and the annotation by which kube-scheduler says where.
const (
	volumeClass  = "made-by-the-test"
	selectedNode = "volume.kubernetes.io/selected-node"
)

// provisionVolumes makes the class, and until the test ends a volume for each of its claims that has found a node, in the
// node's zone, as a storage driver does.
func (w *world) provisionVolumes() {
	w.Helper()
	later := storagev1.VolumeBindingWaitForFirstConsumer
	w.must(w.Create(w, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: volumeClass}, Provisioner: "test.tenon.sh/volumes", VolumeBindingMode: &later,
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{
			Key: corev1.LabelTopologyZone, Values: []string{"test-zone-a", "test-zone-b"},
		}}}},
	}))
	w.play("provision volumes", func() error { w.makeVolumes(); return nil })
}

// makeVolumes makes the volumes that are due; what fails is tried again by the next call.
func (w *world) makeVolumes() {
	var claims corev1.PersistentVolumeClaimList
	if w.List(w, &claims, client.InNamespace(metav1.NamespaceDefault)) != nil {
		return
	}
	for _, c := range claims.Items {
		node := &corev1.Node{}
		if c.Spec.VolumeName != "" || c.Annotations[selectedNode] == "" || w.Get(w, keyOf(c.Annotations[selectedNode]), node) != nil {
			continue
		}
		_ = w.Create(w, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "volume-" + string(c.UID)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: volumeClass,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/volumes/" + strconv.Quote(c.Name)}},
				ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					nodeTerm(corev1.LabelTopologyZone, node.Labels[corev1.LabelTopologyZone]),
				}}},
			},
		})
	}
}

// clearMixed removes what clear does not know of.
func (w *world) clearMixed() {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	for _, kind := range []client.Object{&appsv1.DaemonSet{}, &appsv1.StatefulSet{}, &batchv1.Job{}} {
		w.must(w.DeleteAllOf(w, kind, client.InNamespace(metav1.NamespaceDefault), background))
	}
	w.until(time.Minute, func() (bool, string) {
		n := 0
		for _, pod := range w.pods() {
			if app := pod.Labels["app"]; app == "agent" || app == "data" || app == "report" {
				n++
			}
		}
		return n == 0, fmt.Sprintf("%d pods are left", n)
	})
	w.must(w.DeleteAllOf(w, &corev1.PersistentVolumeClaim{}, client.InNamespace(metav1.NamespaceDefault)))
	w.must(w.DeleteAllOf(w, &corev1.PersistentVolume{}))
	w.must(w.DeleteAllOf(w, &storagev1.StorageClass{}))
	w.must(client.IgnoreNotFound(w.Delete(w, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}})))
}
