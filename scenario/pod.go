package scenario

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const podWords = "x3 ns= cpu= mem= or any other resource, limits= container= init= sidecar= overhead= runtime= pod-level= " +
	"select= tolerate= prefer= spread= together= apart= port= disk= scratch= devices= labels= annotations= do-not-disrupt owner= node= " +
	"nominated= priority= phase= age= move-window= launch-delay= on-demand-share= scaled-up= scheduler= unready gated untried deleting= grace= finalizers=, and requirements: zone in (a,b) or arch in (arm64)"

// podLine is a parsed pod, pods or daemonset statement.
type podLine struct {
	pod      corev1.Pod // with a namespace, without a name
	name     string
	count    int // 0 for a single pod with exactly this name
	app      corev1.Container
	age      time.Duration
	owner    string
	scratch  []string // classes of ephemeral volumes
	gated    bool
	unready  bool
	untried  bool
	deleting bool
	// deletedFor is the time since the deletion. If finalizers is nil, the pod has a default one.
	deletedFor time.Duration
	finalizers *[]string
	scaledUp   []scaleUp
	devices    *resourcev1.ResourceClaimSpec // nil for none
}

// scaleUp is the node group that another autoscaler scales up for a pod, and the time for which this counts.
type scaleUp struct {
	group string
	lasts time.Duration
}

// scaleUp reads GROUP,10m.
func (w word) scaleUp() (scaleUp, error) {
	_, value := w.cut()
	group, text, _ := strings.Cut(value, ",")
	d, err := time.ParseDuration(text)
	if err != nil || group == "" {
		return scaleUp{}, w.errorf("write the group and for how long it is believed: scaled-up=gpu,10m")
	}
	return scaleUp{group, d}, nil
}

func (b *builder) readPod(name word, r *reader) (*podLine, error) {
	p := &podLine{name: name.text, age: time.Minute, app: corev1.Container{Name: "app", Image: "app"}}
	p.pod.Namespace = metav1.NamespaceDefault
	p.pod.Labels = map[string]string{"app": name.text}
	for r.more() {
		if err := p.word(r); err != nil {
			return nil, err
		}
	}
	p.pod.Spec.Containers = append([]corev1.Container{p.app}, p.pod.Spec.Containers...)
	p.addScratch()
	return p, nil
}

func (p *podLine) word(r *reader) error {
	if r.atRequirement() {
		req, err := r.requirement()
		p.require(selectorRequirement(req))
		return err
	}
	w := r.next()
	if w.isResource() {
		return p.request(w)
	}
	if n, ok := strings.CutPrefix(w.text, "x"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
		count, err := strconv.Atoi(n)
		p.count = count
		if err != nil || count == 0 {
			return w.errorf("this is no number of pods")
		}
		return nil
	}
	handled, err := p.specWord(w)
	if handled || err != nil {
		return err
	}
	if handled, err = p.statusWord(w); handled || err != nil {
		return err
	}
	return r.unknown(w, podWords)
}

// request adds to the requests of the first container. Extended resources become limits too.
func (p *podLine) request(w word) error { return addRequest(w, &p.app) }

func addRequest(w word, c *corev1.Container) error {
	if err := w.addResource(&c.Resources.Requests); err != nil {
		return err
	}
	key, _ := w.cut()
	if name, _ := resourceName(key); strings.Contains(string(name), "/") {
		return w.addResource(&c.Resources.Limits)
	}
	return nil
}

// require adds to the last term of the required node affinity.
func (p *podLine) require(req corev1.NodeSelectorRequirement) {
	terms := &p.required().NodeSelectorTerms
	if len(*terms) == 0 {
		*terms = append(*terms, corev1.NodeSelectorTerm{})
	}
	last := &(*terms)[len(*terms)-1]
	last.MatchExpressions = append(last.MatchExpressions, req)
}

func (p *podLine) required() *corev1.NodeSelector {
	a := p.nodeAffinity()
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution
}

func (p *podLine) nodeAffinity() *corev1.NodeAffinity {
	a := p.affinity()
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	return a.NodeAffinity
}

func (p *podLine) affinity() *corev1.Affinity {
	if p.pod.Spec.Affinity == nil {
		p.pod.Spec.Affinity = &corev1.Affinity{}
	}
	return p.pod.Spec.Affinity
}

// statusWord reads the words about a pod's metadata and status.
func (p *podLine) statusWord(w word) (handled bool, err error) {
	key, value := w.cut()
	switch key {
	case "ns":
		p.pod.Namespace = value
	case "labels":
		w.addLabels(&p.pod.Labels)
	case "annotations":
		w.addLabels(&p.pod.Annotations)
	case "do-not-disrupt":
		if value == "" {
			value = "true"
		}
		if p.pod.Annotations == nil {
			p.pod.Annotations = map[string]string{}
		}
		p.pod.Annotations[v1.DoNotDisruptAnnotationKey] = value
	case "owner":
		p.owner = value
	case "gang":
		p.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &value}
	case "scheduler":
		p.pod.Spec.SchedulerName = value
	case "node":
		p.pod.Spec.NodeName = value
	case "nominated":
		p.pod.Status.NominatedNodeName = value
	case "phase":
		p.pod.Status.Phase = corev1.PodPhase(value)
	case "age":
		p.age, err = w.duration()
	case "move-window":
		addLabel(&p.pod.Annotations, v1.MoveWindowAnnotationKey, value)
	case "launch-delay":
		addLabel(&p.pod.Annotations, v1.LaunchDelayAnnotationKey, value)
	case "on-demand-share":
		addLabel(&p.pod.Annotations, v1.OnDemandShareAnnotationKey, value)
	case "scaled-up":
		var up scaleUp
		up, err = w.scaleUp()
		p.scaledUp = append(p.scaledUp, up)
	case "unready":
		p.unready = true
	case "gated":
		p.gated = true
	case "untried":
		p.untried = true
	case "devices":
		p.devices, err = w.claimedDevices()
	case "deleting":
		p.deleting = true
		if w.hasValue() {
			p.deletedFor, err = w.duration()
		}
	case "grace":
		var grace time.Duration
		grace, err = w.duration()
		p.pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(grace / time.Second))
	case "finalizers":
		p.finalizers = new(w.list())
	default:
		return false, nil
	}
	return true, err
}

// pods reads pods NAME xN, which makes NAME-1 to NAME-N, or pod NAME.
func (b *builder) pods(name word, r *reader) error {
	p, err := b.readPod(name, r)
	if err != nil {
		return err
	}
	if r.of == "pods" && p.count == 0 {
		return name.errorf("say how many: pods %s x3; a single pod is written pod %s", name.text, name.text)
	}
	if r.of == "pod" && p.count > 0 {
		return name.errorf("write pods for several")
	}
	if len(b.snapshot.Pods)+p.count > mostPods {
		return name.errorf("%d pods and those before them are more than can be planned: %d", p.count, mostPods)
	}
	pods, claims := namesOf(b.snapshot.Pods), namesOf(b.snapshot.PersistentVolumeClaims)
	for i := range max(p.count, 1) {
		podName := p.name
		if p.count > 0 {
			podName = fmt.Sprintf("%s-%d", p.name, i+1)
		}
		if pods[p.pod.Namespace+"/"+podName] {
			return name.errorf("there is a pod %s already", podName)
		}
		pod := b.podOf(p, podName)
		b.claimDevices(pod, p)
		b.snapshot.Pods = append(b.snapshot.Pods, pod)
		for _, up := range p.scaledUp {
			b.snapshot.ScaleUps = append(b.snapshot.ScaleUps, engine.ScaleUp{Pod: string(pod.UID), Group: up.group, Until: b.snapshot.Now.Add(up.lasts)})
		}
		b.snapshot.PersistentVolumeClaims = append(b.snapshot.PersistentVolumeClaims, ephemeralClaims(pod, claims)...)
	}
	return nil
}

func (b *builder) podOf(p *podLine, name string) *corev1.Pod {
	pod := p.pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	meta := b.meta(pod.Namespace, name)
	meta.Labels, meta.Annotations = pod.Labels, pod.Annotations
	pod.ObjectMeta = meta
	pod.CreationTimestamp = b.ago(p.age)
	pod.OwnerReferences = ownerOf(p.owner, p.name)
	if p.gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	}
	if p.deleting {
		grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(b.ago(p.deletedFor-time.Duration(grace)*time.Second)), &grace
		pod.Finalizers = []string{"example.com/wait"}
	}
	if p.finalizers != nil {
		pod.Finalizers = *p.finalizers
	}
	setPodStatus(pod, p)
	return pod
}

// setPodStatus sets the status of a pod. A pod with a node runs. For a pod without one, kube-scheduler has found no node.
func setPodStatus(pod *corev1.Pod, p *podLine) {
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: pod.CreationTimestamp}
	phase := corev1.PodPending
	switch {
	case pod.Spec.NodeName != "":
		phase, scheduled.Status = corev1.PodRunning, corev1.ConditionTrue
		start := pod.CreationTimestamp
		pod.Status.StartTime = &start
		ready := corev1.ConditionTrue
		if p.unready {
			ready = corev1.ConditionFalse
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: start})
	case p.gated:
		scheduled.Reason = corev1.PodReasonSchedulingGated
	default:
		scheduled.Reason = corev1.PodReasonUnschedulable
	}
	if pod.Status.Phase == "" {
		pod.Status.Phase = phase
	}
	if !p.untried {
		pod.Status.Conditions = append(pod.Status.Conditions, scheduled)
	}
}

// ownerOf returns the reference to the owner kind[/name]. The pods of a Deployment belong to its ReplicaSet.
func ownerOf(owner, fallback string) []metav1.OwnerReference {
	if owner == "" {
		return nil
	}
	kind, name, ok := strings.Cut(owner, "/")
	if !ok {
		name = fallback
	}
	apiVersion := appsv1.SchemeGroupVersion.String()
	switch kind {
	case "Deployment":
		kind = "ReplicaSet"
	case "Job":
		apiVersion = "batch/v1"
	case "Node", "ReplicationController":
		apiVersion = "v1"
	}
	return []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: uidOf("", kind+"/"+name), Controller: ptr.To(true),
	}}
}

// daemonSet reads daemonset NAME with the words of a pod.
func (b *builder) daemonSet(name word, r *reader) error {
	p, err := b.readPod(name, r)
	if err != nil {
		return err
	}
	d := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: b.meta(p.pod.Namespace, name.text),
	}
	d.CreationTimestamp = b.ago(24 * time.Hour)
	d.Spec.Selector = p.selector()
	d.Spec.Template.Labels, d.Spec.Template.Annotations = p.pod.Labels, p.pod.Annotations
	d.Spec.Template.Spec = p.pod.Spec
	b.snapshot.DaemonSets = append(b.snapshot.DaemonSets, d)
	return nil
}

func withPods(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	maps.Copy(out, list)
	return out
}
