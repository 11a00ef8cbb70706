package nomination

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// mostNominations is the largest number of nominations of a pod while nodes open, because each time that it loses its nomination, kube-scheduler
// tries other pods again.
const mostNominations = 5

// assignment holds the places that were bought for pods.
type assignment struct {
	// parties holds the groups by UID. A group of interchangeable pods has the UID of their ReplicaSet. Any other group has a single pod, and this
	// pod's UID.
	parties map[types.UID]*podGroup
	tries   map[types.UID]int // the number of nominations of each pod
	// tried holds the order in which kube-scheduler last found no node for the pods. It will try them in the same order. Each failure changes the
	// pod's resource version.
	tried map[types.UID]uint64
	open  map[string]bool // the nodes that this gate has opened
}

// podGroup holds interchangeable pods and as many rooms, in the same order.
type podGroup struct {
	pods   []types.UID
	rooms  []room
	spread *corev1.TopologySpreadConstraint // the constraint for which kube-scheduler may refuse a pod that comes too early; nil for none
}

// room is room for one pod, on a node in a zone.
type room struct{ node, zone string }

// newAssignment lists the pods and their rooms on the nodes.
func newAssignment(nodes []Opening) *assignment {
	s := &assignment{map[types.UID]*podGroup{}, map[types.UID]int{}, map[types.UID]uint64{}, map[string]bool{}}
	for _, o := range nodes {
		for _, pod := range o.Pods {
			key := groupOf(pod)
			if s.parties[key] == nil {
				s.parties[key] = &podGroup{spread: strictSpread(pod)}
			}
			p := s.parties[key]
			p.pods = append(p.pods, pod.UID)
			p.rooms = append(p.rooms, room{o.Node.Name, o.Node.Labels[corev1.LabelTopologyZone]})
		}
	}
	return s
}

// groupOf returns the same UID for interchangeable pods.
func groupOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "ReplicaSet" {
		return owner.UID
	}
	return pod.UID
}

// nominees identifies the pods of one controller that are nominated to one node.
type nominees struct {
	controller types.UID
	node       string
}

func nomineesOf(pod *corev1.Pod, node string) nominees {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return nominees{owner.UID, node}
	}
	return nominees{pod.UID, node}
}

// mayJoin reports whether the pod may be nominated to the node, and counts it if so. kube-scheduler counts pods that are nominated to the node
// as if they ran there, but not pods that are nominated to other nodes. So too many nominated pods with a spread constraint keep each other out.
func mayJoin(nominated map[nominees]int, pod *corev1.Pod, node string) bool {
	key := nomineesOf(pod, node)
	if spread := strictSpread(pod); spread != nil && nominated[key] >= max(1, int(spread.MaxSkew)-1) {
		return false
	}
	nominated[key]++
	return true
}

// strictSpread returns the pod's DoNotSchedule constraint over zones. If the pod has none, it returns the one over nodes, and nil without either.
func strictSpread(pod *corev1.Pod) *corev1.TopologySpreadConstraint {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		for i, c := range pod.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule && v1.NormalizeLabel(c.TopologyKey) == key {
				return &pod.Spec.TopologySpreadConstraints[i]
			}
		}
	}
	return nil
}

// distribute assigns the first rooms of a group to the pods that kube-scheduler will try first. Pods with a spread constraint find their nodes
// only if kube-scheduler fills the zones in turn. A zone may get its second pod only after the other zones have their first.
func (s *assignment) distribute(pods map[types.UID]*corev1.Pod) {
	s.note(pods)
	for _, p := range s.parties {
		slices.SortFunc(p.pods, s.triedBefore)
		p.rooms = p.inTurn(p.rooms)
	}
}

// note records when kube-scheduler last tried the pods without a nomination. Their resource versions show the order.
func (s *assignment) note(pods map[types.UID]*corev1.Pod) {
	for uid, pod := range pods {
		if pod.Status.NominatedNodeName == "" {
			s.tried[uid], _ = strconv.ParseUint(pod.ResourceVersion, 10, 64)
		}
	}
}

func (s *assignment) triedBefore(a, b types.UID) int {
	return cmp.Or(cmp.Compare(s.tried[a], s.tried[b]), strings.Compare(string(a), string(b)))
}

// nominate returns the nominations to write now, and the number of waiting pods.
func (s *assignment) nominate(pods map[types.UID]*corev1.Pod) (out []engine.Nomination, waiting int) {
	s.note(pods)
	nominated := map[nominees]int{}
	for _, pod := range pods {
		nominated[nomineesOf(pod, pod.Status.NominatedNodeName)]++
		if kube.IsQueued(pod) {
			waiting++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.parties)) {
		for _, n := range s.assign(s.parties[key], pods, nominated) {
			if s.tries[n.Pod.UID]++; s.tries[n.Pod.UID] <= mostNominations {
				out = append(out, n)
			}
		}
	}
	return out, waiting
}

// assign nominates waiting pods of the group to free rooms. A pod gets its own room unless another pod took it, or kube-scheduler refused it
// after the node had opened. Then the pod gets a room that no equal pod took.
func (s *assignment) assign(p *podGroup, pods map[types.UID]*corev1.Pod, nominated map[nominees]int) (out []engine.Nomination) {
	left := slices.Clone(p.rooms)
	find := func(node string) int {
		return slices.IndexFunc(left, func(r room) bool { return r.node == node })
	}
	for _, uid := range p.pods {
		if pod := pods[uid]; pod != nil { // a pod may be nominated to another node, where kube-scheduler preempts for it
			if i := find(cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	nominate := func(uid types.UID, node string) bool {
		i := find(node)
		if i < 0 || !mayJoin(nominated, pods[uid], node) {
			return false
		}
		left = slices.Delete(left, i, i+1)
		out = append(out, engine.Nomination{Pod: pods[uid], Node: node})
		return true
	}
	var others []types.UID
	for i, uid := range p.pods {
		pod := pods[uid]
		if pod == nil || pod.Status.NominatedNodeName != "" || !kube.IsQueued(pod) {
			continue
		}
		if refused := s.tries[uid] > 0 && s.open[p.rooms[i].node]; refused || !nominate(uid, p.rooms[i].node) {
			others = append(others, uid)
		}
	}
	slices.SortFunc(others, s.triedBefore)
	for _, uid := range others {
		for _, r := range p.inTurn(left) {
			if nominate(uid, r.node) {
				break
			}
		}
	}
	return out
}

// order returns the nodes' names. The nodes whose pods kube-scheduler will try first come last.
func (s *assignment) order(nodes []Opening) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Node.Name
	}
	first := map[string]types.UID{}
	for _, p := range s.parties {
		for i, uid := range p.pods {
			node := p.rooms[i].node
			if best, ok := first[node]; !ok || s.triedBefore(uid, best) < 0 {
				first[node] = uid
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(s.triedBefore(first[b], first[a]), strings.Compare(a, b)) })
	return names
}

// inTurn orders the rooms of pods with a spread constraint so that the zones take turns and, within each zone, the nodes.
func (p *podGroup) inTurn(rooms []room) []room {
	if p.spread == nil {
		return rooms
	}
	rooms = inTurn(rooms, func(r room) string { return r.node })
	if v1.NormalizeLabel(p.spread.TopologyKey) == corev1.LabelTopologyZone {
		rooms = inTurn(rooms, func(r room) string { return r.zone })
	}
	return rooms
}

// inTurn orders rooms so that the domains take turns. The domain with most rooms left is next. Among equals it is the domain that has given the
// fewest rooms, so that two small zones do not get ahead of a large one.
func inTurn(rooms []room, domain func(room) string) []room {
	byDomain := map[string][]room{}
	for _, r := range rooms {
		byDomain[domain(r)] = append(byDomain[domain(r)], r)
	}
	domains, dealt := slices.Sorted(maps.Keys(byDomain)), map[string]int{}
	out := make([]room, 0, len(rooms))
	for range rooms {
		next := slices.MaxFunc(domains, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(byDomain[a]), len(byDomain[b])), cmp.Compare(dealt[b], dealt[a]))
		})
		out = append(out, byDomain[next][0])
		byDomain[next] = byDomain[next][1:]
		dealt[next]++
	}
	return out
}
