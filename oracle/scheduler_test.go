package oracle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
)

// Two nodes differ only in their zones. The rule excludes the first node for the pod, and not the second.
func TestEachPluginRefusesWhatItIsFor(t *testing.T) {
	t.Parallel()
	byApp := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
	}
	antiTo := func(name string) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelTopologyZone, LabelSelector: byApp(name)},
		}}}
	}
	port := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	rbd := corev1.Volume{Name: "rbd", VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDPool: "p", RBDImage: "i"}}}
	cases := []struct {
		name, plugin string
		change       func(s *engine.Snapshot, pod *corev1.Pod)
	}{
		{"a cordoned node", "NodeUnschedulable", func(s *engine.Snapshot, _ *corev1.Pod) { s.Nodes[0].Spec.Unschedulable = true }},
		{"a taint", "TaintToleration", func(s *engine.Snapshot, _ *corev1.Pod) {
			s.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{"a node selector", "NodeAffinity", func(_ *engine.Snapshot, pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-b"}
		}},
		{"a node's name", "NodeAffinity", func(_ *engine.Snapshot, pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}},
				}}},
			}}}
		}},
		{"a host port", "NodePorts", func(s *engine.Snapshot, pod *corev1.Pod) {
			s.Pods[0].Spec.Containers[0].Ports, pod.Spec.Containers[0].Ports = port, port
		}},
		{"room", "NodeResourcesFit", func(s *engine.Snapshot, _ *corev1.Pod) {
			s.Pods[0].Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: milli(3001)}
		}},
		{"a disk for one node", "VolumeRestrictions", func(s *engine.Snapshot, pod *corev1.Pod) {
			s.Pods[0].Spec.Volumes, pod.Spec.Volumes = []corev1.Volume{rbd}, []corev1.Volume{rbd}
		}},
		{"attach limits", "NodeVolumeLimits", func(s *engine.Snapshot, pod *corev1.Pod) {
			boundTo(s, claimOf(s, "one", corev1.ReadWriteOnce))
			boundTo(s, claimOf(s, "two", corev1.ReadWriteOnce))
			with(s.Pods[0], "one")
			with(pod, "two")
			driver := storagev1.CSINodeDriver{Name: diskDriver, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](1)}}
			for _, name := range []string{"a", "b"} {
				s.CSINodes = append(s.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}})
			}
		}},
		{"a volume's affinity", "VolumeBinding", func(s *engine.Snapshot, pod *corev1.Pod) {
			affine(boundTo(s, claimOf(s, "one", corev1.ReadWriteOnce)), corev1.LabelTopologyZone, "zone-b")
			with(pod, "one")
		}},
		{"a volume's labels", "VolumeZone", func(s *engine.Snapshot, pod *corev1.Pod) {
			boundTo(s, claimOf(s, "one", corev1.ReadWriteOnce)).Labels = map[string]string{corev1.LabelTopologyZone: "zone-b"}
			with(pod, "one")
		}},
		{"a class's topologies", "VolumeBinding", func(s *engine.Snapshot, pod *corev1.Pod) {
			claimOf(s, "one", corev1.ReadWriteOnce)
			s.StorageClasses[0].AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: corev1.LabelTopologyZone, Values: []string{"zone-b"}},
			}}}
			with(pod, "one")
		}},
		{"spread", "PodTopologySpread", func(_ *engine.Snapshot, pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: byApp("old")},
			}
			pod.Labels[appLabel] = "old"
		}},
		{"anti-affinity", "InterPodAffinity", func(_ *engine.Snapshot, pod *corev1.Pod) { pod.Spec.Affinity = antiTo("old") }},
		{"anti-affinity of a running pod", "InterPodAffinity", func(s *engine.Snapshot, _ *corev1.Pod) { s.Pods[0].Spec.Affinity = antiTo("new") }},
		{"affinity", "InterPodAffinity", func(s *engine.Snapshot, pod *corev1.Pod) {
			s.Pods = append(s.Pods, running(podOf("friend"), "b"))
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: byApp("friend")},
			}}}
		}},
		{"declared features", "NodeDeclaredFeatures", func(s *engine.Snapshot, pod *corev1.Pod) {
			s.Nodes[1].Status.DeclaredFeatures = []string{restartFeature}
			pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scheduler := open(t)
			pod := podOf("new")
			s := &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}, Pods: []*corev1.Pod{running(podOf("old"), "a")}}
			check(t, scheduler, s, pod, "", "")
			c.change(s, pod)
			check(t, scheduler, s, pod, c.plugin, "")
		})
	}
}

// check resets the scheduler and asks about the nodes a and b. It returns the plugin that refuses each, if any.
func check(t *testing.T, scheduler *Scheduler, s *engine.Snapshot, pod *corev1.Pod, a, b string) {
	t.Helper()
	if err := scheduler.Reset(s, nil); err != nil {
		t.Fatal(err)
	}
	expect(t, scheduler, pod, a, b)
}

func expect(t *testing.T, scheduler *Scheduler, pod *corev1.Pod, a, b string) {
	t.Helper()
	verdicts, err := scheduler.Ask(pod, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{a, b} {
		if v := verdicts[i]; v.Plugin != want || v.OK != (want == "") || v.OK != (v.Message == "") {
			t.Errorf("pod %s: %+v, want plugin %q", pod.Name, v, want)
		}
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstPodOfAClaimDecidesItsZone(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	s := &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}}
	claimOf(s, "shared", corev1.ReadWriteMany)
	first, second := with(podOf("first"), "shared"), with(podOf("second"), "shared")
	check(t, scheduler, s, first, "", "")
	do(t, scheduler.Bind(first, "b"))
	expect(t, scheduler, second, "VolumeBinding", "")
	do(t, scheduler.Unbind(first))
	expect(t, scheduler, second, "VolumeBinding", "")
	do(t, scheduler.AddNode(nodeIn("a", "zone-b"), nil))
	expect(t, scheduler, second, "", "")
	do(t, scheduler.Again(nil))
	expect(t, scheduler, second, "", "")
}

func TestAClaimForOnePodServesOneAtATime(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	s := &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-a")}}
	claimOf(s, "own", corev1.ReadWriteOncePod)
	first, second := with(podOf("first"), "own"), with(podOf("second"), "own")
	check(t, scheduler, s, first, "", "")
	do(t, scheduler.Bind(first, "b"))
	expect(t, scheduler, second, "VolumeRestrictions", "VolumeRestrictions")
	do(t, scheduler.Unbind(first))
	expect(t, scheduler, second, "", "")
}

func TestAVolumeThatExistsIsTakenBeforeANewOneIsMade(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	s := &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}}
	claimOf(s, "one", corev1.ReadWriteMany)
	claimOf(s, "two", corev1.ReadWriteMany)
	s.StorageClasses[0].Provisioner = "kubernetes.io/no-provisioner"
	pv := newDrawing(0, 0).volume("only", "", diskClass, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany})
	pv.Status.Phase = corev1.VolumeAvailable
	affine(pv, corev1.LabelTopologyZone, "zone-a")
	s.PersistentVolumes = append(s.PersistentVolumes, pv)
	first, second := with(podOf("first"), "one"), with(podOf("second"), "two")
	check(t, scheduler, s, first, "", "VolumeBinding")
	do(t, scheduler.Bind(first, "a"))
	expect(t, scheduler, second, "VolumeBinding", "VolumeBinding")
}

func TestDefaultConstraintsHoldForPodsWithoutTheirOwn(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	s := &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}, Pods: []*corev1.Pod{running(podOf("web"), "a")}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	service.Spec.Selector = map[string]string{appLabel: "web"}
	s.Services = []*corev1.Service{service}
	pod := podOf("web-2")
	pod.Labels[appLabel] = "web"
	check(t, scheduler, s, pod, "", "")
	do(t, scheduler.Reset(s, []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
	}))
	expect(t, scheduler, pod, "PodTopologySpread", "")
}

func TestPodsThatAreHeldBackAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	pod := podOf("later")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	check(t, scheduler, &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-a")}}, pod, "SchedulingGates", "SchedulingGates")
}

func TestWhatCannotBeAnsweredIsAnErrorAndNotTheEnd(t *testing.T) {
	t.Parallel()
	scheduler := open(t)
	if _, err := scheduler.Ask(podOf("p"), "a"); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("ask before the first reset: %v", err)
	}
	do(t, scheduler.Reset(&engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}}, nil))
	if _, err := scheduler.Ask(podOf("p"), "a", "nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("ask about an unknown node: %v", err)
	}
	if err := scheduler.Bind(podOf("p"), "nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("bind to an unknown node: %v", err)
	}
	if err := scheduler.Unbind(podOf("p")); err == nil || !strings.Contains(err.Error(), "runs nowhere") {
		t.Errorf("unbind a pod that waits: %v", err)
	}
	expect(t, scheduler, podOf("p"), "", "")
}
