package volume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Annotations by which the parts of Kubernetes that bind volumes talk to each other.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
	noProvisioner = "kubernetes.io/no-provisioner"
)

// claimFacts is what a claim needs of a node, the same for every pod that uses it.
type claimFacts struct {
	problem string // why no pod can use the claim now; empty if one can
	// places are where the volume is or can be made; none mean anywhere.
	places [][]requirement.Expression
	// named and namedProblem are the same for pods that name the claim; for them the volume's labels count as well.
	named        [][]requirement.Expression
	namedProblem string
	attach       Attachment // without a driver if no CSI driver attaches it
	// reach lists the labels that say where the volume will be, of a claim whose volume is found or made where its first
	// pod runs.
	reach []string
	// taken is what the claim takes from local pools of free volumes.
	taken []Attachment
	// sole is the only volume that the claim can be bound to.
	sole string
	// take is what the claim takes of available volumes, nil for nothing.
	take *SupplyTake
}

// factsOf finds the claim behind a volume; nil for a volume without a claim.
func (v *Volumes) factsOf(pod *corev1.Pod, volume *corev1.Volume) (*claimFacts, ClaimID) {
	if id, ok := namedClaim(pod, volume); ok {
		return v.facts1(id), id
	}
	if volume.Ephemeral == nil {
		return nil, ClaimID{}
	}
	id := ClaimID{pod.Namespace, pod.Name + "-" + volume.Name}
	claim := v.claims[id]
	switch {
	case claim == nil:
		return v.expectedFacts(id, volume.Ephemeral.VolumeClaimTemplate), id
	case !metav1.IsControlledBy(claim, pod):
		return &claimFacts{problem: "it was not made for the pod, whose ephemeral volume " + volume.Name + " needs a claim of this name"}, id
	}
	return v.facts1(id), id
}

// facts1 works out the facts of one claim the first time that it is asked for.
func (v *Volumes) facts1(id ClaimID) *claimFacts {
	facts := v.facts[id]
	if facts == nil {
		facts = v.read(v.claims[id])
		v.facts[id] = facts
	}
	return facts
}

// expectedFacts are those of a claim that will be made from a pod's template in a moment.
func (v *Volumes) expectedFacts(id ClaimID, template *corev1.PersistentVolumeClaimTemplate) *claimFacts {
	if template == nil {
		return &claimFacts{problem: "the pod's ephemeral volume has no template to make it from"}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	claim.Namespace, claim.Name = id.namespace, id.name
	if claim.Spec.StorageClassName == nil && claimClass(claim) == "" && v.standard != "" {
		claim.Spec.StorageClassName = &v.standard
	}
	return v.read(claim)
}

func (v *Volumes) read(claim *corev1.PersistentVolumeClaim) *claimFacts {
	switch {
	case claim == nil:
		return &claimFacts{problem: "it does not exist"}
	case claim.Status.Phase == corev1.ClaimLost:
		return &claimFacts{problem: "it is lost: its volume " + claim.Spec.VolumeName + " is gone", attach: v.attachmentOf(claim)}
	case claim.DeletionTimestamp != nil:
		return &claimFacts{problem: "it is being deleted", attach: v.attachmentOf(claim)}
	}
	var facts *claimFacts
	if claim.Spec.VolumeName != "" {
		facts = v.readBound(claim)
	} else {
		facts = v.readUnbound(claim)
		facts.named = facts.places
	}
	facts.attach = v.attachmentOf(claim)
	return facts
}

// readBound: the node must be where the volume is.
func (v *Volumes) readBound(claim *corev1.PersistentVolumeClaim) *claimFacts {
	name := claim.Spec.VolumeName
	volume := v.Persistent[name]
	switch {
	case !metav1.HasAnnotation(claim.ObjectMeta, bindCompleted):
		return &claimFacts{problem: "it is not bound to its volume " + name + " yet"}
	case volume == nil:
		return &claimFacts{problem: "its volume " + name + " does not exist"}
	case volume.DeletionTimestamp != nil:
		return &claimFacts{problem: "its volume " + name + " is being deleted"}
	}
	places, ok := v.placesOf(volume, true)
	if !ok {
		return &claimFacts{problem: "the node affinity of its volume " + name + " matches no node"}
	}
	facts := &claimFacts{places: places, named: places}
	if zones := labelPlaces(volume); zones != nil {
		if facts.named, ok = kube.Combine(places, zones, MostAlternatives); !ok {
			facts.namedProblem = "the labels of its volume " + name + " contradict its node affinity"
		}
	}
	return facts
}

// placesOf reads the volume's node affinity: nil for none, false if no node can match. Like kube-scheduler it passes over
// terms that cannot be read, and over fields.
//
// A bound volume on a disk of a host that is gone keeps its pod from running for ever. With forget, what the volume says
// of such a host is passed over, as Karpenter does: the pod is planned for as if the volume were made anew. As long as the
// host is there, it holds.
func (v *Volumes) placesOf(volume *corev1.PersistentVolume, forget bool) ([][]requirement.Expression, bool) {
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
			if forget && e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && !v.anyHost(e.Values) {
				continue
			}
			all = append(all, kube.Expression(e.Key, e.Operator, e.Values))
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

func (v *Volumes) anyHost(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return v.Hostnames[name] })
}

func bounded(places [][]requirement.Expression) [][]requirement.Expression {
	return places[:min(len(places), MostAlternatives)]
}

// labelPlaces reads the labels by which older volumes say where they are: zones and regions, several of them parted by
// two underscores. They do not bind nodes that have no such label at all.
func labelPlaces(volume *corev1.PersistentVolume) [][]requirement.Expression {
	var all []requirement.Expression
	for _, key := range []string{
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	} {
		text, ok := volume.Labels[key]
		if !ok {
			continue
		}
		values := strings.Split(text, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			all = append(all, kube.Expression(key, corev1.NodeSelectorOpIn, values))
		}
	}
	if len(all) == 0 {
		return nil
	}
	places := [][]requirement.Expression{{
		kube.Expression(corev1.LabelTopologyRegion, corev1.NodeSelectorOpDoesNotExist, nil),
		kube.Expression(corev1.LabelTopologyZone, corev1.NodeSelectorOpDoesNotExist, nil),
	}}
	if folded, ok := kube.Intersect(all); ok {
		places = append(places, folded)
	}
	return kube.Alternatives(places)
}

// readUnbound: the volume will be found or made where the pod is, unless the claim has to be bound before.
func (v *Volumes) readUnbound(claim *corev1.PersistentVolumeClaim) *claimFacts {
	name := claimClass(claim)
	class := v.classes[name]
	switch {
	case name == "":
		return &claimFacts{problem: "it is not bound and names no storage class"}
	case class == nil:
		return &claimFacts{problem: "it is not bound, and its storage class " + name + " does not exist"}
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return &claimFacts{problem: "it is not bound yet, and its storage class " + name + " binds volumes before pods are placed"}
	}
	if node, ok := claim.Annotations[selectedNode]; ok {
		if !v.nodes[node] {
			return &claimFacts{problem: "its volume is being made for node " + node + ", which is gone"}
		}
		places, ok := classPlaces(class)
		if !ok {
			return &claimFacts{problem: nowhereAllowed(class)}
		}
		there := [][]requirement.Expression{{kube.Expression(kube.NodeNameKey, corev1.NodeSelectorOpIn, []string{node})}}
		places, _ = kube.Combine(there, places, MostAlternatives)
		return &claimFacts{places: places}
	}
	return v.readDelayed(claim, class)
}

// readDelayed: a pod can go where a volume that waits for a claim is, or where the class can make one. Where a volume is kept
// for the claim, no other will do.
func (v *Volumes) readDelayed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *claimFacts {
	suiting := suitingOf(v.reserved[ClaimID{claim.Namespace, claim.Name}], claim)
	kept := len(suiting) > 0
	made := !kept && class.Provisioner != "" && class.Provisioner != noProvisioner
	var places [][]requirement.Expression
	if made {
		var ok bool
		if places, ok = classPlaces(class); ok && len(places) == 0 {
			return &claimFacts{reach: v.reachOf(provisionerDriver(class.Provisioner))}
		}
	}
	if !kept {
		suiting = suitingOf(v.available[class.Name], claim)
	}
	var reachable []*corev1.PersistentVolume
	anywhere := false
	for _, volume := range suiting {
		if found, ok := v.placesOf(volume, false); ok {
			reachable, places = append(reachable, volume), append(places, found...)
			anywhere = anywhere || len(found) == 0
		}
	}
	if kept && len(reachable) == 0 {
		return &claimFacts{problem: "the node affinity of the volume that is kept for it matches no node"}
	}
	if made && len(places) == 0 && !anywhere {
		return &claimFacts{problem: nowhereAllowed(class)}
	}
	if !made && len(reachable) == 0 {
		return &claimFacts{problem: NoVolumeFree(class.Name)}
	}
	facts := &claimFacts{}
	if !anywhere {
		facts.places, facts.reach = bounded(kube.Alternatives(places)), labelsOf(places)
	}
	if made && !anywhere {
		facts.reach = v.reachOf(provisionerDriver(class.Provisioner))
	}
	if !made {
		facts.sole, facts.taken = singleOf(reachable), v.taken(claim)
	}
	if !kept {
		facts.take = v.availableOf[class.Name].take(reachable)
	}
	return facts
}

func suitingOf(volumes []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	var out []*corev1.PersistentVolume
	for _, volume := range volumes {
		if suits(volume, claim) {
			out = append(out, volume)
		}
	}
	return out
}

func nowhereAllowed(class *storagev1.StorageClass) string {
	return "the allowed topologies of its storage class " + class.Name + " match no node"
}

// classPlaces reads the class's allowed topologies: nil for none, false if no node can match.
func classPlaces(class *storagev1.StorageClass) ([][]requirement.Expression, bool) {
	var places [][]requirement.Expression
	for _, term := range class.AllowedTopologies {
		var all []requirement.Expression
		for _, e := range term.MatchLabelExpressions {
			all = append(all, kube.Expression(e.Key, corev1.NodeSelectorOpIn, e.Values))
		}
		if folded, ok := kube.Intersect(all); ok && len(all) > 0 {
			places = append(places, folded)
		}
	}
	return bounded(kube.Alternatives(places)), len(places) > 0 || len(class.AllowedTopologies) == 0
}

// suits reports whether the claim could be bound to a volume that exists already.
func suits(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
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
	if claim.Spec.Selector == nil {
		return true
	}
	rules, ok := kube.Intersect(kube.SelectorRules(claim.Spec.Selector))
	of := kube.PodSelector{Rules: rules, Nothing: !ok || kube.SelectorProblem(claim.Spec.Selector) != ""}
	return of.MatchesLabels(volume.Labels)
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

// claimClass is the storage class of the claim, empty for none. An old annotation still goes before the field.
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
