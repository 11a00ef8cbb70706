package oracle

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

func judgementsOfPurchases() []judgement {
	buy := func(x *trial, offerings ...string) {
		x.fill(0)
		x.launch("general-1", offerings, x.waits(podOf("p")))
	}
	return []judgement{
		{"what the pool may buy passes", func(x *trial) {
			x.NodePools[0].Spec.Limits = v1.Limits{v1.ResourceNodes: count(1), corev1.ResourceCPU: count(8)}
			buy(x, "small/zone-a", "large/zone-a")
		}, nil},
		{"what is sold out cannot be bought", func(x *trial) {
			x.Classes[0].InstanceTypes[0].Offerings[0].SoldOut = true
			buy(x, "small/zone-a")
		}, []string{"0  planned-general-1 Offering"}},
		{"what the pool does not permit cannot be bought", func(x *trial) {
			x.NodePools[0].Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelTopologyZone, Operator: v1.NotIn, Values: []string{"zone-a"}}}
			buy(x, "small/zone-a")
		}, []string{"0  planned-general-1 Offering"}},
		{"the largest type of a launch counts against limits", func(x *trial) {
			x.NodePools[0].Spec.Limits = v1.Limits{corev1.ResourceCPU: count(7)}
			buy(x, "small/zone-a", "large/zone-a")
		}, []string{"0  planned-general-1 Limits"}},
		{"machines that there are count against limits", func(x *trial) {
			x.NodePools[0].Spec.Limits = v1.Limits{v1.ResourceNodes: count(1)}
			x.claim("later", "large")
			buy(x, "large/zone-a")
		}, []string{"0  planned-general-1 Limits"}},
		{"minValues are for every launch", func(x *trial) {
			least := 2
			x.NodePools[0].Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.Exists, MinValues: &least}}
			buy(x, "small/zone-a", "small/zone-b")
		}, []string{"0  planned-general-1 MinValues"}},
		{"reservations have so many slots", func(x *trial) {
			o := &x.Classes[0].InstanceTypes[0].Offerings[0]
			o.CapacityType, o.Reservation, o.Slots = v1.CapacityTypeReserved, "r", 1
			x.fill(0)
			for _, name := range []string{"p", "q"} {
				x.launch("general-"+name, []string{"small/zone-a"}, x.waits(cores(podOf(name), 2000)))
				l := &x.plan.Launches[len(x.plan.Launches)-1].Offerings[0]
				l.CapacityType, l.Reservation = v1.CapacityTypeReserved, "r"
			}
		}, []string{"0  planned-general-p Reservation", "0  planned-general-q Reservation"}},
	}
}

func judgementsOfRefusals() []judgement {
	fill := func(x *trial) { x.Pods = append(x.Pods, running(cores(podOf("full"), 4000), "b")) }
	return []judgement{
		{"a pod that nothing can take is refused rightly", func(x *trial) { x.refuse(x.waits(cores(podOf("p"), 9000))) }, nil},
		{"a node that would have done is found", func(x *trial) { fill(x); x.refuse(x.waits(podOf("p"))) }, []string{"0 p a"}},
		{"a machine that would have been for sale is found", func(x *trial) {
			x.fill(0)
			x.refuse(x.waits(inZone(podOf("p"), "zone-b")))
			x.NodePools[0].Spec.Limits = nil
			x.Classes[0].InstanceTypes = x.Classes[0].InstanceTypes[:1]
		}, []string{"0 p general's small/zone-b/on-demand"}},
		{"a machine that nobody needs is found", func(x *trial) {
			x.launch("general-1", []string{"small/zone-a"}, x.waits(inZone(podOf("p"), "zone-a")), x.waits(inZone(podOf("q"), "zone-a")))
			x.launch("general-2", []string{"large/zone-a"}, x.waits(inZone(podOf("r"), "zone-a")), x.waits(cores(podOf("s"), 5000)))
		}, []string{"0  planned-general-1 Room"}},
		{"a pod that would rather have a machine is excused", func(x *trial) {
			p := x.waits(inZone(podOf("p"), "zone-a"))
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
			}}
			x.launch("general-1", []string{"small/zone-a"}, p)
		}, []string{CauseWish}},
		{"a pod that another would rather not be with is excused", func(x *trial) {
			o := x.waits(running(podOf("o"), "a"))
			o.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: "p"}}}},
			}}}
			x.launch("general-1", []string{"small/zone-a"}, x.waits(inZone(podOf("p"), "zone-a")))
		}, []string{CauseWish}},
		{"a pod that decides where others have to run is excused", func(x *trial) {
			x.launch("general-1", []string{"small/zone-a"}, x.waits(inZone(near(podOf("p"), "p"), "zone-a")))
		}, []string{CauseCompany}},
		{"a launch does not count", func(x *trial) {
			fill(x)
			x.launch("general-1", []string{"large/zone-a"}, x.waits(cores(podOf("q"), 4500)))
			x.refuse(x.waits(cores(podOf("p"), 5000)))
		}, nil},
		{"a leaving node is excused", func(x *trial) {
			fill(x)
			x.Nodes[0].DeletionTimestamp = ptr.To(metav1.NewTime(x.Now))
			x.refuse(x.waits(podOf("p")))
		}, []string{CauseLeaving}},
		{"a leaving node that counts as a domain is excused", func(x *trial) {
			x.Pods = append(x.Pods, running(podOf("old"), "a"), running(podOf("older"), "b"))
			x.Nodes[0].DeletionTimestamp = ptr.To(metav1.NewTime(x.Now))
			p := podOf("p")
			for _, pod := range append(x.Pods, p) {
				pod.Labels[appLabel] = "p"
			}
			inZone(p, "zone-b")
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: ptr.To[int32](2),
				LabelSelector:      &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: "p"}},
				NodeAffinityPolicy: ptr.To(corev1.NodeInclusionPolicyIgnore),
			}}
			x.refuse(x.waits(p))
		}, []string{CauseLeaving}},
		{"the room of a nominated pod is excused", func(x *trial) {
			fill(x)
			q := x.waits(cores(podOf("q"), 4000))
			q.Status.NominatedNodeName = "a"
			x.refuse(x.waits(podOf("p")))
		}, []string{CauseNominated}},
		{"the room of a DaemonSet is taken", func(x *trial) {
			fill(x)
			x.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}}
			x.DaemonSets[0].Spec.Template.Spec = cores(podOf("d"), 3500).Spec
			x.refuse(x.waits(podOf("p")))
		}, nil},
		{"a spread over what a DaemonSet may have is excused", func(x *trial) {
			x.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}}
			x.DaemonSets[0].Spec.Template.Spec = podOf("d").Spec
			x.DaemonSets[0].Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone}}}}
			x.refuse(x.waits(podOf("p")))
			x.plan.Unplaced[0].Reasons[0].Code = engine.SpreadNotMet
		}, []string{CauseDaemonSet, CauseDaemonSet}},
		{"a DaemonSet that runs elsewhere excuses nothing", func(x *trial) {
			fill(x)
			x.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}}
			x.DaemonSets[0].Spec.Template.Spec = inZone(cores(podOf("d"), 3500), "zone-b").Spec
			x.refuse(x.waits(podOf("p")))
		}, []string{"0 p a"}},
		{"a DaemonSet that runs there already excuses nothing", func(x *trial) {
			fill(x)
			x.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}}
			x.DaemonSets[0].Spec.Template.Spec = cores(podOf("d"), 2500).Spec
			d := x.waits(running(cores(podOf("d"), 2500), "a"))
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d"}}
			x.refuse(x.waits(podOf("p")))
		}, []string{"0 p a"}},
		{"what is not supported is counted", func(x *trial) {
			fill(x)
			x.refuse(x.waits(podOf("p")))
			x.plan.Unplaced[0].Reasons = []engine.Reason{{Code: engine.FeatureNotSupported}}
		}, []string{string(engine.FeatureNotSupported)}},
		{"a pod that uses devices is refused for that", func(x *trial) {
			p := podOf("p")
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To("none")}}
			x.refuse(x.waits(p))
		}, []string{"0 p a DynamicResources"}},
		{"a pod of a leaving node that finds no other", func(x *trial) {
			fill(x)
			x.Nodes[0].DeletionTimestamp = ptr.To(metav1.NewTime(x.Now))
			x.refuse(x.waits(running(cores(podOf("p"), 4000), "a")))
		}, []string{CauseLeaving}},
	}
}
