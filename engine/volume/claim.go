package volume

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Annotations that Kubernetes' volume binding sets, and a provisioner name.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
	noProvisioner = "kubernetes.io/no-provisioner"
)

// Reader reads the claims of a snapshot, in the way of kube-scheduler's VolumeBinding and VolumeZone.
type Reader struct {
	snapshot   *engine.Snapshot
	name       func(label string) string // v1.NormalizeLabel or kube.AsWritten
	claims     map[ClaimID]*corev1.PersistentVolumeClaim
	Persistent map[string]*corev1.PersistentVolume
	available  map[string][]*corev1.PersistentVolume  // volumes that wait for any claim, by class
	reserved   map[ClaimID][]*corev1.PersistentVolume // volumes that name their claim
	suit       map[ClaimID][]*corev1.PersistentVolume // the available volumes that suit a claim, once computed
	classes    map[string]*storagev1.StorageClass
	standard   string // the default class
	// Hostnames holds the hostnames of existing nodes; nil if disks of removed hosts count like any other.
	Hostnames  map[string]bool
	topologies map[string][]string // topology keys by driver, nil until first used
	tracked    map[string]bool     // drivers that publish their free storage
	left       map[string]*StorageLeft
}

// NewReader indexes the snapshot. The function name maps label names.
func NewReader(s *engine.Snapshot, name func(label string) string) Reader {
	r := Reader{
		snapshot:   s,
		name:       name,
		claims:     make(map[ClaimID]*corev1.PersistentVolumeClaim, len(s.PersistentVolumeClaims)),
		Persistent: make(map[string]*corev1.PersistentVolume, len(s.PersistentVolumes)),
		available:  map[string][]*corev1.PersistentVolume{},
		reserved:   map[ClaimID][]*corev1.PersistentVolume{},
		suit:       map[ClaimID][]*corev1.PersistentVolume{},
		classes:    map[string]*storagev1.StorageClass{},
		tracked:    map[string]bool{},
		left:       map[string]*StorageLeft{},
	}
	for _, d := range s.CSIDrivers {
		r.tracked[d.Name] = d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity
	}
	for _, c := range s.PersistentVolumeClaims {
		r.claims[ClaimID{c.Namespace, c.Name}] = c
	}
	for _, p := range s.PersistentVolumes {
		r.Persistent[p.Name] = p
		switch ref := p.Spec.ClaimRef; {
		case p.DeletionTimestamp != nil:
		case ref != nil:
			id := ClaimID{ref.Namespace, ref.Name}
			r.reserved[id] = append(r.reserved[id], p)
		case p.Status.Phase == corev1.VolumeAvailable:
			r.available[VolumeClass(p)] = append(r.available[VolumeClass(p)], p)
		}
	}
	var standard *storagev1.StorageClass
	for _, c := range s.StorageClasses {
		r.classes[c.Name] = c
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" && (standard == nil || newerClass(c, standard)) {
			standard, r.standard = c, c.Name
		}
	}
	return r
}

// newerClass orders default classes like the API server: the newest counts, then the first by name.
func newerClass(a, b *storagev1.StorageClass) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Claim holds a claim's needs on a node, the same for every pod that uses it.
type Claim struct {
	// Problem says why no pod can use the claim now.
	Problem string
	// Places are the places of its volume or, for a claim without one, the places where a driver can make one. None means anywhere.
	Places [][]requirement.Expression
	// Labelled are the places by the volume's labels, for pods that name the claim.
	Labelled [][]requirement.Expression
	// Waits is true for a claim whose volume is found or made where its first pod runs. The claim takes the first volume of Free that the node
	// reaches. If there is none and Makes is true, it takes a new volume. Kept means that the volumes of Free are reserved for the claim.
	Waits, Kept, Makes bool
	Free               []FreeVolume
	// Storage describes the lack of storage that excludes places. It is "" if no driver limits the storage.
	Storage string
	class   *storagev1.StorageClass
}

// FreeVolume is a volume that a claim can be bound to, with its places; no places mean anywhere.
type FreeVolume struct {
	*corev1.PersistentVolume
	Places [][]requirement.Expression
}

// ClaimOf returns the claim of a volume, or the problem why the pod has none. For an ephemeral volume whose claim does not exist yet, it returns
// the future claim. All results are empty for a volume without a claim.
func (r *Reader) ClaimOf(pod *corev1.Pod, volume *corev1.Volume) (claim *corev1.PersistentVolumeClaim, id ClaimID, problem string) {
	if volume.PersistentVolumeClaim != nil {
		id = ClaimID{pod.Namespace, volume.PersistentVolumeClaim.ClaimName}
		if claim = r.claims[id]; claim == nil {
			problem = "it does not exist"
		}
		return claim, id, problem
	}
	if volume.Ephemeral == nil {
		return nil, id, ""
	}
	id = ClaimID{pod.Namespace, pod.Name + "-" + volume.Name}
	claim, template := r.claims[id], volume.Ephemeral.VolumeClaimTemplate
	switch {
	case claim != nil && !metav1.IsControlledBy(claim, pod):
		return nil, id, "it was not made for the pod, whose ephemeral volume " + volume.Name + " needs a claim of this name"
	case claim != nil:
		return claim, id, ""
	case template == nil:
		return nil, id, "the pod's ephemeral volume has no template to make it from"
	}
	claim = &corev1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	claim.Namespace, claim.Name = id.namespace, id.name
	if claim.Spec.StorageClassName == nil && claimClass(claim) == "" && r.standard != "" {
		claim.Spec.StorageClassName = &r.standard
	}
	return claim, id, ""
}

// Read returns the claim's needs.
func (r *Reader) Read(claim *corev1.PersistentVolumeClaim) Claim {
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return Claim{Problem: "it is lost: its volume " + claim.Spec.VolumeName + " is gone"}
	case claim.DeletionTimestamp != nil:
		return Claim{Problem: "it is being deleted"}
	case claim.Spec.VolumeName != "":
		return r.readBound(claim)
	}
	return r.readUnbound(claim)
}

// readBound reads a bound claim: the node must reach its volume.
func (r *Reader) readBound(claim *corev1.PersistentVolumeClaim) Claim {
	name := claim.Spec.VolumeName
	volume := r.Persistent[name]
	switch {
	case !metav1.HasAnnotation(claim.ObjectMeta, bindCompleted):
		return Claim{Problem: "it is not bound to its volume " + name + " yet"}
	case volume == nil:
		return Claim{Problem: "its volume " + name + " does not exist"}
	case volume.DeletionTimestamp != nil:
		return Claim{Problem: "its volume " + name + " is being deleted"}
	}
	places, ok := r.placesOf(volume, r.Hostnames != nil)
	if !ok {
		return Claim{Problem: "the node affinity of its volume " + name + " matches no node"}
	}
	return Claim{Places: places, Labelled: r.labelPlaces(volume)}
}

// placesOf reads the volume's node affinity: nil for none, false if no node can match. Like kube-scheduler it skips unreadable terms, and
// fields.
//
// A bound volume on a disk of a removed host would keep its pod from running forever. With forget, expressions on such a host are skipped, as
// Karpenter does: the pod is planned as if its volume were made anew. While the host exists, they count.
func (r *Reader) placesOf(volume *corev1.PersistentVolume, forget bool) ([][]requirement.Expression, bool) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil, true
	}
	forget = forget && (volume.Spec.Local != nil || volume.Spec.HostPath != nil)
	var places [][]requirement.Expression
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if _, text := kube.NodeTermProblem(term); text != "" || kube.IsEmptyTerm(term) {
			continue
		}
		var all []requirement.Expression
		for _, e := range term.MatchExpressions {
			if forget && e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && !r.anyHost(e.Values) {
				continue
			}
			all = append(all, r.expression(e.Key, e.Operator, e.Values))
		}
		if len(all) == 0 {
			return nil, true // this term holds anywhere
		}
		if folded, ok := kube.Intersect(all); ok {
			places = append(places, folded)
		}
	}
	return bounded(kube.Alternatives(places)), len(places) > 0
}

func (r *Reader) expression(key string, op corev1.NodeSelectorOperator, values []string) requirement.Expression {
	return kube.ExpressionAs(r.name, key, op, values)
}

func (r *Reader) anyHost(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return r.Hostnames[name] })
}

func bounded(places [][]requirement.Expression) [][]requirement.Expression {
	return places[:min(len(places), MostAlternatives)]
}

// labelPlaces reads the labels with the places of older volumes: zones and regions, several of them separated by two underscores. Nodes without
// any such label are not bound by them. Nodes need not have the older name of a label.
func (r *Reader) labelPlaces(volume *corev1.PersistentVolume) [][]requirement.Expression {
	var here [][]requirement.Expression
	var absent []requirement.Expression
	meets, labelled := true, false
	for _, key := range []string{
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	} {
		without := requirement.Expression{Key: r.name(key), Op: requirement.DoesNotExist}
		absent = append(absent, without)
		text, ok := volume.Labels[key]
		values := strings.Split(text, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !ok || slices.Contains(values, "") {
			continue
		}
		labelled = true
		ways := [][]requirement.Expression{{requirement.Expect(r.name(key), requirement.In, values)}}
		if newer := v1.NormalizeLabel(key); newer != r.name(key) {
			ways = append(ways, []requirement.Expression{without, requirement.Expect(newer, requirement.In, values)})
		}
		if meets {
			here, meets = kube.Combine(here, ways, MostAlternatives)
		}
	}
	if !labelled {
		return nil
	}
	absent, _ = kube.Intersect(absent)
	return kube.Alternatives(append(here, absent))
}

// readUnbound reads an unbound claim: its volume is found or made where the pod runs, unless the class binds volumes earlier.
func (r *Reader) readUnbound(claim *corev1.PersistentVolumeClaim) Claim {
	name := claimClass(claim)
	class := r.classes[name]
	switch {
	case name == "":
		return Claim{Problem: "it is not bound and names no storage class"}
	case class == nil:
		return Claim{Problem: "it is not bound, and its storage class " + name + " does not exist"}
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return Claim{Problem: "it is not bound yet, and its storage class " + name + " binds volumes before pods are placed"}
	}
	node, ok := claim.Annotations[selectedNode]
	if !ok {
		return r.readDelayed(claim, class)
	}
	if !slices.ContainsFunc(r.snapshot.Nodes, func(n *corev1.Node) bool { return n.Name == node }) {
		return Claim{Problem: "its volume is being made for node " + node + ", which is gone"}
	}
	places, ok := r.classPlaces(class)
	if !ok {
		return Claim{Problem: nowhereAllowed(class)}
	}
	there := [][]requirement.Expression{{kube.Expression(kube.NodeNameKey, corev1.NodeSelectorOpIn, []string{node})}}
	places, _ = kube.Combine(there, places, MostAlternatives)
	return Claim{Places: places}
}

// readDelayed reads a claim that waits for its first pod: the pod can run where a suitable free volume is, or where the class can make one. If
// volumes are reserved for the claim, only these count.
func (r *Reader) readDelayed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) Claim {
	out := Claim{Waits: true, class: class}
	suiting := suitingOf(r.reserved[ClaimID{claim.Namespace, claim.Name}], claim)
	if out.Kept = len(suiting) > 0; !out.Kept {
		suiting = r.suiting(claim, class)
		if class.Provisioner != "" && class.Provisioner != noProvisioner {
			out.Places, out.Makes = r.classPlaces(class)
			r.limitToStorage(&out, claim, class)
		}
	}
	for _, volume := range suiting {
		if places, ok := r.placesOf(volume, false); ok {
			out.Free = append(out.Free, FreeVolume{volume, places})
		}
	}
	slices.SortFunc(out.Free, func(a, b FreeVolume) int {
		have, other := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
		return cmp.Or(have.Cmp(other), strings.Compare(a.Name, b.Name))
	})
	switch {
	case out.Makes || len(out.Free) > 0:
		out.Problem = ""
	case out.Problem != "":
	case out.Kept:
		out.Problem = "the node affinity of the volume that is kept for it matches no node"
	case makesNone(class):
		out.Problem = NoVolumeFree(class.Name)
	default:
		out.Problem = nowhereAllowed(class)
	}
	return out
}

// suiting lists the available volumes of the class that can be bound to the claim.
func (r *Reader) suiting(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) []*corev1.PersistentVolume {
	id := ClaimID{claim.Namespace, claim.Name}
	if r.claims[id] != claim { // the future claim of an ephemeral volume
		return suitingOf(r.available[class.Name], claim)
	}
	out, known := r.suit[id]
	if !known {
		out = suitingOf(r.available[class.Name], claim)
		r.suit[id] = out
	}
	return out
}

// suitingOf lists the volumes that can be bound to the claim.
func suitingOf(volumes []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	if len(volumes) == 0 {
		return nil
	}
	var selector kube.PodSelector
	if s := claim.Spec.Selector; s != nil {
		rules, ok := kube.Intersect(kube.SelectorRules(s))
		selector = kube.PodSelector{Rules: rules, Nothing: !ok || kube.SelectorProblem(s) != ""}
	}
	var out []*corev1.PersistentVolume
	for _, volume := range volumes {
		if suits(volume, claim, &selector) {
			out = append(out, volume)
		}
	}
	return out
}

func nowhereAllowed(class *storagev1.StorageClass) string {
	return "the allowed topologies of its storage class " + class.Name + " match no node"
}

// classPlaces reads the class's allowed topologies: nil for none, false if no node can match.
func (r *Reader) classPlaces(class *storagev1.StorageClass) ([][]requirement.Expression, bool) {
	var places [][]requirement.Expression
	for _, term := range class.AllowedTopologies {
		var all []requirement.Expression
		for _, e := range term.MatchLabelExpressions {
			all = append(all, r.expression(e.Key, corev1.NodeSelectorOpIn, e.Values))
		}
		if folded, ok := kube.Intersect(all); ok && len(all) > 0 {
			places = append(places, folded)
		}
	}
	return bounded(kube.Alternatives(places)), len(places) > 0 || len(class.AllowedTopologies) == 0
}

func suits(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, selector *kube.PodSelector) bool {
	have, need := volume.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if VolumeClass(volume) != claimClass(claim) || have.Cmp(need) < 0 || volumeMode(volume.Spec.VolumeMode) != volumeMode(claim.Spec.VolumeMode) ||
		deref(volume.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName) {
		return false
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		return ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(volume.Spec.AccessModes, mode) {
			return false
		}
	}
	return claim.Spec.Selector == nil || selector.MatchesLabels(volume.Labels)
}

func volumeMode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// claimClass returns the claim's storage class. It returns "" if there is none. An old annotation takes precedence over the field.
func claimClass(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return deref(claim.Spec.StorageClassName)
}

func VolumeClass(volume *corev1.PersistentVolume) string {
	if class, ok := volume.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return volume.Spec.StorageClassName
}
