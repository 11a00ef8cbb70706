package ondemand

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Copies holds the marked copies of pods for the next call. Callers identify pods by address, so the copy of a pod must stay the same.
type Copies struct{ last, next map[*corev1.Pod]*corev1.Pod }

// Marked returns the snapshot with marks on the pods that must run on demand, as kube.MustRunOnDemand reads them. With these pods, all owners
// have the share that they request. Marked returns notes about requests that it cannot follow. If no owner requests a share, it returns s
// itself.
//
// Each owner has as many marked pods as its share requires. Pods that already run on demand are marked first, so that no pod moves. Then come
// pods that will run on demand, and then pods that wait.
func Marked(s *engine.Snapshot, known *Copies) (*engine.Snapshot, []engine.Note) {
	known.last, known.next = known.next, nil
	owners, notes := ownersOf(s)
	if len(owners) == 0 {
		return s, notes
	}
	marked := map[*corev1.Pod]bool{}
	for _, o := range owners {
		for _, m := range o.members[:o.need] {
			marked[m.pod] = true
		}
	}
	known.next = make(map[*corev1.Pod]*corev1.Pod, len(marked))
	out := *s
	out.Pods = slices.Clone(s.Pods)
	for i, pod := range s.Pods {
		if !marked[pod] {
			continue
		}
		c := known.last[pod]
		if c == nil {
			c = new(*pod)
			c.Annotations = maps.Clone(pod.Annotations)
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, kube.MustRunOnDemandMark, "true")
		}
		known.next[pod], out.Pods[i] = c, c
	}
	return &out, notes
}

// ownerName names the controller of pods.
type ownerName struct{ namespace, kind, name string }

func (n ownerName) String() string { return n.kind + " " + n.namespace + "/" + n.name }

// owner holds the pods of one controller that requests a share.
type owner struct {
	name ownerName
	pods int // the number of pods that count
	// members holds the pods that may run on demand, in the order in which they are marked.
	members []member
	need    int
}

// member is a pod of an owner, with its present place.
type member struct {
	pod    *corev1.Pod
	place  place
	node   string // set if the pod runs on demand
	beside int    // the number of the owner's pods on the node, math.MaxInt on a node that Tenon does not manage
}

// place is the state of a pod, in the order in which pods are marked.
type place int

const (
	onDemand  place = iota // it runs on demand
	willBe                 // the machine that was started for it, or that it is nominated to, is on demand
	waits                  // it needs a machine
	untried                // kube-scheduler has not come to it
	gated                  // scheduling gates keep kube-scheduler from trying it
	willBeOff              // the machine that was started for it is not on demand
	off                    // it runs on another machine
)

// ownersOf lists the owners that request a share and have pods that may run on demand, in the order of their first pods.
func ownersOf(s *engine.Snapshot) ([]*owner, []engine.Note) {
	byName, shares := map[ownerName]*owner{}, map[*owner][]Share{}
	var owners []*owner
	odd := map[ownerName]oddShare{}
	note := func(pod *corev1.Pod, name ownerName, need string) {
		if first, known := odd[name]; !known || comparePods(pod, first.pod) < 0 { // the owner's other pods have the same annotation
			odd[name] = oddShare{pod, need}
		}
	}
	for _, pod := range s.Pods {
		text, asks := pod.Annotations[v1.OnDemandShareAnnotationKey]
		if !asks || !counts(pod) {
			continue
		}
		name, owned := ownerOf(pod)
		share, err := ReadShare(text)
		switch {
		case !owned:
			note(pod, name, "it on pods of a Deployment, a StatefulSet, a Job or another owner of several pods that may run anywhere: it has no effect here")
			continue
		case err != nil:
			note(pod, name, err.Error())
			continue
		case share.number > 0 && !mayRunOnDemand(pod):
			note(pod, name, "no share, or pods that may run on demand: this one selects other machines, so that the share has no effect")
			continue
		}
		o := byName[name]
		if o == nil {
			o = &owner{name: name}
			byName[name], owners = o, append(owners, o)
		}
		if !slices.Contains(shares[o], share) {
			shares[o] = append(shares[o], share)
		}
	}
	notes := notesOf(odd)
	if len(owners) == 0 {
		return nil, notes
	}
	p := placesOf(s)
	for _, pod := range s.Pods {
		name, owned := ownerOf(pod)
		o := byName[name]
		if !owned || o == nil || !counts(pod) {
			continue
		}
		if o.pods++; mayRunOnDemand(pod) {
			o.members = append(o.members, member{pod: pod, place: p.of(pod)})
		}
	}
	for _, o := range owners {
		for _, share := range shares[o] {
			o.need = max(o.need, min(share.Of(o.pods), len(o.members)))
		}
		o.sort(p)
	}
	return owners, notes
}

// oddShare is the first pod of an owner whose annotation cannot be followed, and a description of a correct annotation.
type oddShare struct {
	pod  *corev1.Pod
	need string
}

// notesOf returns a note for each such annotation, sorted by the pods' names.
func notesOf(odd map[ownerName]oddShare) (notes []engine.Note) {
	for _, o := range slices.SortedFunc(maps.Values(odd), func(a, b oddShare) int { return comparePods(a.pod, b.pod) }) {
		notes = append(notes, engine.Note{Object: objectOf(o.pod), Reason: engine.Reason{
			Code: engine.UnreadableAnnotation, Key: v1.OnDemandShareAnnotationKey, Have: fmt.Sprintf("%q", o.pod.Annotations[v1.OnDemandShareAnnotationKey]), Need: o.need,
		}.Bounded()})
	}
	return notes
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), kube.CompareNaturally(a.Name, b.Name))
}

// sort sorts the pods in the order in which they are marked. Pods that run on demand come first: pods on nodes without a NodeClaim, then pods on
// nodes with many pods of the owner. So the marked pods fill whole machines, and the other pods may leave theirs.
func (o *owner) sort(p places) {
	beside := map[string]int{}
	for i := range o.members {
		beside[o.members[i].pod.Spec.NodeName]++
	}
	for i := range o.members {
		if m := &o.members[i]; m.place == onDemand {
			m.node = m.pod.Spec.NodeName
			if m.beside = beside[m.node]; p.foreign[m.node] {
				m.beside = math.MaxInt
			}
		}
	}
	slices.SortFunc(o.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.beside, a.beside), strings.Compare(a.node, b.node), kube.OlderFirst(a.pod, b.pod))
	})
}

// ownerOf returns the pod's owner, and reports whether the owner can have a share. A pod without a controller, a pod of a DaemonSet and a mirror
// pod have no such owner. All pods of a namespace without a controller get the same name.
func ownerOf(pod *corev1.Pod) (name ownerName, owned bool) {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return ownerName{pod.Namespace, "", ""}, false
	}
	return ownerName{pod.Namespace, c.Kind, c.Name}, !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod)
}

// counts reports whether the pod runs or will run. A terminating pod of a StatefulSet counts in place of its successor, because plans already
// contain the successor.
func counts(pod *corev1.Pod) bool { return kube.IsActive(pod) || kube.IsReschedulable(pod) }

// mayRunOnDemand reports whether the pod's node requirements allow on-demand or reserved nodes.
func mayRunOnDemand(pod *corev1.Pod) bool {
	for _, term := range kube.NodeTermsOf(&pod.Spec, v1.NormalizeLabel) {
		for _, capacity := range []string{v1.CapacityTypeOnDemand, v1.CapacityTypeReserved} {
			admits := true
			for _, e := range term {
				admits = admits && (e.Key != v1.CapacityTypeLabelKey || e.Admits(capacity, true))
			}
			if admits {
				return true
			}
		}
	}
	return false
}

// places holds the machines that are on demand.
type places struct {
	nodes   map[string]bool // by node that stays, whether it is on demand
	foreign map[string]bool // nodes without a NodeClaim
	planned map[string]bool // by pod UID, whether the newest machine that was started for the pod is on demand
}

func placesOf(s *engine.Snapshot) places {
	p := places{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	claims, joined, at := map[string]*v1.NodeClaim{}, map[*v1.NodeClaim]*corev1.Node{}, map[string]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		id := c.Status.ProviderID
		if other := claims[id]; id != "" && (other == nil || c.Name < other.Name) {
			claims[id] = c
		}
	}
	for _, n := range s.Nodes {
		c := claims[n.Spec.ProviderID]
		if c != nil {
			joined[c] = n
		}
		if goes(n, c) {
			continue
		}
		labels := n.Labels
		if labels[v1.CapacityTypeLabelKey] == "" && c != nil { // the node has not registered yet
			labels = claimLabels(c)
		}
		p.nodes[n.Name], p.foreign[n.Name] = inventory.RunsOnDemand(labels), c == nil
	}
	for _, c := range s.NodeClaims {
		m := inventory.MachineInfo{Node: joined[c], Claim: c}
		if goes(m.Node, c) || m.IsGone(s.Now) {
			continue
		}
		for _, uid := range kube.PlannedPods(c) {
			if other := at[uid]; other == nil || !c.CreationTimestamp.Before(&other.CreationTimestamp) {
				at[uid], p.planned[uid] = c, inventory.RunsOnDemand(claimLabels(c))
			}
		}
	}
	return p
}

// goes reports whether the machine is being removed, or will be removed once its replacement is ready.
func goes(n *corev1.Node, c *v1.NodeClaim) bool {
	ordered := false
	if c != nil {
		_, ordered = inventory.MarkOf(c)
	}
	return ordered || inventory.IsLeaving(n, c) || n != nil && kube.IsRemovedElsewhere(n)
}

// claimLabels returns labels with the capacity type that the claim's machine has or will have.
func claimLabels(c *v1.NodeClaim) map[string]string {
	if c.Labels[v1.CapacityTypeLabelKey] != "" {
		return c.Labels
	}
	for _, r := range c.Spec.Requirements {
		if r.Key == v1.CapacityTypeLabelKey && slices.Contains(r.Values, v1.CapacityTypeSpot) {
			return map[string]string{v1.CapacityTypeLabelKey: v1.CapacityTypeSpot}
		}
		if r.Key == kube.InterruptibleReservation && slices.Contains(r.Values, "true") {
			return map[string]string{kube.InterruptibleReservation: "true"}
		}
	}
	return c.Labels
}

func (p places) of(pod *corev1.Pod) place {
	demand, stays := p.nodes[pod.Spec.NodeName]
	if stays {
		if demand {
			return onDemand
		}
		return off
	}
	planned, isPlanned := p.planned[string(pod.UID)]
	if n, there := p.nodes[pod.Status.NominatedNodeName]; there {
		planned, isPlanned = n, true
	}
	switch {
	case isPlanned && planned:
		return willBe
	case isPlanned:
		return willBeOff
	case pod.Spec.NodeName != "", kube.IsPending(pod):
		return waits
	case kube.IsUntried(pod):
		return untried
	}
	return gated
}
