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

// Copies remembers the copies of pods from one call to the next: whoever remembers pods does so by their address.
type Copies struct{ last, next map[*corev1.Pod]*corev1.Pod }

// Marked is the snapshot in which the pods that have to run on demand say so, as kube.MustRunOnDemand reads it, for all of their owners
// to have the share that they ask for; and what could not be followed of what is asked for. It is s itself if nobody asks.
//
// Each owner has as many such pods as its share is, first those that run on demand already, so that none of these is moved elsewhere, then
// those that will, then those that wait.
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

// owner is the pods of one controller that asks for a share.
type owner struct {
	name ownerName
	pods int // that count
	// members are those of them that may run on demand, in the order in which they have to.
	members []member
	need    int
}

// member is a pod of an owner, with what it is now.
type member struct {
	pod    *corev1.Pod
	place  place
	node   string // if it runs on demand
	beside int    // pods of the owner there, math.MaxInt on a node that nobody here can remove
}

// place is where a pod is, or will be, in the order in which pods have to run on demand.
type place int

const (
	onDemand  place = iota // it runs on demand
	willBe                 // the machine that was started for it, or that it is nominated to, is on demand
	waits                  // it needs a machine
	untried                // kube-scheduler has not come to it
	gated                  // nobody may
	willBeOff              // the machine that was started for it is none on demand
	off                    // it runs on another machine
)

// ownersOf finds the owners that ask for a share and have pods for it, in the order of their first pods.
func ownersOf(s *engine.Snapshot) ([]*owner, []engine.Note) {
	byName, shares := map[ownerName]*owner{}, map[*owner][]Share{}
	var owners []*owner
	odd := map[ownerName]oddShare{}
	note := func(pod *corev1.Pod, name ownerName, need string) {
		if first, known := odd[name]; !known || comparePods(pod, first.pod) < 0 { // its other pods say the same
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

// oddShare is the first pod of an owner whose annotation cannot be followed, and what is wanted instead.
type oddShare struct {
	pod  *corev1.Pod
	need string
}

// notesOf says of each what cannot be followed, in order of the pods' names.
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

// sort brings the pods into the order in which they have to run on demand. Of those that do already the ones that are on nodes which
// stay anyway come first, then those that are together, whole machines at a time: what is left then may leave machines.
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

// ownerOf names the owner of the pod, and reports whether it shares out pods: nobody does where no controller makes them, which have one
// name in each namespace, and where the node is settled.
func ownerOf(pod *corev1.Pod) (name ownerName, owned bool) {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return ownerName{pod.Namespace, "", ""}, false
	}
	return ownerName{pod.Namespace, c.Kind, c.Name}, !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod)
}

// counts reports whether the pod runs, or will. Those of StatefulSets that are ending stand for their successors, which are planned for
// already.
func counts(pod *corev1.Pod) bool { return kube.IsActive(pod) || kube.IsReschedulable(pod) }

// mayRunOnDemand reports whether what the pod requires of nodes leaves any that are on demand.
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

// places knows which machines are on demand.
type places struct {
	nodes   map[string]bool // that stay: whether they are on demand
	foreign map[string]bool // nodes without a NodeClaim
	planned map[string]bool // the same of the newest machines that were started for pods, by their UIDs
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
		if labels[v1.CapacityTypeLabelKey] == "" && c != nil { // it has not registered yet
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

// goes reports whether the machine is being removed, or is to be once what replaces it is ready.
func goes(n *corev1.Node, c *v1.NodeClaim) bool {
	ordered := false
	if c != nil {
		_, ordered = inventory.MarkOf(c)
	}
	return ordered || inventory.IsLeaving(n, c) || n != nil && kube.IsRemovedElsewhere(n)
}

// claimLabels says of what capacity type the claim's machine is, or will be.
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
