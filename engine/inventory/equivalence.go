package inventory

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// KeyWriter writes facts about a pod as text, which only pods with the same facts share. It reads every pending pod, so it writes into one
// buffer and parses nothing.
type KeyWriter struct {
	b     []byte
	names []string
}

func (k *KeyWriter) word(text string) {
	k.b = strconv.AppendInt(k.b, int64(len(text)), 10)
	k.b = append(append(k.b, ':'), text...)
}

func (k *KeyWriter) number(n int64) { k.b = append(strconv.AppendInt(k.b, n, 10), ' ') }

func (k *KeyWriter) mark(c byte) { k.b = append(k.b, c) }

// onDemandMark begins the text of pods that have to run on demand for their owner's share.
const onDemandMark = 'D'

// OwnConstraints returns the text without this mark: the constraints of the pod itself.
func OwnConstraints(pod *corev1.Pod, text string) string {
	if kube.MustRunOnDemand(pod) {
		return text[1:]
	}
	return text
}

// Constraints writes all constraints of the pod beside resources.
func (k *KeyWriter) Constraints(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint, volumes *volume.PodVolumes) []byte {
	k.b = k.b[:0]
	spec := &pod.Spec
	if kube.MustRunOnDemand(pod) {
		k.mark(onDemandMark)
	}
	if spec.Priority != nil {
		k.number(int64(*spec.Priority))
	}
	k.labels(spec.NodeSelector)
	k.tolerations(spec)
	k.spreads(pod, spreads)
	k.requiredTerms(spec)
	k.preferredTerms(spec)
	k.podAffinity(pod)
	if !volumes.Problem.OK() {
		k.mark('x')
		k.word(volumes.Problem.Key)
		k.word(volumes.Problem.Have)
	} else if len(spec.Volumes) > 0 {
		k.mark('v')
		k.word(volumes.Key())
	}
	for _, p := range kube.HostPortsOf(spec) {
		k.mark('p')
		k.number(int64(p.Port))
		k.word(p.Protocol)
		k.word(p.Address)
	}
	for _, f := range kube.RequiredFeatures(spec) {
		k.mark('f')
		k.word(f)
	}
	k.oddities(spec)
	return k.b
}

// Rules writes the pod's constraints on other pods.
func (k *KeyWriter) Rules(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint) []byte {
	k.b = k.b[:0]
	k.spreads(pod, spreads)
	k.podAffinity(pod)
	return k.b
}

// RequiredNodes writes the node constraints that the pod requires.
func (k *KeyWriter) RequiredNodes(spec *corev1.PodSpec) []byte {
	k.b = k.b[:0]
	k.labels(spec.NodeSelector)
	k.requiredTerms(spec)
	return k.b
}

// PreferredNodes writes the node constraints that the pod prefers.
func (k *KeyWriter) PreferredNodes(spec *corev1.PodSpec) []byte {
	k.b = k.b[:0]
	k.preferredTerms(spec)
	return k.b
}

// Tolerations writes the pod's tolerations.
func (k *KeyWriter) Tolerations(spec *corev1.PodSpec) []byte {
	k.b = k.b[:0]
	k.tolerations(spec)
	return k.b
}

// oddities writes device claims and odd requests, for which it may be impossible to plan the pod.
func (k *KeyWriter) oddities(spec *corev1.PodSpec) {
	for i := range spec.ResourceClaims {
		k.mark('c')
		k.word(spec.ResourceClaims[i].Name)
	}
	// For requests for other resources, and for invalid ones, only the name and the sign are written.
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, name := range k.sorted(list[i].Resources.Requests) {
				q := list[i].Resources.Requests[corev1.ResourceName(name)]
				if q.Sign() < 0 || !ordinary(name) {
					k.mark('r')
					k.word(name)
					k.number(int64(q.Sign()))
				}
			}
		}
	}
}

func ordinary(name string) bool {
	return name == string(corev1.ResourceCPU) || name == string(corev1.ResourceMemory) || name == string(corev1.ResourceEphemeralStorage)
}

func (k *KeyWriter) sorted(list corev1.ResourceList) []string {
	k.names = k.names[:0]
	for name := range list {
		k.names = append(k.names, string(name))
	}
	slices.Sort(k.names)
	return k.names
}

func (k *KeyWriter) labels(labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	k.names = k.names[:0]
	for key := range labels {
		k.names = append(k.names, key)
	}
	slices.Sort(k.names)
	for _, key := range k.names {
		k.mark('s')
		k.word(key)
		k.word(labels[key])
	}
}

func (k *KeyWriter) selector(s *metav1.LabelSelector) {
	if s == nil {
		k.mark('0')
		return
	}
	k.mark('S')
	k.labels(s.MatchLabels)
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		k.mark('e')
		k.word(e.Key)
		k.word(string(e.Operator))
		k.words(e.Values)
	}
}

func (k *KeyWriter) words(words []string) {
	k.number(int64(len(words)))
	for _, w := range words {
		k.word(w)
	}
}

// values writes the values of the pod's labels for the keys.
func (k *KeyWriter) values(pod *corev1.Pod, keys []string) {
	for _, key := range keys {
		value, ok := pod.Labels[key]
		k.mark('k')
		k.word(key)
		if ok {
			k.word(value)
		}
	}
}

func (k *KeyWriter) spreads(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint) {
	if len(spreads) > 0 {
		k.word(pod.Namespace)
	}
	for i := range spreads {
		c := &spreads[i]
		k.mark('d')
		k.number(int64(c.MaxSkew))
		k.word(c.TopologyKey)
		k.word(string(c.WhenUnsatisfiable))
		k.selector(c.LabelSelector)
		if c.MinDomains != nil {
			k.number(int64(*c.MinDomains))
		}
		if c.NodeAffinityPolicy != nil {
			k.mark('a')
			k.word(string(*c.NodeAffinityPolicy))
		}
		if c.NodeTaintsPolicy != nil {
			k.mark('n')
			k.word(string(*c.NodeTaintsPolicy))
		}
		k.values(pod, c.MatchLabelKeys)
	}
}

func (k *KeyWriter) tolerations(spec *corev1.PodSpec) {
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		k.mark('t')
		k.word(t.Key)
		k.word(string(t.Operator))
		k.word(t.Value)
		k.word(string(t.Effect))
	}
}

func (k *KeyWriter) requiredTerms(spec *corev1.PodSpec) {
	if !kube.HasRequired(spec) {
		return
	}
	k.mark('N')
	terms := kube.RequiredTerms(spec)
	for i := range terms {
		k.nodeTerm(&terms[i])
	}
}

func (k *KeyWriter) preferredTerms(spec *corev1.PodSpec) {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return
	}
	for i := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		t := &spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		k.mark('w')
		k.number(int64(t.Weight))
		k.nodeTerm(&t.Preference)
	}
}

func (k *KeyWriter) podAffinity(pod *corev1.Pod) {
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if p := a.PodAffinity; p != nil {
		k.word(pod.Namespace)
		k.mark('A')
		k.podTerms(pod, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		k.word(pod.Namespace)
		k.mark('B')
		k.podTerms(pod, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (k *KeyWriter) nodeTerm(t *corev1.NodeSelectorTerm) {
	k.mark('T')
	for _, list := range [][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
		k.number(int64(len(list)))
		for i := range list {
			k.word(list[i].Key)
			k.word(string(list[i].Operator))
			k.words(list[i].Values)
		}
	}
}

func (k *KeyWriter) podTerms(pod *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		k.podTerm(pod, &required[i])
	}
	for i := range preferred {
		k.mark('w')
		k.number(int64(preferred[i].Weight))
		k.podTerm(pod, &preferred[i].PodAffinityTerm)
	}
}

func (k *KeyWriter) podTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm) {
	k.mark('P')
	k.word(t.TopologyKey)
	k.selector(t.LabelSelector)
	k.words(t.Namespaces)
	k.selector(t.NamespaceSelector)
	k.values(pod, t.MatchLabelKeys)
	k.mark('-')
	k.values(pod, t.MismatchLabelKeys)
}

// kind writes the pod's namespace and labels.
func (k *KeyWriter) kind(pod *corev1.Pod) []byte {
	k.b = k.b[:0]
	k.word(pod.Namespace)
	k.labels(pod.Labels)
	return k.b
}

// requests writes the pod's requests.
func (k *KeyWriter) requests(pod *corev1.Pod) []byte {
	k.b = k.b[:0]
	named := len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) > 0
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		k.mark('l') // requests of init containers are not added to the others
		for i := range list {
			k.mark('c')
			if list[i].RestartPolicy != nil {
				k.word(string(*list[i].RestartPolicy))
			}
			if named {
				k.word(list[i].Name)
			}
			k.list(list[i].Resources.Requests)
		}
	}
	if pod.Spec.Resources != nil {
		k.mark('p')
		k.list(pod.Spec.Resources.Requests)
	}
	k.mark('o')
	k.list(pod.Spec.Overhead)
	k.resize(pod)
	return k.b
}

// resize writes the state of a resize in place, from the pod's status.
func (k *KeyWriter) resize(pod *corev1.Pod) {
	read := false
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.Resources != nil {
				read = true
				k.mark('s')
				k.word(c.Name)
				k.list(c.Resources.Requests)
				k.list(c.AllocatedResources)
			}
		}
	}
	if r := pod.Status.Resources; r != nil && pod.Spec.Resources != nil {
		read = true
		k.mark('w')
		k.list(r.Requests)
		k.list(pod.Status.AllocatedResources)
	}
	if read && kube.ResizeIsHopeless(pod) {
		k.mark('h')
	}
}

func (k *KeyWriter) list(list corev1.ResourceList) {
	for _, name := range k.sorted(list) {
		k.word(name)
		k.number(kube.Amount(corev1.ResourceName(name), list[corev1.ResourceName(name)]))
	}
	k.mark(';')
}

// EquivalenceClass is a set of equal pods of one node that would move with it: they have the same constraints and requests, and the same selectors
// select them.
type EquivalenceClass struct {
	First *PodInfo // the info of the oldest pod
	Pods  []*corev1.Pod
}

// ClassesOf divides the movable pods of the node into classes. A pod with volumes is a class of its own, because its constraints depend on
// other objects; so is a pod with invalid requests.
func (cache *Cache) ClassesOf(r *NodePods) []EquivalenceClass {
	if r.classesRead {
		return r.classes
	}
	r.classesRead = true
	r.ReadMovable()
	for _, info := range r.Movers {
		i := -1
		if !info.Mounts && info.RequestProblem().OK() {
			ask, need := cache.ConstraintsOf(info), cache.NextRequests(info)
			i = slices.IndexFunc(r.classes, func(l EquivalenceClass) bool {
				return l.First.constraints == ask && l.First.nextRequests == need && l.First.Labels == info.Labels
			})
		}
		if i < 0 {
			i = len(r.classes)
			r.classes = append(r.classes, EquivalenceClass{First: info})
		}
		r.classes[i].Pods = append(r.classes[i].Pods, info.Pod)
	}
	return r.classes
}
