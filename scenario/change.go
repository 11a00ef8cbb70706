package scenario

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
)

// A Changed is a snapshot with the objects of a text, and messages about the text.
type Changed struct {
	// Snapshot is nil if there are mistakes.
	Snapshot *engine.Snapshot
	Objects  []ChangedObject
	Mistakes []Mistake
	Notes    []string
}

// A ChangedObject is one object of the text. Namespace is empty for cluster-scoped kinds.
type ChangedObject struct {
	Kind, Namespace, Name string
	// Replicas is the number of pods of a Deployment whose text has no containers; nil for other objects.
	Replicas *int
}

// A Mistake is a mistake in the text. Line counts from 1. It is 0, and Field is empty, if the place is unknown.
type Mistake struct {
	Line        int
	Field, Text string
}

// changeable returns the kinds that a text may contain.
func changeable() []string {
	return []string{"NodePool", "NodeOverlay", "CapacityBuffer", "PodTemplate", "Deployment"}
}

// Change returns a snapshot in which the objects of a text replace objects with the same names, or are added: NodePools, NodeOverlays,
// CapacityBuffers with their PodTemplates, and the number of pods of Deployments. Change completes and checks the objects as Read does, and
// as kubectl apply does with knowledge of every field. It does not change s.
func Change(s *engine.Snapshot, text []byte) *Changed {
	c := &change{before: s, m: newManifest(engine.Snapshot{Now: s.Now, RuntimeClasses: s.RuntimeClasses})}
	for _, l := range s.LimitRanges { // LimitRanges are completed in place
		c.m.snapshot.LimitRanges = append(c.m.snapshot.LimitRanges, l.DeepCopy())
	}
	for _, part := range splitYAML(text) {
		if part.empty() {
			continue
		}
		documents, err := readDocuments(Source{Name: "text", Data: part.text})
		if err != nil {
			c.mistake(syntaxMistake(err, part.line))
			continue
		}
		lines := newLines(part)
		for _, d := range documents {
			c.add(d.Object, lines)
		}
	}
	if len(c.out.Objects) == 0 && len(c.out.Mistakes) == 0 {
		c.mistake(Mistake{Text: "there is no object: write or paste a " + strings.Join(changeable(), ", a ")})
	}
	if len(c.out.Mistakes) > 0 {
		slices.SortStableFunc(c.out.Mistakes, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
		return &c.out
	}
	c.merge()
	return &c.out
}

// mostNewPods is the largest number of pods that a text may add.
const mostNewPods = 10_000

// change is the state of one Change.
type change struct {
	before *engine.Snapshot
	m      *manifest // of the text only
	scales []workload
	more   int // number of added pods
	out    Changed
}

func (c *change) mistake(f Mistake) { c.out.Mistakes = append(c.out.Mistakes, f) }

// whereInText matches the beginning of error messages about documents.
var whereInText = regexp.MustCompile(`^text, document \d+, (?:line (\d+)[:, ]*)?`)

// syntaxMistake returns a Mistake for an error in a document that begins at line first.
func syntaxMistake(err error, first int) Mistake {
	text := strings.Join(strings.Fields(err.Error()), " ")
	found := whereInText.FindStringSubmatch(text)
	if found == nil {
		return Mistake{Line: first, Text: text}
	}
	f := Mistake{Line: first, Text: text[len(found[0]):]}
	if n, err := strconv.Atoi(found[1]); err == nil {
		f.Line = first + n - 1
	} else if in := yamlLine.FindStringSubmatch(f.Text); in != nil {
		n, _ := strconv.Atoi(in[1])
		f.Line = first + n - 1
		f.Text = strings.Replace(f.Text, in[0], fmt.Sprintf("line %d", f.Line), 1)
	}
	return f
}

// leadingField matches a field at the beginning of an error.
var leadingField = regexp.MustCompile(`^((?:spec|metadata|template)(?:[.\[][^ :]*)?)(?:: )?`)

// fieldOf returns the field at the beginning of an error, and the rest of the error.
func fieldOf(text string) (field, rest string) {
	found := leadingField.FindStringSubmatch(text)
	switch {
	case found == nil:
		return "", text
	case strings.HasSuffix(found[0], ": "):
		return found[1], text[len(found[0]):]
	}
	return found[1], text
}

// add reads one object.
func (c *change) add(u *unstructured.Unstructured, lines *lines) {
	before := len(c.out.Mistakes)
	say := func(field, text string) { c.mistake(Mistake{Line: lines.of(field), Field: field, Text: text}) }
	if !slices.Contains(changeable(), u.GetKind()) || c.m.adder(u.GroupVersionKind().GroupKind().String()) == nil {
		say("kind", fmt.Sprintf("%s of %s cannot be tried here: it is %s", u.GetKind(), u.GetAPIVersion(), strings.Join(changeable(), ", ")))
		return
	}
	o := ChangedObject{Kind: u.GetKind(), Name: u.GetName()}
	if namespaced(o.Kind) {
		o.Namespace = cmp.Or(u.GetNamespace(), metav1.NamespaceDefault)
	}
	c.out.Objects = append(c.out.Objects, o)
	for field, name := range map[string]string{"metadata.name": u.GetName(), "metadata.namespace": u.GetNamespace()} {
		if problems := validation.IsDNS1123Subdomain(name); name != "" && len(problems) > 0 {
			say(field, problems[0])
		}
	}
	// Like the API server, ignore the fields that only it sets.
	for _, field := range [][]string{{"status"}, {"metadata", "resourceVersion"}, {"metadata", "managedFields"}, {"metadata", "uid"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(u.Object, field...)
	}
	if text := absurdNumber(u.Object); text != "" {
		say("", text+" is more than anything can be")
		return
	}
	c.checkFields(u, say)
	if len(c.out.Mistakes) > before {
		return
	}
	said := len(c.m.said)
	var err error
	if o.Kind == "Deployment" {
		err = c.addDeployment(u)
	} else {
		err = c.m.add(Document{Object: u, Where: fmt.Sprintf("line %d", lines.of(""))})
	}
	if err != nil {
		say(fieldOf(strings.TrimPrefix(strings.TrimPrefix(err.Error(), identity(u)+": "), u.GetKind()+": ")))
		return
	}
	for _, note := range c.m.said[said:] { // a strict reader has found an unknown field
		if rest, found := strings.CutPrefix(note, identity(u)+": unknown field "); found {
			path, _, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			say(path, "unknown field "+rest)
		}
	}
	if pools := c.m.snapshot.NodePools; o.Kind == "NodePool" && len(c.out.Mistakes) == before {
		c.checkPool(pools[len(pools)-1], say)
	}
}

// absurdNumber returns the first text in a JSON value that is too large a number. It returns "" if there is none.
func absurdNumber(value any) (found string) {
	switch value := value.(type) {
	case string:
		if kube.IsBeyondCounting(value) {
			return value
		}
	case []any:
		for _, v := range value {
			if found = absurdNumber(v); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, key := range kube.SortedKeys(value) {
			if found = absurdNumber(value[key]); found != "" {
				return found
			}
		}
	}
	return ""
}

// checkFields checks an object of Tenon's own kinds against its definition.
func (c *change) checkFields(u *unstructured.Unstructured, say func(field, text string)) {
	schemas, err := definitions()
	if err != nil {
		say("", err.Error())
		return
	}
	unknown, err := schemas.UnknownFields(u)
	if err != nil {
		say("apiVersion", withoutName(u, err).Error())
		return
	}
	for _, field := range unknown {
		say(field, unknownField(field, typeOfKind(u.GetKind())))
	}
	broken, err := schemas.Violations(u)
	if err != nil {
		say("", err.Error())
	}
	for _, b := range broken {
		say(b.Field, b.ErrorBody())
	}
}

// checkPool checks the rules that the definition cannot express, and finds the pool's class.
func (c *change) checkPool(p *v1.NodePool, say func(field, text string)) {
	if err := p.RuntimeValidate(); err != nil {
		say(fieldOf(err.Error()))
	}
	ref := p.Spec.Template.Spec.NodeClassRef
	var names []string
	for _, class := range c.before.ListedClasses() {
		if class.Ref == *ref {
			return
		}
		names = append(names, class.Ref.Kind+" "+class.Ref.Name)
	}
	for _, old := range c.before.NodePools {
		if old.Name == p.Name && *old.Spec.Template.Spec.NodeClassRef == *ref {
			return // the plan reports more about it
		}
	}
	slices.Sort(names)
	say("spec.template.spec.nodeClassRef", fmt.Sprintf("what %s %s can buy is not known here: pools of this cluster refer to %s", ref.Kind, ref.Name, cmp.Or(strings.Join(slices.Compact(names), ", "), "none")))
}

// addDeployment reads the number of pods of a Deployment. Existing pods stay as they are. If there are none, the template describes the new
// pods.
func (c *change) addDeployment(u *unstructured.Unstructured) error {
	w, err := c.m.readWorkload(u)
	if err != nil {
		return err
	}
	if w.pods < 0 || w.pods > mostPods {
		return fmt.Errorf("spec.replicas: %d pods are asked for; from 0 to %d can be planned", w.pods, mostPods)
	}
	o := &c.out.Objects[len(c.out.Objects)-1]
	there := deploymentPods(c.before, w.meta.Namespace, w.meta.Name)
	if _, said, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "replicas"); !said && len(there) > 0 {
		w.pods = len(there) // kubectl apply leaves it unchanged
	}
	if c.more += max(0, w.pods-len(there)); c.more > mostNewPods {
		return fmt.Errorf("spec.replicas: the text asks for %d pods more than there are; %d can be planned here", c.more, mostNewPods)
	}
	switch {
	case len(there) > 0:
		c.scales = append(c.scales, w)
		if len(w.template.Spec.Containers) > 0 {
			c.m.note("%s: its %d pods stay as they are, whatever its template says; only spec.replicas counts", identity(u), len(there))
		}
	case len(w.template.Spec.Containers) == 0:
		return fmt.Errorf("spec: there is no pod of it yet, so its template has to say what its pods are")
	default:
		c.m.workloads = append(c.m.workloads, w)
	}
	c.m.remember(w)
	if len(w.template.Spec.Containers) == 0 {
		o.Replicas = new(w.pods)
	}
	return nil
}

// merge makes the changed snapshot.
func (c *change) merge() {
	templates := c.m.snapshot.PodTemplates
	deployments := c.m.snapshot.Deployments
	own := c.m.finish()
	s := *c.before
	if e := s.EarlierPasses; e != nil && slices.ContainsFunc(own.NodePools, func(o *v1.NodePool) bool {
		return slices.ContainsFunc(s.NodePools, func(old *v1.NodePool) bool {
			return old.Name == o.Name && !equality.Semantic.DeepEqual(old.Spec, o.Spec)
		})
	}) {
		s.EarlierPasses = &engine.EarlierPasses{ScaledDown: e.ScaledDown} // results for the old pools do not apply
	}
	s.NodePools = replaced(s.NodePools, own.NodePools, func(o, old *v1.NodePool) { o.ObjectMeta, o.Status = kept(o.ObjectMeta, old.ObjectMeta), old.Status })
	s.NodeOverlays = replaced(s.NodeOverlays, own.NodeOverlays, func(o, old *v1alpha1.NodeOverlay) {
		o.ObjectMeta, o.Status = kept(o.ObjectMeta, old.ObjectMeta), old.Status
	})
	s.CapacityBuffers = replaced(s.CapacityBuffers, own.CapacityBuffers, func(o, old *autoscalingv1beta1.CapacityBuffer) {
		o.ObjectMeta, o.Status = kept(o.ObjectMeta, old.ObjectMeta), old.Status
	})
	if len(s.CapacityBuffers) > 0 {
		s.PodTemplates = replaced(s.PodTemplates, templates, func(o, old *corev1.PodTemplate) { o.ObjectMeta = kept(o.ObjectMeta, old.ObjectMeta) })
		s.Deployments = replaced(s.Deployments, deployments, func(o, old *appsv1.Deployment) {
			o.ObjectMeta = kept(o.ObjectMeta, old.ObjectMeta)
			if len(o.Spec.Template.Spec.Containers) == 0 {
				o.Spec.Template, o.Spec.Selector = old.Spec.Template, old.Spec.Selector
			}
		})
	}
	s.Pods = slices.Concat(s.Pods, own.Pods)
	s.ReplicaSets = slices.Concat(s.ReplicaSets, own.ReplicaSets)
	for _, w := range c.scales {
		c.scale(&s, w)
	}
	for _, v := range overlay.Apply(&s) {
		if !slices.ContainsFunc(own.NodeOverlays, func(o *v1alpha1.NodeOverlay) bool { return o.Name == v.Overlay.Name }) {
			continue
		}
		if v.Reason != "" {
			c.m.note("NodeOverlay %s left out: %s", v.Overlay.Name, v.Message)
			continue
		}
		c.m.note("NodeOverlay %s: %s", v.Overlay.Name, v.Message)
	}
	loadZones(&s)
	c.out.Snapshot, c.out.Notes = &s, c.m.notes()
}

// replaced replaces objects of the same name, after takeOver has copied fields from the old ones, and appends the other objects.
func replaced[T metav1.Object](list, with []T, takeOver func(o, old T)) []T {
	out := slices.Clone(list)
	for _, o := range with {
		i := slices.IndexFunc(out, func(old T) bool { return old.GetName() == o.GetName() && old.GetNamespace() == o.GetNamespace() })
		if i < 0 {
			out = append(out, o)
			continue
		}
		takeOver(o, out[i])
		out[i] = o
	}
	return out
}

// kept returns the metadata of a changed object: labels and annotations of the new object, all other fields of the old one.
func kept(o, old metav1.ObjectMeta) metav1.ObjectMeta {
	out := *old.DeepCopy()
	out.Labels, out.Annotations = o.Labels, o.Annotations
	return out
}

// scale changes the number of a Deployment's pods. New pods are copies of the first pod. Like a ReplicaSet, scale removes waiting pods first,
// and then the youngest.
func (c *change) scale(s *engine.Snapshot, w workload) {
	there := deploymentPods(s, w.meta.Namespace, w.meta.Name)
	if len(there) > w.pods {
		gone := map[*corev1.Pod]bool{}
		for _, p := range there[w.pods:] {
			gone[p] = true
		}
		s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return gone[p] })
		return
	}
	names := namesOf(s.Pods)
	s.Pods = slices.Clone(s.Pods)
	for number := 1; len(there) < w.pods; number++ {
		name := numberedName(w.meta.Name, number)
		if names[w.meta.Namespace+"/"+name] {
			continue
		}
		s.Pods = append(s.Pods, freshLike(there[0], name, s.Now))
		there = append(there, nil)
	}
}

// freshLike returns a new copy of a pod with another name.
func freshLike(pod *corev1.Pod, name string, now time.Time) *corev1.Pod {
	p := pod.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{
		Namespace: p.Namespace, Name: name, UID: uidOf(p.Namespace, name), Labels: p.Labels, Annotations: p.Annotations, OwnerReferences: p.OwnerReferences,
		CreationTimestamp: metav1.NewTime(now),
	}
	p.Spec.NodeName, p.Status = "", corev1.PodStatus{}
	setPodStatus(p, &podLine{gated: len(p.Spec.SchedulingGates) > 0})
	return p
}

// deploymentPods returns the pods of a Deployment that have not ended, in the order in which they stay: pods with a node first, then older
// pods.
func deploymentPods(s *engine.Snapshot, namespace, name string) []*corev1.Pod {
	var out []*corev1.Pod
	owners := DeploymentsOf(s)
	for _, p := range s.Pods {
		if p.Namespace == namespace && kube.IsActive(p) && owners(p) == name {
			out = append(out, p)
		}
	}
	waits := func(p *corev1.Pod) int {
		if p.Spec.NodeName == "" {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(waits(a), waits(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// DeploymentsOf returns a function that names a pod's Deployment. The function returns "" if there is none. If the pod's ReplicaSet is not in the
// snapshot, the Deployment's name is the beginning of the ReplicaSet's name.
func DeploymentsOf(s *engine.Snapshot) func(*corev1.Pod) string {
	makers := map[string]string{} // of known ReplicaSets
	for _, r := range s.ReplicaSets {
		maker := ""
		if owner := metav1.GetControllerOf(r); owner != nil && owner.Kind == "Deployment" {
			maker = owner.Name
		}
		makers[r.Namespace+"/"+r.Name] = maker
	}
	return func(p *corev1.Pod) string {
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "ReplicaSet" {
			return ""
		}
		if maker, known := makers[p.Namespace+"/"+owner.Name]; known && maker != "" {
			return maker
		}
		return strings.TrimSuffix(owner.Name, "-"+p.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
	}
}
