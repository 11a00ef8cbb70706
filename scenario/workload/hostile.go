package workload

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// HostileKinds returns the kinds of constraints and requests of Hostile's pods.
func HostileKinds() []string {
	return []string{
		"values", "terms", "bounds", "preferred", "selector", "near", "apart", "nearsoft", "apartsoft", "spread", "spreadsoft", "keys",
		"everybody", "tolerations", "ports", "disks", "resources", "containers", "ring", "labels",
	}
}

// Hostile returns the snapshot with further pods of the given total size in bytes, all in one namespace, with as many constraints as fit:
// each pod has a mixture of some of the kinds. plain is the snapshot with equally many pods without constraints.
func Hostile(s *engine.Snapshot, bytes int, seed uint64, kinds ...string) (hostile, plain *engine.Snapshot) {
	h := &hostility{dice: &dice{rand.New(rand.NewPCG(seed, 0x605))}}
	asking, idle := *s, *s
	asking.Pods, idle.Pods = slices.Clone(s.Pods), slices.Clone(s.Pods)
	for h.n = 0; bytes > 0; h.n++ {
		name := numbered("hostile", h.n)
		pod := newShape(map[string]string{"app": "hostile", "group": fmt.Sprint(h.n)}, int64(100*(1+h.IntN(20))), 100, 0).pod(name, "uid-"+name)
		pod.Namespace, pod.Spec.Containers[0].Image = "hostile", "registry.k8s.io/pause:3.10"
		bare := pod.DeepCopy()
		size := 1 << h.IntN(10)
		for _, kind := range kinds {
			if len(kinds) == 1 || h.IntN(4) == 0 {
				h.ask(pod, kind, 1+h.IntN(size))
			}
		}
		text, err := json.Marshal(pod)
		if err != nil {
			panic(err) // the pod can always be encoded
		}
		bytes -= len(text)
		asking.Pods, idle.Pods = append(asking.Pods, pod), append(idle.Pods, bare)
	}
	return &asking, &idle
}

// hostility draws the constraints of the n-th pod.
type hostility struct {
	*dice
	n, made int
}

// own returns a unique text.
func (h *hostility) own() string {
	h.made++
	return fmt.Sprintf("own-%d", h.made)
}

// some returns one of few texts, or a unique one.
func (h *hostility) some(few ...string) string {
	if h.IntN(2) == 0 {
		return h.own()
	}
	return few[h.IntN(len(few))]
}

func (h *hostility) times(n int, f func() string) []string {
	out := make([]string, 0, n)
	for range n {
		out = append(out, f())
	}
	return out
}

func (h *hostility) nodeTerm(values int) corev1.NodeSelectorTerm {
	r := corev1.NodeSelectorRequirement{
		Key: h.some(corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable, corev1.LabelHostname, corev1.LabelTopologyRegion), Operator: corev1.NodeSelectorOpNotIn,
		Values: h.times(values, func() string { return h.some("us-east-1a", "us-east-1b", "m5.large", "c5.xlarge") }),
	}
	if h.IntN(4) == 0 {
		r.Operator = corev1.NodeSelectorOpIn
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}
}

func (h *hostility) boundTerm() corev1.NodeSelectorTerm {
	op := []corev1.NodeSelectorOperator{corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpIn}[h.IntN(4)]
	key := h.some("karpenter.k8s.aws/instance-cpu", corev1.LabelWindowsBuild)
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: []string{fmt.Sprint(h.IntN(100_000))}}}}
}

func (h *hostility) selector(values int) *metav1.LabelSelector {
	op := metav1.LabelSelectorOpIn
	if h.IntN(2) == 0 {
		op = metav1.LabelSelectorOpNotIn
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "group", Operator: op, Values: h.times(values, func() string {
		return fmt.Sprint(h.IntN(h.n + 10))
	})}}}
}

func (h *hostility) podTerm() corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: h.topology(), LabelSelector: selecting("group", fmt.Sprint(h.IntN(h.n+10)))}
}

func (h *hostility) topology() string {
	if h.IntN(2) == 0 {
		return []string{corev1.LabelTopologyZone, corev1.LabelHostname}[h.IntN(2)]
	}
	keys := []string{
		corev1.LabelInstanceTypeStable, v1.CapacityTypeLabelKey, corev1.LabelArchStable, corev1.LabelTopologyRegion, awsv1.FamilyLabelKey, awsv1.CategoryLabelKey,
		v1.NodePoolLabelKey, "karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/instance-memory", "topology.k8s.aws/zone-id",
	}
	return keys[h.IntN(len(keys))]
}

// addSpread adds a constraint, unless the pod has one with this key and kind, because an API server accepts only one.
func addSpread(pod *corev1.Pod, c corev1.TopologySpreadConstraint) {
	if !slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(other corev1.TopologySpreadConstraint) bool {
		return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
	}) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

// ask adds n constraints or requests of a kind to the pod.
func (h *hostility) ask(pod *corev1.Pod, kind string, n int) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	a := pod.Spec.Affinity
	require := func(terms ...corev1.NodeSelectorTerm) {
		required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if required == nil {
			required = &corev1.NodeSelector{}
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, terms...)
	}
	near, apart := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	switch c := &pod.Spec.Containers[0]; kind {
	case "values":
		require(h.nodeTerm(10 * n))
		return
	case "labels":
		var term corev1.NodeSelectorTerm
		for range n {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: "example.com/" + h.own(), Operator: corev1.NodeSelectorOpExists})
		}
		require(term)
		return
	case "selector":
		*apart = append(*apart, corev1.PodAffinityTerm{TopologyKey: h.topology(), LabelSelector: h.selector(10 * n)})
		return
	case "ring":
		next := selecting("group", fmt.Sprint(h.n+1))
		*near = append(*near, corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: next})
		*apart = append(*apart, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: next})
		return
	case "resources":
		c.Resources.Requests, c.Resources.Limits = c.Resources.Requests.DeepCopy(), corev1.ResourceList{}
		for range n {
			name := corev1.ResourceName("example.com/" + h.own())
			c.Resources.Requests[name], c.Resources.Limits[name] = resource.MustParse("1"), resource.MustParse("1")
		}
		return
	}
	for range n {
		h.askOne(pod, kind)
	}
	if kind == "terms" || kind == "bounds" {
		for range n {
			term := h.boundTerm()
			if kind == "terms" {
				term = h.nodeTerm(10)
			}
			require(term)
		}
	}
}

func (h *hostility) askOne(pod *corev1.Pod, kind string) {
	a := pod.Spec.Affinity
	weight := int32(1 + h.IntN(100))
	soft := corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: h.podTerm()}
	spread := corev1.TopologySpreadConstraint{MaxSkew: 1 + int32(h.IntN(3)), TopologyKey: h.topology(), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: h.selector(2)}
	switch c := &pod.Spec.Containers[0]; kind {
	case "preferred":
		list := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, corev1.PreferredSchedulingTerm{Weight: weight, Preference: h.nodeTerm(1)})
	case "near":
		list := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, h.podTerm())
	case "apart":
		list := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, h.podTerm())
	case "everybody":
		list := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		all := corev1.PodAffinityTerm{
			TopologyKey: h.topology(), NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: h.own(), Operator: metav1.LabelSelectorOpDoesNotExist}}},
		}
		*list = append(*list, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: all})
	case "nearsoft":
		list := &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, soft)
	case "apartsoft":
		list := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, soft)
	case "spread":
		addSpread(pod, spread)
	case "spreadsoft":
		spread.WhenUnsatisfiable = corev1.ScheduleAnyway
		addSpread(pod, spread)
	case "keys":
		spread.TopologyKey, spread.WhenUnsatisfiable = h.own(), corev1.ScheduleAnyway
		addSpread(pod, spread)
	case "tolerations":
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: h.own(), Operator: corev1.TolerationOpExists})
	case "ports":
		port := int32(1 + h.IntN(65_000))
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: port, HostPort: port, HostIP: []string{"0.0.0.0", "10.0.0.1", fmt.Sprintf("10.0.1.%d", h.IntN(250))}[h.IntN(3)]})
	case "disks":
		disk := corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: h.some("vol-1", "vol-2")}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: h.own(), VolumeSource: disk})
	case "containers":
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: h.own(), Image: c.Image, Resources: c.Resources})
	}
}
