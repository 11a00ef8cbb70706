package assortment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi/contract"
)

// Source is a MachineDeployment with the known facts about its machines.
type Source struct {
	Deployment *contract.MachineDeployment
	// Cluster is nil if there is no such object.
	Cluster *contract.Cluster
	// Template is the infrastructure template, nil if it could not be read.
	Template *unstructured.Unstructured
	// FailureDomains are the failure domains in the status of running Machines, each once.
	FailureDomains []string
	// Sets are the MachineSets of the MachineDeployment.
	Sets []*contract.MachineSet
	// Node is a running node of the MachineDeployment, nil if there is none. Outdated is true if the node's Machine was made from an older
	// template.
	Node     *corev1.Node
	Outdated bool
	// Held is the reason why the provider asks for no machines for now although the MachineDeployment could make some, "" if it does ask.
	Held string
}

// Key returns "<namespace>/<name>" of the MachineDeployment.
func (s *Source) Key() string { return Key(s.Deployment) }

// Key returns "<namespace>/<name>".
func Key(d *contract.MachineDeployment) string { return d.Namespace + "/" + d.Name }

// BuiltIn returns an instance type from built-in figures; nil if they do not have it.
type BuiltIn func(machineType string) *engine.InstanceType

// Machines describes the machines that one MachineDeployment makes.
type Machines struct {
	// Key names the MachineDeployment.
	Key string
	// Type is the name of their instance type.
	Type string
	// Labels are the labels of all these machines, without instance type, zone and capacity type.
	Labels             map[string]string
	Zone, CapacityType string
	Capacity, Overhead corev1.ResourceList
	// Taints are the taints with which their nodes register, without startup taints.
	Taints []corev1.Taint
	// Price is in USD per hour; Estimated is true if no source names a price.
	Price     float64
	Estimated bool
	// Min and Max are the bounds of the replicas; Max is -1 without a bound.
	Min, Max int32
	// Replicas is the wanted number of replicas now.
	Replicas int32
	// Blocked is the reason why no more machines can be made now, "" if they can. Full is true if Max is the only reason.
	Blocked string
	Full    bool
	// Notes lists values that were ignored because they could not be read.
	Notes []string
}

// defaultPods is the kubelet's default number of pods, for a node without a known number.
const defaultPods = 110

// Read reads the machines of a MachineDeployment. The error says why the MachineDeployment cannot be used.
func Read(s *Source, class *clusterapiv1alpha1.ClusterAPINodeClass, builtIn BuiltIn) (*Machines, error) {
	d := s.Deployment
	r := reader{Source: s, class: class, at: capacityOf(s.Template)}
	if r.at.machineType != "" && builtIn != nil {
		r.builtIn = builtIn(r.at.machineType)
	}
	m := &Machines{Key: s.Key(), Blocked: cmp.Or(Blocked(d, s.Cluster), s.managed(), s.Held)}
	if d.Spec.Template.Spec.InfrastructureRef.Name == "" {
		return nil, fmt.Errorf("its template names no infrastructure template (spec.template.spec.infrastructureRef)")
	}
	labels := r.labels()
	var err error
	if m.Capacity, err = r.capacity(); err != nil {
		return nil, err
	}
	if m.Min, m.Max, err = Sizes(d); err != nil {
		return nil, err
	}
	if d.Spec.Replicas != nil {
		m.Replicas = *d.Spec.Replicas
	}
	if m.Blocked == "" && m.Max >= 0 && d.Spec.Replicas != nil && m.Replicas >= m.Max {
		m.Blocked, m.Full = fmt.Sprintf("it has %d replicas, and annotation %s allows no more", m.Replicas, contract.MaxSizeAnnotation), true
	}
	m.Type = cmp.Or(labels[corev1.LabelInstanceTypeStable], r.nodeLabel(corev1.LabelInstanceTypeStable), r.at.machineType, d.Name)
	m.Zone = cmp.Or(labels[corev1.LabelTopologyZone], d.Spec.Template.Spec.FailureDomain, r.nodeLabel(corev1.LabelTopologyZone), r.onlyFailureDomain(), d.Spec.ClusterName)
	m.CapacityType = cmp.Or(labels[v1.CapacityTypeLabelKey], r.at.capacityType, v1.CapacityTypeOnDemand)
	if m.CapacityType != v1.CapacityTypeOnDemand && m.CapacityType != v1.CapacityTypeSpot {
		return nil, fmt.Errorf("annotation %slabels says %s=%s: it must be %s or %s", contract.CapacityPrefix, v1.CapacityTypeLabelKey, m.CapacityType, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot)
	}
	if problems := validation.IsValidLabelValue(m.Type); len(problems) > 0 {
		return nil, fmt.Errorf("its instance type %q is no value for a label: name another in annotation %slabels: %s", m.Type, contract.CapacityPrefix, strings.Join(problems, "; "))
	}
	for key, q := range map[string]int64{clusterapiv1alpha1.InstanceCPULabelKey: m.Capacity.Cpu().Value(), clusterapiv1alpha1.InstanceMemoryLabelKey: m.Capacity.Memory().Value() >> 20} {
		labels[key] = strconv.FormatInt(q, 10)
	}
	labels[corev1.LabelArchStable] = cmp.Or(labels[corev1.LabelArchStable], r.at.arch, r.builtInLabel(corev1.LabelArchStable), r.nodeLabel(corev1.LabelArchStable), v1.ArchitectureAMD64)
	labels[corev1.LabelOSStable] = cmp.Or(labels[corev1.LabelOSStable], r.at.os, r.nodeLabel(corev1.LabelOSStable), string(corev1.Linux))
	for _, settledElsewhere := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey} {
		delete(labels, settledElsewhere)
	}
	m.Labels = labels
	m.Overhead = r.overhead(m.Capacity)
	m.Taints = r.taints()
	if m.Price, m.Estimated, err = r.price(m); err != nil {
		return nil, err
	}
	m.Notes = r.notes
	return m, nil
}

// reader reads one MachineDeployment.
type reader struct {
	*Source
	class   *clusterapiv1alpha1.ClusterAPINodeClass
	at      template
	builtIn *engine.InstanceType
	notes   []string
}

func (r *reader) annotation(name string) string {
	return r.Deployment.Annotations[contract.CapacityPrefix+name]
}

func (r *reader) note(format string, values ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, values...))
}

// Blocked returns the reason why the replicas of a MachineDeployment must not be changed now, "" if they may be. A nil cluster means that the
// Cluster does not exist.
func Blocked(d *contract.MachineDeployment, cluster *contract.Cluster) string {
	_, annotated := d.Annotations[contract.PausedAnnotation]
	switch {
	case d.DeletionTimestamp != nil:
		return "the MachineDeployment is being deleted"
	case cluster == nil:
		return fmt.Sprintf("its Cluster %s does not exist", d.Spec.ClusterName)
	case cluster.DeletionTimestamp != nil:
		return fmt.Sprintf("Cluster %s is being deleted", d.Spec.ClusterName)
	case cluster.Spec.Paused:
		return fmt.Sprintf("Cluster %s is paused", d.Spec.ClusterName)
	case d.Spec.Paused || annotated:
		return "the MachineDeployment is paused"
	}
	return ""
}

// managed returns the reason why another controller sets the replicas, "" if none does.
func (s *Source) managed() string {
	if _, owned := s.Deployment.Labels[contract.TopologyOwnedLabel]; !owned || s.Cluster == nil || s.Cluster.Spec.Topology == nil {
		return ""
	}
	name := s.Deployment.Labels[contract.TopologyNameLabel]
	for _, t := range s.Cluster.Spec.Topology.Workers.MachineDeployments {
		if t.Name == name && t.Replicas != nil {
			return fmt.Sprintf("Cluster %s sets its replicas (spec.topology.workers.machineDeployments, %s): remove replicas there", s.Cluster.Name, name)
		}
	}
	return ""
}

// labels returns the template's labels that Cluster API copies to nodes, and the labels of the annotation, which override the former.
func (r *reader) labels() map[string]string {
	labels := map[string]string{}
	for key, value := range r.Deployment.Spec.Template.Metadata.Labels {
		if HandedOn(key) && key != contract.MemberLabel {
			labels[key] = value
		}
	}
	for _, pair := range split(r.annotation("labels")) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			r.note("annotation %slabels: %q is no label, and is passed over: write key=value,key=value", contract.CapacityPrefix, pair)
			continue
		}
		labels[v1.NormalizeLabel(key)] = value
	}
	delete(labels, corev1.LabelHostname)
	return labels
}

// HandedOn reports whether Cluster API copies a label of Machines to their nodes.
func HandedOn(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	if domain == "node-role.kubernetes.io" {
		return true
	}
	for _, d := range []string{"node-restriction.kubernetes.io", "node.cluster.x-k8s.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

// capacity returns the machines' capacity, from the first source that has both cores and memory: annotations, the infrastructure template, a
// running node, or the built-in figures. Annotations replace single values of the other sources.
func (r *reader) capacity() (corev1.ResourceList, error) {
	annotated := corev1.ResourceList{}
	for name, from := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: "cpu", corev1.ResourceMemory: "memory", corev1.ResourceEphemeralStorage: "ephemeral-disk", corev1.ResourcePods: "maxPods",
	} {
		if err := r.quantity(annotated, name, from); err != nil {
			return nil, err
		}
	}
	if kind := r.annotation("gpu-type"); kind != "" {
		if err := r.quantity(annotated, corev1.ResourceName(kind), "gpu-count"); err != nil {
			return nil, err
		}
	}
	list := corev1.ResourceList{}
	whole := func(list corev1.ResourceList) bool { return list.Cpu().Sign() > 0 && list.Memory().Sign() > 0 }
	switch {
	case whole(annotated):
	case whole(r.at.capacity):
		list = r.at.capacity
	case r.Node != nil && whole(r.Node.Status.Capacity):
		list = r.Node.Status.Capacity
	case r.builtIn != nil:
		list = r.builtIn.Capacity
	default:
		missing := ""
		if ref := r.Deployment.Spec.Template.Spec.InfrastructureRef; r.Template == nil {
			missing = fmt.Sprintf(", and its %s %s could not be read", ref.Kind, ref.Name)
		}
		return nil, fmt.Errorf("nothing says how many cores and how much memory its machines have%s: set the annotations %scpu and %smemory", missing, contract.CapacityPrefix, contract.CapacityPrefix)
	}
	list = maps.Clone(list)
	maps.Copy(list, annotated)
	r.correct(list)
	if q := list[corev1.ResourcePods]; q.Sign() <= 0 {
		list[corev1.ResourcePods] = *resource.NewQuantity(defaultPods, resource.DecimalSI)
	}
	return list, nil
}

// worthNoting is a share of the stated capacity. A node with less than this share gets a note; a little less is normal, because some memory
// never reaches the node.
const worthNoting = 0.9

// correct lowers the stated capacity to that of a running machine, and adds resources that no source states.
func (r *reader) correct(list corev1.ResourceList) {
	if r.Node == nil || r.Outdated {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		said, has := list[name], r.Node.Status.Capacity[name]
		if has.Sign() <= 0 || said.Sign() > 0 && has.Cmp(said) >= 0 {
			continue
		}
		list[name] = has
		if has.AsApproximateFloat64() < worthNoting*said.AsApproximateFloat64() {
			r.note("node %s has %s of %s, where %s are said: no more is counted on; correct the annotation or the template", r.Node.Name, has.String(), name, said.String())
		}
	}
}

// quantity reads an annotation into a list, if it exists.
func (r *reader) quantity(list corev1.ResourceList, name corev1.ResourceName, from string) error {
	text := r.annotation(from)
	if text == "" {
		return nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return fmt.Errorf("annotation %s%s is %q: it must be a quantity such as 4 or 16Gi", contract.CapacityPrefix, from, text)
	}
	list[name] = q
	return nil
}

// Sizes returns the bounds of the replicas from Cluster Autoscaler's annotations; most is -1 without a bound.
func Sizes(d *contract.MachineDeployment) (least, most int32, err error) {
	most = -1
	for key, into := range map[string]*int32{contract.MinSizeAnnotation: &least, contract.MaxSizeAnnotation: &most} {
		text := d.Annotations[key]
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return 0, -1, fmt.Errorf("annotation %s is %q: it must be a whole number", key, text)
		}
		*into = int32(n)
	}
	return least, most, nil
}

func (r *reader) nodeLabel(key string) string {
	if r.Node == nil {
		return ""
	}
	return r.Node.Labels[key]
}

func (r *reader) builtInLabel(key string) string {
	if r.builtIn == nil || len(r.builtIn.Labels[key]) == 0 {
		return ""
	}
	return r.builtIn.Labels[key][0]
}

func (r *reader) onlyFailureDomain() string {
	if len(r.FailureDomains) == 1 {
		return r.FailureDomains[0]
	}
	return ""
}

// taints returns the taints of the annotation, and the taints of the template that nodes keep.
func (r *reader) taints() []corev1.Taint {
	var out []corev1.Taint
	for _, t := range r.Deployment.Spec.Template.Spec.Taints {
		if t.Propagation != "OnInitialization" {
			out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		}
	}
	for _, text := range split(r.annotation("taints")) {
		pair, effect, ok := cutLast(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		known := slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, corev1.TaintEffect(effect))
		if !ok || !known || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			r.note("annotation %staints: %q is no taint, and is passed over: write key=value:NoSchedule,key=value:NoExecute", contract.CapacityPrefix, text)
			continue
		}
		t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// split returns the parts of a text between commas, without spaces around them and without empty parts.
func split(text string) (out []string) {
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
