package volume

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// MostAlternatives bounds the number of combinations of the places of a pod's volumes.
const MostAlternatives = 64

// Volumes computes the needs of pods' volumes on a node, in the way of kube-scheduler's VolumeBinding, VolumeZone, VolumeRestrictions and
// NodeVolumeLimits. It remembers results by claim, and is for one goroutine only.
type Volumes struct {
	Reader
	hostnameOf  map[string]string // by node
	csiNodes    map[string]*storagev1.CSINode
	attachments map[string][]*storagev1.VolumeAttachment // by node
	ofTypes     AttachLimits
	limited     map[string]bool              // drivers with a limit on some machine
	stocks      []*localPool                 // free volumes that claims compete for
	availableOf map[string]*AvailableVolumes // free volumes by class that several hosts can reach

	facts map[claimUse]*claimFacts
	users map[Attachment]int      // pods that use the volume, for limited drivers
	held  map[Attachment]bool     // volumes attached to a node that is not being deleted
	once  map[ClaimID]*claimUsers // ReadWriteOncePod claims of the snapshot's pods
	// waiting counts, by claim without a volume, its pods without a node.
	waiting map[ClaimID]int
}

// ClaimID names a claim. It is not a text, because each pod's claims are looked up.
type ClaimID struct{ namespace, name string }

// claimUse is a claim with its way of use: by name, or as an ephemeral volume.
type claimUse struct {
	ClaimID
	named bool
}

func (c ClaimID) String() string { return c.namespace + "/" + c.name }

// claimUsers holds the pods of a claim that only one pod may use.
type claimUsers struct {
	pods  int
	bound []*corev1.Pod // running pods
}

// Attachment is a volume that a CSI driver attaches to a node. Before the volume exists, its handle is its claim's name.
type Attachment struct{ Driver, handle string }

// PodVolumes holds the needs of one pod's volumes.
type PodVolumes struct {
	// Problem is why the pod cannot run anywhere now.
	Problem engine.Reason
	// Alternatives are the places that all of the pod's volumes reach: a node must meet one of them. None means no constraint. The slices are
	// shared and must not be changed.
	Alternatives [][]requirement.Expression
	// Storage describes the claim that lacks storage in other places. It is "" if storage excludes no place.
	Storage string
	// Attach lists the volumes to attach, if their driver has a limit on any machine. Those in Shared are also used by other pods, or are
	// attached to some node: only the first pod on a node attaches the volume.
	Attach, Shared []Attachment
	// Undecided lists claims without a volume that other waiting pods use too.
	Undecided []SharedClaim
	// Once names claims that one pod at a time may use in the whole cluster (ReadWriteOncePod) and that another pod of the snapshot also uses.
	Once []string
	// Singles lists the claims that can be bound to one volume only, for which other claims may wait too.
	Singles []SingleVolume
	// Takes lists the claims' takes from free volumes.
	Takes []*SupplyTake
	// Disks may conflict with those of other pods on the same node.
	Disks []Disk
}

// NewVolumes indexes the volumes of the snapshot; pods are its pods with volumes, drivers those with a limit in the catalogs.
func NewVolumes(s *engine.Snapshot, pods []*corev1.Pod, drivers []string, types kube.TypeIndex) *Volumes {
	v := &Volumes{
		Reader:      NewReader(s, v1.NormalizeLabel),
		waiting:     map[ClaimID]int{},
		hostnameOf:  map[string]string{},
		csiNodes:    map[string]*storagev1.CSINode{},
		attachments: map[string][]*storagev1.VolumeAttachment{},
		limited:     map[string]bool{},
		availableOf: map[string]*AvailableVolumes{},
		facts:       map[claimUse]*claimFacts{},
		users:       map[Attachment]int{},
		held:        map[Attachment]bool{},
		once:        map[ClaimID]*claimUsers{},
	}
	v.Hostnames = map[string]bool{}
	if len(pods)+len(s.PersistentVolumes)+len(s.PersistentVolumeClaims) > 0 {
		for _, n := range s.Nodes {
			v.Hostnames[n.Labels[corev1.LabelHostname]] = true
			v.hostnameOf[n.Name] = n.Labels[corev1.LabelHostname]
		}
	}
	v.indexLimits(s, drivers)
	if len(pods) > 0 {
		v.ofTypes = LearnLimits(s, types)
	}
	v.indexAvailable()
	v.indexLocalPools(s)
	for _, pod := range pods {
		v.countUse(pod)
	}
	return v
}

// indexLimits records the drivers with a limit on some machine; drivers are those with a limit in the catalogs.
func (v *Volumes) indexLimits(s *engine.Snapshot, drivers []string) {
	for _, driver := range drivers {
		v.limited[driver] = true
	}
	for _, n := range s.CSINodes {
		v.csiNodes[n.Name] = n
		for _, d := range n.Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				v.limited[d.Name] = true
			}
		}
	}
	leaving := map[string]bool{}
	if len(s.VolumeAttachments) > 0 {
		for _, n := range s.Nodes {
			leaving[n.Name] = n.DeletionTimestamp != nil
		}
	}
	for _, a := range s.VolumeAttachments {
		v.attachments[a.Spec.NodeName] = append(v.attachments[a.Spec.NodeName], a)
		if behind, ok := v.AttachmentBehind(a); ok && !leaving[a.Spec.NodeName] {
			v.held[behind] = true
		}
	}
}

// countUse counts the uses by a pod of the snapshot, because volumes of one pod only need not be distinguished.
func (v *Volumes) countUse(pod *corev1.Pod) {
	if len(pod.Spec.Volumes) == 0 || kube.IsTerminal(pod) {
		return
	}
	for _, a := range v.attached(pod) {
		v.users[a]++
	}
	for i := range pod.Spec.Volumes {
		id, ok := namedClaim(pod, &pod.Spec.Volumes[i])
		claim := v.claims[id]
		if !ok || claim == nil {
			continue
		}
		if claim.Spec.VolumeName == "" && pod.Spec.NodeName == "" {
			v.waiting[id]++
		}
	}
	for _, id := range v.Once(pod) {
		users := v.once[id]
		if users == nil {
			users = &claimUsers{}
			v.once[id] = users
		}
		users.pods++
		if pod.Spec.NodeName != "" {
			users.bound = append(users.bound, pod)
		}
	}
}

// namedClaim returns the claim that the volume names. It returns false for volumes that name none.
func namedClaim(pod *corev1.Pod, volume *corev1.Volume) (ClaimID, bool) {
	if volume.PersistentVolumeClaim == nil {
		return ClaimID{}, false
	}
	return ClaimID{pod.Namespace, volume.PersistentVolumeClaim.ClaimName}, true
}

// Once lists the pod's claims, without duplicates, that one pod at a time may use in the whole cluster (ReadWriteOncePod).
func (r *Reader) Once(pod *corev1.Pod) []ClaimID {
	var out []ClaimID
	for i := range pod.Spec.Volumes {
		id, ok := namedClaim(pod, &pod.Spec.Volumes[i])
		if claim := r.claims[id]; ok && claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// HasVolumes reports whether the pod has volumes that matter to its node. Volumes that any kubelet provides do not matter, like the volume with
// the service account's token that almost every pod has.
func HasVolumes(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected == nil && v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.HostPath == nil
	})
}

// claimFacts holds the data of a claim for planning.
type claimFacts struct {
	Claim
	// places are the places where the volume is, or can be found or made.
	places [][]requirement.Expression
	// reach lists the labels of the future volume's place, for a claim whose volume is found or made where its first pod runs.
	reach []string
	// taken holds the claim's takes from local pools.
	taken []Attachment
	// sole is the only volume that the claim can be bound to.
	sole string
	// take is the claim's take from available volumes, nil for none.
	take *SupplyTake
}

// factsOf returns the facts of a volume's claim. It returns nil for a volume without a claim.
func (v *Volumes) factsOf(pod *corev1.Pod, volume *corev1.Volume) (*claimFacts, ClaimID) {
	claim, id, problem := v.ClaimOf(pod, volume)
	switch {
	case problem != "":
		return &claimFacts{Claim: Claim{Problem: problem}}, id
	case claim == nil:
		return nil, id
	case v.claims[id] == nil:
		return v.factsFrom(claim, false), id
	}
	key := claimUse{id, volume.Ephemeral == nil}
	facts := v.facts[key]
	if facts == nil {
		facts = v.factsFrom(claim, key.named)
		v.facts[key] = facts
	}
	return facts, id
}

// factsFrom reads the claim, for pods that name it (named) or for the pod of its ephemeral volume.
func (v *Volumes) factsFrom(claim *corev1.PersistentVolumeClaim, named bool) *claimFacts {
	facts := &claimFacts{Claim: v.Read(claim)}
	facts.places = facts.Places
	if named && facts.Labelled != nil {
		var ok bool
		if facts.places, ok = kube.Combine(facts.Places, facts.Labelled, MostAlternatives); !ok {
			facts.Problem = "the labels of its volume " + claim.Spec.VolumeName + " contradict its node affinity"
		}
	}
	if facts.Waits && facts.Problem == "" {
		v.addDelayed(facts, claim)
	}
	return facts
}

// addDelayed adds the facts of a claim whose volume is a free one, or is made.
func (v *Volumes) addDelayed(facts *claimFacts, claim *corev1.PersistentVolumeClaim) {
	made := !facts.Kept && !makesNone(facts.class)
	if facts.Makes && len(facts.Places) == 0 { // the class can always make another volume
		facts.reach = v.Reach(&facts.Claim)
		return
	}
	places, anywhere := slices.Clone(facts.Places), false
	for _, volume := range facts.Free {
		places, anywhere = append(places, volume.Places...), anywhere || len(volume.Places) == 0
	}
	switch facts.places = bounded(kube.Alternatives(places)); {
	case anywhere:
		facts.places = nil
	case made:
		facts.reach = v.Reach(&facts.Claim)
	default:
		facts.reach = labelsOf(places)
	}
	if !made {
		facts.sole, facts.taken = singleOf(facts.Free), v.taken(claim)
	}
	if !facts.Kept {
		facts.take = v.availableOf[facts.class.Name].take(facts.Free)
	}
}

// Of returns the needs of the pod's volumes.
func (v *Volumes) Of(pod *corev1.Pod) PodVolumes {
	var out PodVolumes
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		facts, id := v.factsOf(pod, volume)
		if facts == nil {
			continue
		}
		problem, places := facts.Problem, facts.places
		if volume.Ephemeral == nil && problem == "" {
			problem = v.usedElsewhere(pod, id, &out)
			v.decide(&out, id, facts)
		}
		if problem == "" && !out.compete(id, facts) {
			problem = NoVolumeFree(VolumeClass(v.Persistent[facts.sole]))
		}
		ok := true
		if problem == "" {
			out.Storage = cmp.Or(out.Storage, facts.Storage)
			out.take(id, facts, volume.Ephemeral == nil && v.waiting[id] > 1)
			if out.Alternatives, ok = kube.Combine(out.Alternatives, places, MostAlternatives); !ok {
				problem = "its volume is nowhere where the pod's other volumes are"
			}
		}
		if problem != "" {
			return PodVolumes{Problem: engine.Reason{Code: engine.VolumeNotReady, Key: id.String(), Have: problem}}
		}
	}
	if len(pod.Spec.Volumes) > 0 {
		out.Attach = v.attached(pod)
		for _, a := range out.Attach {
			if v.users[a] > 1 || v.held[a] {
				out.Shared = append(out.Shared, a)
			}
		}
		slices.Sort(out.Once)
		slices.SortFunc(out.Singles, CompareSingles)
		slices.SortFunc(out.Takes, func(a, b *SupplyTake) int { return strings.Compare(a.text(), b.text()) })
		slices.SortFunc(out.Undecided, func(a, b SharedClaim) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
		out.Disks = DisksOf(pod)
	}
	return out
}

// Leave records pods that leave their nodes: they need their claims only in a new place.
func (v *Volumes) Leave(pods map[*corev1.Pod]bool) {
	for _, users := range v.once {
		users.bound = slices.DeleteFunc(users.bound, func(pod *corev1.Pod) bool { return pods[pod] })
	}
}

// usedElsewhere returns the problem if a running pod uses a claim that only one pod may use.
func (v *Volumes) usedElsewhere(pod *corev1.Pod, id ClaimID, out *PodVolumes) string {
	users := v.once[id]
	if users == nil || users.pods < 2 {
		return ""
	}
	if len(users.bound) > 0 && !slices.Contains(users.bound, pod) {
		oldest := slices.MinFunc(users.bound, kube.OlderFirst)
		return "only one pod may use it at a time (ReadWriteOncePod), and " + kube.PodID(oldest).String() + " does"
	}
	if text := id.String(); !slices.Contains(out.Once, text) {
		out.Once = append(out.Once, text)
	}
	return ""
}

// Key returns a text that is equal for pods with equal needs. Names of claims and handles matter only if other pods use them too.
func (p *PodVolumes) Key() string {
	if len(p.Alternatives)+len(p.Attach)+len(p.Once)+len(p.Singles)+len(p.Disks)+len(p.Undecided)+len(p.Takes) == 0 {
		return ""
	}
	b := make([]byte, 0, 128)
	for _, term := range p.Alternatives {
		b = append(kube.AppendExpressions(b, term), '|')
	}
	for i := 0; i < len(p.Attach); {
		n, start := 0, i
		for ; i < len(p.Attach) && p.Attach[i].Driver == p.Attach[start].Driver; i++ {
			if !slices.Contains(p.Shared, p.Attach[i]) {
				n++
			}
		}
		if n > 0 {
			b = strconv.AppendInt(strconv.AppendQuote(append(b, "\nattach "...), p.Attach[start].Driver), int64(n), 10)
		}
	}
	for _, a := range p.Shared {
		b = strconv.AppendQuote(strconv.AppendQuote(append(b, "\nshared "...), a.Driver), a.handle)
	}
	for _, name := range p.Once {
		b = strconv.AppendQuote(append(b, "\nonce "...), name)
	}
	for _, s := range p.Singles {
		b = strconv.AppendQuote(strconv.AppendQuote(append(b, "\nsole "...), s.Volume), s.Claim.String())
	}
	for _, s := range p.Undecided {
		b = strconv.AppendQuote(append(b, "\nundecided "...), s.ID.String())
	}
	for _, t := range p.Takes {
		b = append(append(b, "\ntake "...), t.text()...)
	}
	for _, d := range p.Disks {
		b = strconv.AppendBool(strconv.AppendQuote(append(b, "\ndisk "...), d.ID), d.readOnly)
	}
	return string(b)
}
