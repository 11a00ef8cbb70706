package explore

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// checkDisplaced: if a node with device claims is disrupted, the devices for its pods' successors were free on other nodes at some moment
// within the longest delay of a loop. Expected devices of starting nodes count too. If there are no such devices, the pod's node must stay.
func (l *laws) checkDisplaced(claim *v1.NodeClaim) {
	if !l.w.scene.claims || !v1.IsTrue(claim, v1.ConditionDisruptionReason) { // a late machine is given up with all its pods
		return
	}
	seen, versions := l.w.clock.Now().Add(-l.w.scene.lag-taskLag), []uint64{0}
	for _, s := range l.w.api.order {
		for _, c := range s.log {
			switch {
			case !c.at.Before(seen):
				versions = append(versions, c.version)
			case c.version > versions[0]:
				versions[0] = c.version
			}
		}
	}
	for _, version := range versions {
		if l.devicesElsewhere(claim, version) {
			return
		}
	}
	l.broken(lawDisplaced, "NodeClaim %s is deleted, and the devices that its pods' successors claim are nowhere else", claim.Name)
}

// devicesElsewhere reports whether, at a version of the store, other nodes had the devices for all pods of the claim's node.
func (l *laws) devicesElsewhere(claim *v1.NodeClaim, version uint64) bool {
	name, s := "", l.w.api
	free := map[string]int{}
	for _, node := range asOf[*corev1.Node](s, version) {
		switch {
		case node.Spec.ProviderID == claim.Status.ProviderID:
			name = node.Name
		case node.DeletionTimestamp == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }):
			free[node.Name] = 0
			if node.Labels[v1.InitializedLabelKey] != "true" {
				free[node.Name] = l.expectedDevices(node.Labels[corev1.LabelInstanceTypeStable])
			}
		}
	}
	if name == "" { // without a node, it runs no pods
		return true
	}
	published := map[string]int{}
	for _, slice := range asOf[*resourcev1.ResourceSlice](s, version) {
		published[*slice.Spec.NodeName] += len(slice.Spec.Devices)
	}
	for node := range free {
		free[node] = max(free[node], published[node])
	}
	for _, c := range asOf[*resourcev1.ResourceClaim](s, version) {
		if a := c.Status.Allocation; a != nil {
			free[a.Devices.Results[0].Pool] -= len(a.Devices.Results)
		}
	}
	ones, twos, templates := 0, 0, asOf[*resourcev1.ResourceClaimTemplate](s, version)
	for _, pod := range asOf[*corev1.Pod](s, version) {
		if pod.Spec.NodeName != name || !kube.IsReschedulable(pod) || len(pod.Spec.ResourceClaims) == 0 {
			continue
		}
		ref := pod.Spec.ResourceClaims[0].ResourceClaimTemplateName
		at := slices.IndexFunc(templates, func(t *resourcev1.ResourceClaimTemplate) bool { return ref != nil && t.Name == *ref })
		if at < 0 { // its claim stays where it is allocated, or there will be no claim for its successor
			return false
		}
		if templates[at].Spec.Spec.Devices.Requests[0].Exactly.Count > 1 {
			twos++
		} else {
			ones++
		}
	}
	pairs, all := 0, 0
	for node, n := range free {
		if node != name && n > 0 {
			pairs, all = pairs+n/2, all+n
		}
	}
	return twos <= pairs && ones+2*twos <= all
}

func (l *laws) expectedDevices(kind string) (n int) {
	for _, t := range l.w.catalog {
		if t.Name == kind {
			for i := range t.Claimable {
				n += len(t.Claimable[i].Devices)
			}
		}
	}
	return n
}

// asOf lists the objects of a kind at a version of the store.
func asOf[T client.Object](s *store, version uint64) (out []T) {
	there, order := map[types.UID]T{}, []types.UID(nil)
	for _, c := range s.shelves[reflect.TypeFor[T]()].log {
		if c.version > version {
			break
		}
		uid := c.object().GetUID()
		if c.new == nil {
			delete(there, uid)
			continue
		}
		if _, known := there[uid]; !known {
			order = append(order, uid)
		}
		there[uid] = c.new.(T)
	}
	for _, uid := range order {
		if o, found := there[uid]; found {
			out = append(out, o)
		}
	}
	return out
}
