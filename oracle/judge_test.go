package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// A trial is a handmade cluster with a plan for it.
type trial struct {
	*engine.Snapshot
	plan engine.Plan
}

// newTrial returns a trial with two nodes, a pool and a class with the types small and large, in two zones each.
func newTrial() *trial {
	x := &trial{Snapshot: &engine.Snapshot{Nodes: []*corev1.Node{nodeIn("a", "zone-a"), nodeIn("b", "zone-b")}}}
	ref := classReference()
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &ref
	x.NodePools = []*v1.NodePool{pool}
	class := engine.Class{Ref: ref}
	for i, name := range []string{"small", "large"} {
		t := engine.InstanceType{Name: name, Capacity: corev1.ResourceList{corev1.ResourceCPU: count(2 + 6*i), corev1.ResourceMemory: mebi(8192), corev1.ResourcePods: count(9)}}
		for _, zone := range []string{"zone-a", "zone-b"} {
			t.Offerings = append(t.Offerings, engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: 1})
		}
		class.InstanceTypes = append(class.InstanceTypes, t)
	}
	x.Classes = []engine.Class{class}
	return x
}

// waits adds a waiting pod.
func (x *trial) waits(pod *corev1.Pod) *corev1.Pod {
	x.Pods = append(x.Pods, pod)
	return pod
}

// place plans the pod on an existing node.
func (x *trial) place(pod *corev1.Pod, node string) {
	x.plan.Placements = append(x.plan.Placements, engine.Placement{Pod: idOf(pod), Node: node})
	x.plan.Sequence = append(x.plan.Sequence, idOf(pod))
}

// launch plans a machine for the pods. Each offering is "type/zone".
func (x *trial) launch(name string, offerings []string, pods ...*corev1.Pod) {
	l := engine.Launch{Name: name, NodePool: "general"}
	for _, text := range offerings {
		kind, zone, _ := strings.Cut(text, "/")
		l.Offerings = append(l.Offerings, engine.LaunchOffering{OfferingID: engine.OfferingID{InstanceType: kind, Zone: zone, CapacityType: v1.CapacityTypeOnDemand}, Price: 1})
	}
	for _, pod := range pods {
		l.Pods = append(l.Pods, idOf(pod))
		x.plan.Sequence = append(x.plan.Sequence, idOf(pod))
	}
	x.plan.Launches = append(x.plan.Launches, l)
}

// refuse makes the plan refuse the pod.
func (x *trial) refuse(pod *corev1.Pod) {
	x.NodePools[0].Spec.Limits = v1.Limits{v1.ResourceNodes: count(9)} // the limits may be the reason not to buy a machine
	x.plan.Unplaced = append(x.plan.Unplaced, engine.Unplaced{Pod: idOf(pod), Reasons: []engine.Reason{{Code: engine.NotEnoughResources}}})
}

// fill leaves so much cpu free on both nodes.
func (x *trial) fill(milliCPU int) {
	for _, node := range []string{"a", "b"} {
		x.Pods = append(x.Pods, running(cores(podOf("full-"+node), 4000-milliCPU), node))
	}
}

// claim adds a NodeClaim of the pool for an offering "type/zone". It is launched, or only requested if there is no zone.
func (x *trial) claim(name, offering string) *v1.NodeClaim {
	kind, zone, launched := strings.Cut(offering, "/")
	ref := classReference()
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.NodePoolLabelKey: "general"}}}
	c.Spec.NodeClassRef = &ref
	c.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{kind}}}
	if launched {
		c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone] = kind, zone
		c.Status.ProviderID = "kwok://" + name
		c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: count(2), corev1.ResourceMemory: mebi(4096), corev1.ResourcePods: count(9)}
	}
	x.NodeClaims = append(x.NodeClaims, c)
	return c
}

func inZone(pod *corev1.Pod, zone string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	return pod
}

func cores(pod *corev1.Pod, milliCPU int) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: milli(milliCPU)}
	return pod
}

// near adds a required affinity to a pod of the app.
func near(pod *corev1.Pod, app string) *corev1.Pod {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}}},
	}}}
	return pod
}

// A judgement is a trial with the expected report: disagreements as "world pod node plugin", causes as "cause".
type judgement struct {
	rule  string
	build func(x *trial)
	want  []string
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(judgementsOfPlacements(), judgementsOfPurchases(), judgementsOfRefusals()) {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			x := newTrial()
			c.build(x)
			j := &Judge{Scheduler: open(t), Others: -1}
			report, err := j.Judge(x.Snapshot, &x.plan)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range report.Disagreements {
				if newReplay(j, x.Snapshot, &x.plan).isMixed(d.World) {
					continue // this check is random
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", d.World, d.Pod.Name, d.Node, d.Plugin)))
			}
			for cause, n := range report.Excused {
				for range n {
					got = append(got, cause)
				}
			}
			if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func judgementsOfPlacements() []judgement {
	return []judgement{
		{"a right plan passes", func(x *trial) {
			x.fill(1500)
			x.place(x.waits(podOf("p")), "a")
			x.place(x.waits(podOf("o")), "b")
			x.launch("general-1", []string{"small/zone-a", "large/zone-b"}, x.waits(podOf("q")))
		}, nil},
		{"a full node is found", func(x *trial) {
			x.place(x.waits(cores(podOf("p"), 3000)), "a")
			x.place(x.waits(cores(podOf("q"), 3000)), "a")
		}, []string{"0 q a NodeResourcesFit"}},
		{"each zone of a launch is tried", func(x *trial) {
			x.fill(0)
			x.launch("general-1", []string{"small/zone-a", "small/zone-b"}, x.waits(inZone(podOf("p"), "zone-a")))
		}, []string{"1 p planned-general-1 NodeAffinity"}},
		{"the smallest type of a launch is tried", func(x *trial) {
			x.fill(0)
			x.launch("general-1", []string{"large/zone-a", "small/zone-a"}, x.waits(cores(podOf("p"), 3000)))
		}, []string{"0 p planned-general-1 NodeResourcesFit"}},
		{"an offering that nobody sells is found", func(x *trial) {
			x.fill(0)
			x.launch("general-1", []string{"small/zone-a", "huge/zone-a"}, x.waits(podOf("p")))
		}, []string{"0  general-1 Predict", "0  planned-general-1 Offering"}},
		{"order matters", func(x *trial) {
			p, q := x.waits(near(podOf("p"), "q")), x.waits(podOf("q"))
			x.place(p, "a")
			x.place(q, "a")
		}, []string{"0 p a InterPodAffinity"}},
		{"the right order passes", func(x *trial) {
			p, q := x.waits(near(podOf("p"), "q")), x.waits(podOf("q"))
			x.place(q, "a")
			x.place(p, "a")
		}, nil},
		{"machines of later placements are there from the start", func(x *trial) {
			p, q := x.waits(podOf("p")), x.waits(podOf("q"))
			x.launch("general-1", []string{"small/zone-c"}, q)
			x.Classes[0].InstanceTypes[0].Offerings[0].Zone, x.Classes[0].InstanceTypes[1].Offerings[0].Zone = "zone-c", "zone-c"
			p.Labels[appLabel] = "q"
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: "q"}},
			}}
			x.Pods = append(x.Pods, running(cores(podOf("old"), 2500), "a"), running(cores(podOf("older"), 3500), "b"))
			x.Pods[2].Labels[appLabel], x.Pods[3].Labels[appLabel] = "q", "q"
			x.plan.Sequence = nil
			x.place(p, "a")
			x.plan.Sequence = append(x.plan.Sequence, idOf(q))
		}, []string{"0 p a PodTopologySpread"}},
		{"a machine without a node is a target", func(x *trial) {
			x.claim("soon", "small/zone-a")
			x.place(x.waits(inZone(podOf("p"), "zone-a")), "soon")
			x.place(x.waits(cores(podOf("q"), 1500)), "soon")
		}, []string{"0 q soon NodeResourcesFit"}},
		{"a claim without a machine may become any of its offerings", func(x *trial) {
			x.claim("later", "small")
			x.place(x.waits(inZone(podOf("p"), "zone-b")), "later")
		}, []string{"0 p later NodeAffinity"}},
		{"a node that is starting is what it will be", func(x *trial) {
			c := x.claim("a", "small/zone-a")
			c.Spec.StartupTaints = []v1.Taint{{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}}
			x.Nodes[0].Spec.ProviderID = c.Status.ProviderID
			x.Nodes[0].Spec.Taints = []corev1.Taint{notReady(corev1.TaintEffectNoSchedule), {Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}}
			x.Nodes[0].Status.Allocatable = nil
			x.place(x.waits(podOf("p")), "a")
			x.place(x.waits(cores(podOf("q"), 1500)), "a")
		}, []string{"0 q a NodeResourcesFit"}},
		{"the pods of a leaving node move", func(x *trial) {
			x.Nodes[0].DeletionTimestamp = ptr.To(metav1.NewTime(x.Now))
			claimOf(x.Snapshot, "own", corev1.ReadWriteOncePod)
			boundTo(x.Snapshot, x.PersistentVolumeClaims[0])
			x.place(x.waits(running(with(podOf("p"), "own"), "a")), "b")
		}, nil},
		{"pods that end make room for one that is nominated", func(x *trial) {
			victim := x.waits(running(cores(podOf("victim"), 4000), "a"))
			victim.DeletionTimestamp = ptr.To(metav1.NewTime(x.Now))
			p := x.waits(podOf("p"))
			p.Status.NominatedNodeName = "a"
			x.place(p, "a")
		}, nil},
		{"a nominated pod runs where it is nominated to, if it can", func(x *trial) {
			p, q := x.waits(podOf("p")), x.waits(cores(podOf("q"), 4000))
			p.Status.NominatedNodeName, q.Status.NominatedNodeName = "b", "b"
			x.place(p, "a")
			x.place(x.waits(podOf("other")), "b")
			x.launch("general-1", []string{"large/zone-a"}, q)
		}, []string{"0 p a Nomination"}},
		{"DaemonSets come first to a new machine", func(x *trial) {
			x.DaemonSets = []*appsv1.DaemonSet{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zonal"}},
			}
			x.DaemonSets[0].Spec.Template.Spec = cores(podOf("d"), 500).Spec
			x.DaemonSets[1].Spec.Template.Spec = cores(podOf("large"), 5000).Spec
			x.DaemonSets[2].Spec.Template.Spec = inZone(cores(podOf("zonal"), 500), "zone-b").Spec
			x.fill(600)
			x.launch("general-1", []string{"small/zone-a", "small/zone-b"}, x.waits(podOf("p")), x.waits(cores(podOf("q"), 500)))
			x.launch("general-2", []string{"small/zone-a"}, x.waits(cores(podOf("r"), 1600)))
		}, []string{"0 r planned-general-2 NodeResourcesFit", "1 q planned-general-1 NodeResourcesFit", "1 r planned-general-2 NodeResourcesFit"}},
		{"what is placed has to be in the sequence, and the other way round", func(x *trial) {
			p, q := x.waits(podOf("p")), x.waits(podOf("q"))
			x.place(p, "a")
			x.plan.Sequence = []engine.PodID{idOf(q)}
		}, []string{"0 p a Sequence", "0 q  Sequence"}},
		{"pods and nodes that there are not", func(x *trial) {
			x.place(podOf("p"), "a")
			x.place(x.waits(podOf("q")), "nowhere")
		}, []string{"0 p a Snapshot", "0 q nowhere Snapshot"}},
	}
}

// The engine's opinion of nodes that it did not choose must agree with kube-scheduler.
func TestAnOpinionIsHeldAgainstTheScheduler(t *testing.T) {
	t.Parallel()
	x := newTrial()
	x.Pods = append(x.Pods, running(cores(podOf("full"), 4000), "b"))
	x.place(x.waits(podOf("p")), "a")
	j := &Judge{Scheduler: open(t), Others: 20}
	for _, c := range []struct {
		opinion engine.Reason
		want    int
	}{{engine.Reason{Code: engine.NotEnoughResources}, 0}, {engine.Reason{}, 1}} {
		j.Opinion = func(_ *engine.Snapshot, _ *engine.Plan, first int, pod engine.PodID, node string) engine.Reason {
			if first != 0 || pod.Name != "p" || node != "b" {
				t.Errorf("asked about %s on %s after %d", pod, node, first)
			}
			return c.opinion
		}
		report, err := j.Judge(x.Snapshot, &x.plan)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Disagreements) != c.want {
			t.Errorf("with the opinion %q: %s", c.opinion.Code, report)
		}
	}
}
