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

// MostAlternatives bounds how many combinations of the places of a pod's volumes are looked at.
const MostAlternatives = 64

// Volumes knows what pods' volumes need of a node, as kube-scheduler judges it: VolumeBinding, VolumeZone,
// VolumeRestrictions and NodeVolumeLimits. It keeps what it has worked out about a claim, and is to be used from one
// goroutine.
type Volumes struct {
	Reader
	hostnameOf  map[string]string // by node
	csiNodes    map[string]*storagev1.CSINode
	attachments map[string][]*storagev1.VolumeAttachment // by node
	ofTypes     AttachLimits
	limited     map[string]bool              // drivers of which some machine takes only so many volumes
	stocks      []*localPool                 // free volumes that claims compete for
	availableOf map[string]*AvailableVolumes // the same, by class, where they are not on one host each

	facts map[claimUse]*claimFacts
	users map[Attachment]int      // pods that use the volume, of drivers that are limited
	held  map[Attachment]bool     // volumes that are attached to some node that stays
	once  map[ClaimID]*claimUsers // claims that only one pod may use, and that pods of the snapshot use
	// waiting counts the pods that use a claim without a volume and run nowhere.
	waiting map[ClaimID]int
}

// ClaimID names a claim. Claims are looked up for every pod, so that it is no text.
type ClaimID struct{ namespace, name string }

// claimUse is how pods use a claim: by its name, or as an ephemeral volume.
type claimUse struct {
	ClaimID
	named bool
}

func (c ClaimID) String() string { return c.namespace + "/" + c.name }

// claimUsers says which pods use a claim that only one pod may use.
type claimUsers struct {
	pods  int
	bound []*corev1.Pod // those that run
}

// Attachment is a volume that a CSI driver attaches to a node. Until the volume exists its handle is that of its claim.
type Attachment struct{ Driver, handle string }

// PodVolumes is what the volumes of one pod need.
type PodVolumes struct {
	// Problem says why the pod cannot run anywhere now.
	Problem engine.Reason
	// Alternatives are places where all of the pod's volumes can be: a node must meet one of them. None mean no
	// constraint. The slices are shared and not to be changed.
	Alternatives [][]requirement.Expression
	// Storage says for which claim other places have too little storage; empty if no place was left out for that.
	Storage string
	// Attach lists the volumes that will be attached, as far as their driver's number is limited on any machine. Those in
	// Shared are used by other pods too, or are attached to some node: only the first pod on a node attaches the volume.
	Attach, Shared []Attachment
	// Undecided lists claims without a volume that other waiting pods use too.
	Undecided []SharedClaim
	// Once names claims that one pod at a time may use in the whole cluster (ReadWriteOncePod) and that another pod of
	// the snapshot uses too.
	Once []string
	// Singles lists the claims that can be bound to a single volume only, which others may be waiting for too.
	Singles []SingleVolume
	// Takes lists what the claims take from free volumes.
	Takes []*SupplyTake
	// Disks may conflict with those of other pods on the same node.
	Disks []Disk
}

// NewVolumes indexes what the snapshot says about volumes; pods are those of its pods that have any, drivers those of which some type of
// the catalogs takes only so many volumes.
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

// indexLimits notes of which drivers some machine takes only so many volumes; drivers are those of which the catalogs say so.
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

// countUse counts what a pod of the snapshot uses, so that what only one pod uses need not be told apart.
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

// namedClaim is the claim that the volume names; volumes with a claim of their own name none.
func namedClaim(pod *corev1.Pod, volume *corev1.Volume) (ClaimID, bool) {
	if volume.PersistentVolumeClaim == nil {
		return ClaimID{}, false
	}
	return ClaimID{pod.Namespace, volume.PersistentVolumeClaim.ClaimName}, true
}

// Once lists the claims that the pod names, each once, and that one pod at a time may use in the whole cluster (ReadWriteOncePod).
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

// HasVolumes reports whether the pod has volumes that matter to where it runs. Those that any kubelet makes out of nothing, as
// that with the service account's token that almost every pod has, do not.
func HasVolumes(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected == nil && v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.HostPath == nil
	})
}

// claimFacts is what planning goes by of a claim.
type claimFacts struct {
	Claim
	// places are where the volume is, or can be found or made.
	places [][]requirement.Expression
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

// factsFrom reads the claim for pods that name it, or for the one whose ephemeral volume it is.
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

// addDelayed: the volume of the claim is one of those that are free, or made.
func (v *Volumes) addDelayed(facts *claimFacts, claim *corev1.PersistentVolumeClaim) {
	made := !facts.Kept && !makesNone(facts.class)
	if facts.Makes && len(facts.Places) == 0 { // there is always another one to be had
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

// Of says what the pod's volumes need.
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

// Leave notes pods that leave their nodes: they need their claims for a new place only.
func (v *Volumes) Leave(pods map[*corev1.Pod]bool) {
	for _, users := range v.once {
		users.bound = slices.DeleteFunc(users.bound, func(pod *corev1.Pod) bool { return pods[pod] })
	}
}

// usedElsewhere looks after claims that only one pod may use: a pod that runs keeps all others from starting anywhere.
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

// Key writes the needs so that pods with the same text can stand for each other. Names of claims and handles do not
// matter as long as only one pod uses them.
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
