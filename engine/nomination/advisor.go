package nomination

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// ignoredAfter is the time after which a nomination counts as ignored, if kube-scheduler does not bind the pod to the node and the node takes
// pods.
const ignoredAfter = 15 * time.Second

// Advisor nominates pods to the existing nodes on which plans place them, and takes nominations back. It leaves pods for which a machine was
// started to the StartupGate of the node. The zero value has nominated no pods. Only one goroutine may use an Advisor.
type Advisor struct {
	given map[types.UID]string // by pod, the node to which the Advisor has nominated it
	since map[types.UID]sighting
}

// sighting is the time at which a pod was first seen with a nomination to an open node.
type sighting struct {
	node string
	at   time.Time
}

// Advise returns the nominations to write after a plan for the snapshot, sorted by pod. If the queue is long, it nominates only pods that would
// otherwise find no node.
func (a *Advisor) Advise(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) []engine.Nomination {
	x := newAdvice(s, plan)
	x.nominateFew(s, opt, plan)
	var out []engine.Nomination
	for _, pod := range x.waiting {
		node, change := a.decide(pod, x)
		if change && node != "" && !mayJoin(x.nominated, pod, node) || !change && !a.isIgnored(pod, x) {
			continue
		}
		out = append(out, engine.Nomination{Pod: pod, Node: node})
	}
	waits := map[types.UID]bool{}
	for _, pod := range x.waiting {
		waits[pod.UID] = true
	}
	maps.DeleteFunc(a.given, func(uid types.UID, _ string) bool { return !waits[uid] })
	maps.DeleteFunc(a.since, func(uid types.UID, _ sighting) bool { return !waits[uid] })
	return out
}

// Written records a nomination that was written, or taken back if Node is empty.
func (a *Advisor) Written(n engine.Nomination) {
	if n.Node == "" {
		delete(a.given, n.Pod.UID)
		delete(a.since, n.Pod.UID)
		return
	}
	if a.given == nil {
		a.given = map[types.UID]string{}
	}
	a.given[n.Pod.UID] = n.Node
}

// decide returns the node to which the pod is to be nominated, and reports whether that is a change. The node is "" if the pod is not to be
// nominated. kube-scheduler writes the other nominations, when it preempts pods. They are only taken back if their node is gone.
func (a *Advisor) decide(pod *corev1.Pod, x *advice) (node string, change bool) {
	wanted, current := x.wanted[pod.UID], pod.Status.NominatedNodeName
	ours := current != "" && a.given[pod.UID] == current
	switch {
	case wanted != "" && (current == "" || ours):
		return wanted, wanted != current
	case current == "":
		return "", false
	case ours && x.elsewhere[pod.UID], ours && kube.LeavesSoon(x.nodes[current]), x.nodes[current] == nil:
		return "", true
	}
	return "", false
}

// isIgnored reports whether kube-scheduler does not bind the pod to its nominated node. While other pods stop on the node, the pod waits for
// their room.
func (a *Advisor) isIgnored(pod *corev1.Pod, x *advice) bool {
	node := x.nodes[pod.Status.NominatedNodeName]
	if node == nil || !kube.IsPending(pod) || node.Labels[v1.NodePoolLabelKey] != "" && !takesPods(node) || x.stopping[node.Name] {
		delete(a.since, pod.UID)
		return false
	}
	if seen, ok := a.since[pod.UID]; ok && seen.node == node.Name {
		return x.now.Sub(seen.at) > ignoredAfter
	}
	if a.since == nil {
		a.since = map[types.UID]sighting{}
	}
	a.since[pod.UID] = sighting{node.Name, x.now}
	return false
}

// advice holds the places that a plan gives to the pending pods.
type advice struct {
	now       time.Time
	nodes     map[string]*corev1.Node
	waiting   []*corev1.Pod        // by name
	wanted    map[types.UID]string // by pod, the open node on which the plan places it
	elsewhere map[types.UID]bool   // pods that the plan does not place on an existing node
	stopping  map[string]bool      // nodes on which pods are being stopped
	nominated map[nominees]int
}

func newAdvice(s *engine.Snapshot, plan *engine.Plan) *advice {
	x := &advice{s.Now, map[string]*corev1.Node{}, nil, map[types.UID]string{}, map[types.UID]bool{}, map[string]bool{}, map[nominees]int{}}
	for _, n := range s.Nodes {
		x.nodes[n.Name] = n
	}
	for _, pod := range s.Pods {
		switch {
		case pod.Spec.NodeName == "":
			x.waiting = append(x.waiting, pod)
			x.nominated[nomineesOf(pod, pod.Status.NominatedNodeName)]++
		case kube.IsTerminating(pod):
			x.stopping[pod.Spec.NodeName] = true
		}
	}
	slices.SortFunc(x.waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, p := range plan.Placements {
		if node := x.nodes[p.Node]; p.Claim != "" && node != nil && takesPods(node) {
			x.wanted[p.Pod.UID] = p.Node
		}
	}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			x.elsewhere[id.UID] = true
		}
	}
	for _, u := range plan.Unplaced {
		x.elsewhere[u.Pod.UID] = true
	}
	return x
}

// nominateFew limits new nominations, if the queue is long, to pods that would otherwise find no node.
func (x *advice) nominateFew(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) {
	queue, fresh := 0, map[engine.PodID]string{}
	for _, pod := range x.waiting {
		if kube.IsQueued(pod) {
			queue++
		}
		if node := x.wanted[pod.UID]; node != "" && pod.Status.NominatedNodeName == "" {
			fresh[kube.PodID(pod)] = node
		}
	}
	if !NominationsAreDear(len(fresh), queue) {
		return
	}
	few := needHints(*ReplayOf(s, opt, plan, false), fresh, queue)
	for id := range fresh {
		if few[id] == "" {
			delete(x.wanted, id.UID)
		}
	}
}

func takesPods(node *corev1.Node) bool { return node.Labels[v1.InitializedLabelKey] == "true" }
