package nodeclaim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

// writesAtOnce bounds the writes to pods and nodes that one group of openings has under way: all should come as close
// together as the API server can take them.
const writesAtOnce = 64

// nomination is the node that a pod is pointed at, so that kube-scheduler tries that one first; none if the name is empty.
type nomination struct {
	pod  *corev1.Pod
	node string
}

// seating is where pods have room that was bought for them.
type seating struct {
	// parties are by the UID of the ReplicaSet, of which one pod is as good as another, or else of the single pod.
	parties map[types.UID]*party
	tries   map[types.UID]int // how often each pod was nominated
	nodes   map[string]bool
}

// party is a number of equal pods and as many rooms, in the same order.
type party struct {
	pods  []string // UIDs
	rooms []room
}

// room is room for one pod, on a node in a zone.
type room struct{ node, zone string }

// seat collects the pods that the nodes were started for and that still wait for a node.
func (a *application) seat(ctx context.Context, nodes []opening) *seating {
	s := &seating{map[types.UID]*party{}, map[types.UID]int{}, map[string]bool{}}
	if a.NoNominations {
		return s
	}
	for _, node := range nodes {
		s.nodes[node.to.Name] = true
		for _, pod := range a.plannedPods(ctx, node.claim) {
			key := pod.UID
			if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "ReplicaSet" {
				key = owner.UID
			}
			if s.parties[key] == nil {
				s.parties[key] = &party{}
			}
			p := s.parties[key]
			p.pods = append(p.pods, string(pod.UID))
			p.rooms = append(p.rooms, room{node.to.Name, node.to.Labels[corev1.LabelTopologyZone]})
		}
	}
	return s
}

// nominate points pods that are nominated to no node at their room, and where that was of no use, at one that an equal
// pod left. It is advice: a write that fails is not tried again, but counts. If again is set, it writes the nominations
// that it knows of once more, because some may be gone already. It returns how many pods wait.
func (a *application) nominate(ctx context.Context, s *seating, again bool) (waiting int) {
	var writes []nomination
	for _, key := range slices.Sorted(maps.Keys(s.parties)) {
		pods := a.podsOf(ctx, s.parties[key].pods)
		for _, w := range s.parties[key].assign(pods, s.tries) {
			if s.tries[w.pod.UID]++; s.tries[w.pod.UID] <= openingTries {
				writes = append(writes, w)
			}
		}
		for _, pod := range pods {
			if !engine.IsPending(pod) {
				continue
			}
			waiting++
			if node := pod.Status.NominatedNodeName; again && s.nodes[node] {
				writes = append(writes, nomination{pod, node})
			}
		}
	}
	a.writeNominations(ctx, writes)
	return waiting
}

// assign gives each pod that waits without a nomination one of the rooms that are left.
func (p *party) assign(pods []*corev1.Pod, tries map[types.UID]int) (out []nomination) {
	left := slices.Clone(p.rooms)
	take := func(node string) {
		if i := slices.IndexFunc(left, func(r room) bool { return r.node == node }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	var refused []*corev1.Pod
	for _, pod := range pods {
		switch {
		case pod.Spec.NodeName != "":
			take(pod.Spec.NodeName)
		case pod.Status.NominatedNodeName != "": // to another node where kube-scheduler preempts for it
			take(pod.Status.NominatedNodeName)
		case !engine.IsPending(pod):
		case tries[pod.UID] == 0:
			own := p.rooms[slices.Index(p.pods, string(pod.UID))]
			out = append(out, nomination{pod, own.node})
			take(own.node)
		default:
			refused = append(refused, pod)
		}
	}
	slices.SortFunc(refused, triedBefore)
	for i, node := range inTurn(left) {
		if i < len(refused) {
			out = append(out, nomination{refused[i], node})
		}
	}
	return out
}

// inTurn orders rooms so that the zones take turns, those with more rooms first. Pods that have to be spread over zones
// find their nodes only in such an order.
func inTurn(rooms []room) []string {
	byZone := map[string][]string{}
	for _, r := range rooms {
		byZone[r.zone] = append(byZone[r.zone], r.node)
	}
	zones := slices.Sorted(maps.Keys(byZone))
	nodes := make([]string, 0, len(rooms))
	for range rooms {
		zone := slices.MaxFunc(zones, func(a, b string) int { return cmp.Compare(len(byZone[a]), len(byZone[b])) })
		nodes = append(nodes, byZone[zone][0])
		byZone[zone] = byZone[zone][1:]
	}
	return nodes
}

// triedBefore orders pods as kube-scheduler tried them, which is how it will try them again: it writes down each time that
// it finds no node.
func triedBefore(a, b *corev1.Pod) int {
	x, _ := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, _ := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(string(a.UID), string(b.UID)))
}

// withdraw takes back that pods are nominated to nodes which leave.
func (a *application) withdraw(ctx context.Context, nodes []string) {
	unbound, err := a.podsBy(ctx, "")
	if err != nil {
		log.FromContext(ctx).Error(err, "could not take nominations back")
		return
	}
	var writes []nomination
	for _, pod := range unbound {
		if slices.Contains(nodes, pod.Status.NominatedNodeName) {
			writes = append(writes, nomination{pod: pod})
		}
	}
	a.writeNominations(ctx, writes)
}

// plannedPods finds the pods that the claim was planned for and that still wait for a node.
func (a *application) plannedPods(ctx context.Context, claim *v1.NodeClaim) []*corev1.Pod {
	pods := a.podsOf(ctx, engine.PlannedPods(claim))
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !engine.IsPending(pod) })
}

// podsOf finds the pods with these UIDs, as far as they exist.
func (a *application) podsOf(ctx context.Context, uids []string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, uid := range uids {
		pods, err := a.podsWith(ctx, cluster.PodsByUID, uid)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not find a pod", "uid", uid)
		}
		out = append(out, pods...)
	}
	return out
}

// writeNominations writes to the pods. The UID keeps a nomination off a later pod of the same name.
func (a *application) writeNominations(ctx context.Context, writes []nomination) {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for _, w := range writes {
		group.Go(func() error {
			pod, value := w.pod, "null"
			if w.node != "" {
				value = strconv.Quote(w.node)
			}
			patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"nominatedNodeName":%s}}`, pod.UID, value)
			target := &corev1.Pod{}
			target.Namespace, target.Name = pod.Namespace, pod.Name
			err := a.Cluster.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)))
			// A pod that was bound meanwhile takes no nomination: the API server calls that invalid.
			if err != nil && !cluster.Expected(err) && !apierrors.IsInvalid(err) {
				log.FromContext(ctx).Error(err, "could not nominate pod", "Pod", pod.Namespace+"/"+pod.Name, "Node", w.node)
			}
			return nil
		})
	}
	_ = group.Wait() // every error was told
}
