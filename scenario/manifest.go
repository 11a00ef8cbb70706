package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/scenario/schema"
)

// Input is the input of Read.
type Input struct {
	Documents []Document
	// InstanceTypes, unless nil, is the catalog of every node class, whatever the documents contain.
	InstanceTypes []engine.InstanceType
	// Region is the cluster's region of EC2 or Azure, "" if the documents shall determine it. It matters only for built-in catalogs.
	Region string
	// Now is the time of the snapshot if the documents do not contain it.
	Now time.Time
}

// Reading is the result of Read, with messages.
type Reading struct {
	Snapshot *engine.Snapshot
	// Options are the options of the snapshot's controller; the zero value if the documents do not contain them.
	Options engine.Options
	// Notes lists omissions and assumptions, one line each.
	Notes []string
	// Made describes the machines of the documents' MachineDeployments, if there are some and there is no NodePool.
	Made *Made
	// Elsewhere is true if the prices are from another region, because the prices in the own region are unknown.
	Elsewhere bool
	// Ignored are kinds, by name, that the controller ignores because their feature gates are off.
	Ignored map[string]bool
}

// Read makes a snapshot of Kubernetes objects: the output of kubectl, manifests that were never applied, or a snapshot file. It completes
// manifests like the API server and the controller manager. An error names the object and its place.
func Read(in Input) (*Reading, error) {
	m := newManifest(engine.Snapshot{Now: in.Now})
	if err := m.addAll(in.Documents); err != nil {
		return nil, err
	}
	m.override, m.region = in.InstanceTypes, in.Region
	s := m.finish()
	m.addNamespaces(&s)
	if m.catalog == nil {
		m.assumeStorageClasses(&s)
	}
	if err := m.addClasses(&s); err != nil {
		return nil, err
	}
	m.overlaid(&s)
	loadZones(&s)
	switch { // a controller's catalog shows whether the controller handles claims
	case m.catalog != nil && !m.catalog.IgnoresClaims, m.catalog == nil && len(s.DeviceClasses) > 0:
		s.Selectors = deviceselector.New().Ask
	case m.catalog == nil:
		answerSelectors(&s)
	}
	out := &Reading{Snapshot: &s, Made: m.made(&s), Notes: m.notes(), Elsewhere: m.elsewhere}
	if m.catalog != nil {
		out.Options = m.catalog.Options
		out.Ignored = map[string]bool{"NodeOverlay": m.catalog.IgnoresOverlays, "CapacityBuffer": m.catalog.IgnoresBuffers}
	}
	return out, nil
}

// definitions compiles the definitions once.
var definitions = sync.OnceValues(schema.New)

// manifest collects objects and completes them.
type manifest struct {
	snapshot    engine.Snapshot
	workloads   []workload
	autoscalers []*autoscaler
	priorities  []*schedulingv1.PriorityClass
	quotas      []*corev1.ResourceQuota
	classes     []*unstructured.Unstructured
	capi        clusterAPI
	catalog     *engine.CatalogDocument
	override    []engine.InstanceType
	region      string
	elsewhere   bool

	lives   map[string]bool   // pools with an own expireAfter
	ageless []*v1.NodeClaim   // claims without expireAfter
	seen    map[string]string // place of each object, by kind and name
	fresh   map[*corev1.Pod]bool
	makers  map[*corev1.Pod]string // the workloads of pods that are not in the files
	// refusedBy is the reason why admission refuses a pod.
	refusedBy map[*corev1.Pod]string
	uncounted []*policyv1.PodDisruptionBudget // budgets without a status
	ignored   map[string]int                  // number of objects that are not read, by kind and group
	unplanned map[string]bool                 // kinds that are not read and have a pod template
	said      []string
	unfilled  map[string]string // notes about files with templates or variables
}

func newManifest(s engine.Snapshot) *manifest {
	return &manifest{snapshot: clone(&s), lives: map[string]bool{}, seen: map[string]string{}, fresh: map[*corev1.Pod]bool{}, makers: map[*corev1.Pod]string{}, refusedBy: map[*corev1.Pod]string{}, ignored: map[string]int{}, unplanned: map[string]bool{}, unfilled: map[string]string{}}
}

func (m *manifest) note(format string, args ...any) {
	m.said = append(m.said, fmt.Sprintf(format, args...))
}

// notes returns each note once: first the files with templates, because they may cause other notes, and last the ignored kinds.
func (m *manifest) notes() []string {
	out := slices.Clone(m.said)
	slices.Sort(out)
	out = slices.Compact(append(slices.Sorted(maps.Values(m.unfilled)), out...))
	for _, kind := range slices.Sorted(maps.Keys(m.ignored)) {
		name, _, _ := strings.Cut(kind, ".")
		why := whyIgnored(kind)
		if m.unplanned[kind] {
			why = "its pods are not planned, because their number is known to its controller alone: add a Deployment or a Job with its pod template"
		}
		out = append(out, fmt.Sprintf("%d of kind %s ignored: %s", m.ignored[kind], name, why))
	}
	return out
}

// whyIgnored returns the reason why a kind is not read: no decision depends on it, or it belongs to Karpenter before v1.
func whyIgnored(kind string) string {
	switch kind {
	case "Provisioner.karpenter.sh":
		return "it belongs to Karpenter before v1; tenon convert -f writes it as a NodePool"
	case "AWSNodeTemplate.karpenter.k8s.aws":
		return "it belongs to Karpenter before v1; tenon convert -f writes it as an EC2NodeClass"
	case "MachinePool.cluster.x-k8s.io":
		return "of Cluster API, only MachineDeployments are scaled"
	case "VerticalPodAutoscaler.autoscaling.k8s.io":
		return "it may change what pods request; they are planned with what their templates say"
	case "Machine.karpenter.sh":
		return "it belongs to Karpenter before v1, where kind NodeClaim has taken its place; tenon convert -f leaves it out"
	}
	return "no decision depends on this kind"
}

// holdsContainers reports whether the value contains a list of containers at any depth, like a pod template.
func holdsContainers(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if list, isList := inner.([]any); key == "containers" && isList && len(list) > 0 || holdsContainers(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, holdsContainers)
	}
	return false
}

func (m *manifest) addAll(documents []Document) error {
	for _, d := range documents {
		if err := m.add(d); err != nil {
			return fmt.Errorf("%s%w", prefix(d.Where), err)
		}
	}
	return nil
}

func prefix(where string) string {
	if where == "" {
		return ""
	}
	return where + ": "
}

// add reads one object. Objects that no decision depends on are only counted.
func (m *manifest) add(d Document) error {
	u := d.Object
	gvk := u.GroupVersionKind()
	if gvk.Group+"/"+gvk.Version == engine.CatalogAPIVersion && gvk.Kind == engine.CatalogKind {
		return m.addCatalog(u)
	}
	add := m.adder(gvk.GroupKind().String())
	if add == nil {
		m.ignored[gvk.GroupKind().String()]++
		if u.GetResourceVersion() == "" && holdsContainers(u.Object["spec"]) {
			m.unplanned[gvk.GroupKind().String()] = true
		}
		return nil
	}
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(strings.TrimSuffix(u.GetGenerateName(), "-"))
	}
	if name, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "name"); name != nil && u.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is %v, which is no text: put it in quotes", gvk.Kind, name)
	}
	if u.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is missing", gvk.Kind)
	}
	if namespaced(gvk.Kind) && u.GetNamespace() == "" {
		u.SetNamespace(metav1.NamespaceDefault)
	}
	id := identity(u)
	if before, ok := m.seen[id]; ok {
		return fmt.Errorf("%s is defined twice: first in %s", id, before)
	}
	m.seen[id] = cmp.Or(d.Where, "the API server")
	if u.GetUID() == "" {
		u.SetUID(uidOf(u.GetNamespace(), u.GetName()))
	}
	unready := m.unready(d)
	m.countAmounts(id, "", u.Object)
	if err := add(u); err != nil {
		if unready != "" {
			return fmt.Errorf("%s: %s", id, unready)
		}
		if field := badQuantity(u); field != "" {
			err = errors.New(field)
		}
		return fmt.Errorf("%s: %w", id, err)
	}
	return nil
}

// identity returns an object's name in messages.
func identity(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
}

func namespaced(kind string) bool {
	switch kind {
	case "Node", "NodePool", "NodeClaim", "NodeOverlay", "PriorityClass", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver",
		"VolumeAttachment", "DeviceClass", "ResourceSlice", "RuntimeClass":
		return false
	}
	return !strings.HasSuffix(kind, "NodeClass")
}

// adder returns the function that reads a kind. It returns nil for kinds that no decision depends on.
func (m *manifest) adder(kind string) func(*unstructured.Unstructured) error {
	switch kind {
	case "Pod":
		return m.addPod
	case "Node":
		return m.addNode
	case "NodePool." + v1.Group:
		return m.addPool
	case "NodeClaim." + v1.Group:
		return m.addClaim
	case "NodeOverlay." + v1.Group:
		return m.addOverlay
	case "CapacityBuffer." + autoscalingv1beta1.GroupVersion.Group:
		return m.addBuffer
	case "ProvisioningRequest." + autoscalingv1.GroupVersion.Group:
		return m.addRequest
	case "PodGroup." + schedulingv1alpha3.GroupVersion.Group:
		return m.addPodGroup
	case "PodTemplate":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.PodTemplates) }
	case "DaemonSet.apps":
		return m.addDaemonSet
	case "Deployment.apps", "StatefulSet.apps", "ReplicaSet.apps", "Job.batch", "ReplicationController":
		return m.addWorkload
	case "HorizontalPodAutoscaler.autoscaling":
		return m.addHPA
	case "ScaledObject.keda.sh":
		return m.addScaledObject
	case "PodDisruptionBudget.policy":
		return m.addBudget
	case "LimitRange":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.LimitRanges) }
	case "PersistentVolume":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.PersistentVolumes) }
	case "PersistentVolumeClaim":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.PersistentVolumeClaims) }
	case "StorageClass.storage.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.StorageClasses) }
	case "CSINode.storage.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.CSINodes) }
	case "CSIDriver.storage.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.CSIDrivers) }
	case "CSIStorageCapacity.storage.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.CSIStorageCapacities) }
	case "VolumeAttachment.storage.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.VolumeAttachments) }
	case "Namespace":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.Namespaces) }
	case "Service":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.Services) }
	case "DeviceClass.resource.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.DeviceClasses) }
	case "ResourceClaim.resource.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.ResourceClaims) }
	case "ResourceClaimTemplate.resource.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.ResourceClaimTemplates) }
	case "ResourceSlice.resource.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.ResourceSlices) }
	case "RuntimeClass.node.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.snapshot.RuntimeClasses) }
	case "ResourceQuota":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.quotas) }
	case "PriorityClass.scheduling.k8s.io":
		return func(u *unstructured.Unstructured) error { return decode(m, u, &m.priorities) }
	}
	if add := m.clusterAPIAdder(kind); add != nil {
		return add
	}
	if name, group, _ := strings.Cut(kind, "."); strings.HasSuffix(name, "NodeClass") && groupOfClass(name) == group {
		return m.addClass
	}
	return nil
}

// decode converts an object and adds it to a list. It adds a note about each unknown field, because such a field is usually misspelt.
func decode[T any, P interface {
	*T
	runtime.Object
}](m *manifest, u *unstructured.Unstructured, to *[]P) error {
	object := P(new(T))
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, object, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		if schemas, err := definitions(); err != nil || !schemas.Knows(u) { // otherwise unknown fields have been noted already
			m.noteUnknown(u, strict.Errors(), *object)
		}
		err = nil
	}
	if err != nil {
		return wrongType(u, P(new(T)), err)
	}
	*to = append(*to, object)
	return nil
}

// noteUnknown notes a strict reader's errors.
func (m *manifest) noteUnknown(u *unstructured.Unstructured, errs []error, kind any) {
	for _, err := range errs {
		text := err.Error()
		if path, found := strings.CutPrefix(text, "unknown field "); found {
			text = unknownField(strings.Trim(path, `"`), kind)
		}
		m.note("%s: %s", identity(u), text)
	}
}

func (m *manifest) addCatalog(u *unstructured.Unstructured) error {
	if m.catalog != nil {
		return fmt.Errorf("there is a second %s document", engine.CatalogKind)
	}
	c := &engine.CatalogDocument{}
	text, err := json.Marshal(u.Object)
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("read the %s document: %s cannot be a value of this kind: %s", engine.CatalogKind, wrong.Field, wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("read the %s document: %w", engine.CatalogKind, err)
	}
	if err := engine.CheckNodeOverheadPrice(c.NodeOverheadPrice); err != nil {
		return fmt.Errorf("read the %s document: nodeOverheadPrice is %v: %w", engine.CatalogKind, c.NodeOverheadPrice, err)
	}
	if err := engine.CheckCommitments(c.Commitments); err != nil {
		return fmt.Errorf("read the %s document: %w", engine.CatalogKind, err)
	}
	m.catalog = c
	return nil
}

// checked sets the defaults of an object of Tenon's own kinds and checks its rules. An object from an API server is not refused because of
// later rules.
func (m *manifest) checked(u *unstructured.Unstructured) error {
	schemas, err := definitions()
	if err != nil {
		return err
	}
	unknown, err := schemas.UnknownFields(u)
	if err != nil {
		return withoutName(u, err)
	}
	for _, field := range unknown {
		m.note("%s: %s", identity(u), unknownField(field, typeOfKind(u.GetKind())))
	}
	err = schemas.Apply(u)
	if err != nil && u.GetResourceVersion() != "" {
		m.note("%v", err)
		return nil
	}
	return withoutName(u, err)
}

// withoutName removes the object's name from a schema's message, because the caller adds the name and the place.
func withoutName(u *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("%s %q", u.GetKind(), u.GetName()))
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(text, " is invalid"), ": "))
}

// finish completes the objects and returns the snapshot, still without classes.
func (m *manifest) finish() engine.Snapshot {
	if m.catalog != nil {
		m.snapshot.NodeOverheadPrice, m.snapshot.Commitments = m.catalog.NodeOverheadPrice, m.catalog.Commitments
	}
	if m.catalog != nil && !m.catalog.Time.IsZero() {
		m.snapshot.Now = m.catalog.Time.UTC()
		m.snapshot.EarlierPasses, m.snapshot.ExpectedPods, m.snapshot.ScaleUps = m.catalog.EarlierPasses, m.catalog.ExpectedPods, m.catalog.ScaleUps
	}
	for _, l := range m.snapshot.LimitRanges {
		defaultLimitRange(l)
	}
	for _, n := range m.snapshot.Namespaces {
		completeNamespace(n)
	}
	m.scaleWorkloads()
	m.expandWorkloads()
	for _, d := range m.snapshot.DaemonSets {
		defaultRequests(&d.Spec.Template.Spec)
		m.noteRuntimeClass(fmt.Sprintf("DaemonSet %s/%s", d.Namespace, d.Name), &d.Spec.Template.Spec)
	}
	for _, p := range m.snapshot.Pods {
		m.completePod(p)
	}
	m.noteSelectors()
	m.admit()
	for _, b := range m.uncounted {
		m.completeBudget(b)
	}
	m.completeAges()
	m.completeVolumes()
	for _, p := range m.snapshot.NodePools {
		m.completePool(p)
	}
	for _, n := range m.snapshot.Nodes {
		m.completeNode(n)
	}
	m.keepForBuffers()
	return m.snapshot
}
