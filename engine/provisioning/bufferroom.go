package provisioning

import (
	"cmp"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/buffer"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// withPods returns the snapshot with further pods.
func withPods(s *engine.Snapshot, more []*corev1.Pod) *engine.Snapshot {
	if len(more) == 0 {
		return s
	}
	out := *s
	out.Pods = slices.Concat(s.Pods, more)
	return &out
}

// WithBuffers returns the snapshot in which buffer pods run on the nodes that have room for them beside the waiting pods, and these buffer pods. A
// buffer pod needs another place if its node is removed. WithBuffers returns s itself if there are no such pods.
func WithBuffers(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) (next *engine.Snapshot, room Room) {
	if len(s.CapacityBuffers) == 0 {
		return s, nil
	}
	made := inventory.KeptBy[buffer.Pods](cache)
	waiting := made.Of(buffer.Resolve(s, opt.BufferLimits))
	if len(waiting) == 0 {
		return s, nil
	}
	with := withPods(s, waiting)
	p := ReadProblem(with, opt, cache.Take(with, opt.Threads), nil)
	if len(p.Classes) == 0 {
		return s, nil
	}
	p.Model()
	var bound []*corev1.Pod
	p.eachWithRoom(p.fewestMachines(), func(pod *corev1.Pod, m *inventory.Machine) { bound = append(bound, made.Bind(pod, m.Name())) })
	made.Forget(bound)
	return withPods(s, bound), roomOf(bound)
}

// fewestMachines places the pods on nodes such that as many machines as possible, the dearest first, have neither pods nor room.
func (p *Problem) fewestMachines() *packing.Solution {
	var idle []int // targets, cheapest first
	for i, m := range p.Targets {
		if m.Claim != nil && len(m.Expected) == 0 && !slices.ContainsFunc(m.Bound, kube.IsReschedulable) {
			idle = append(idle, i)
		}
	}
	slices.SortStableFunc(idle, func(a, b int) int { return cmp.Compare(p.Targets[a].Price, p.Targets[b].Price) })
	on := func(used int) (*packing.Solution, int) {
		problem := *p.Packing
		problem.Pools, problem.Nodes = nil, slices.Clone(p.Packing.Nodes)
		for _, i := range idle[used:] {
			problem.Nodes[i].Free = make(capacity.Vector, p.Names.Len())
		}
		solution, placed := packing.Solve(&problem), 0
		p.eachWithRoom(solution, func(*corev1.Pod, *inventory.Machine) { placed++ })
		return solution, placed
	}
	best, most := on(len(idle))
	sort.Search(len(idle), func(used int) bool {
		solution, placed := on(used)
		if placed < most {
			return false
		}
		best = solution // each solution uses fewer machines
		return true
	})
	return best
}

// eachWithRoom calls found for every buffer pod that has a place on a node.
func (p *Problem) eachWithRoom(s *packing.Solution, found func(pod *corev1.Pod, m *inventory.Machine)) {
	for i, m := range p.Targets {
		if m.Node == nil {
			continue
		}
		for _, share := range s.OnNodes[i] {
			for _, n := range share.Pods {
				if pod := p.Classes[share.Class].Pods[n]; kube.IsBufferPod(pod) {
					found(pod, m)
				}
			}
		}
	}
}

// Room holds the buffer pods of CapacityBuffers and ProvisioningRequests, by UID.
type Room map[types.UID]*corev1.Pod

func roomOf(pods []*corev1.Pod) Room {
	out := make(Room, len(pods))
	for _, pod := range pods {
		out[pod.UID] = pod
	}
	return out
}

// Has reports whether the pod is one of the buffer pods in r.
func (r Room) Has(id engine.PodID) bool { return r[id.UID] != nil }

// without returns the number of pods without a place in the plan, buffer pods aside.
func (r Room) without(plan *engine.Plan) int {
	n := 0
	for _, u := range plan.Unplaced {
		if !r.Has(u.Pod) {
			n++
		}
	}
	return n
}

// onExisting adds the places of buffer pods on existing machines to a plan without buffer pods. Other buffer pods get the reason PodsFirst.
func (p *Problem) onExisting(plan *engine.Plan, room Room) {
	existing := *p.Packing
	existing.Pools = nil
	placed := map[types.UID]bool{}
	p.eachWithRoom(packing.Solve(&existing), func(pod *corev1.Pod, m *inventory.Machine) {
		placed[pod.UID] = true
		plan.Placements = append(plan.Placements, engine.Placement{Pod: kube.PodID(pod), Node: m.Name(), Claim: m.ClaimName()})
	})
	for uid, pod := range room {
		if !placed[uid] {
			plan.Unplaced = append(plan.Unplaced, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{{Code: engine.PodsFirst}}})
		}
	}
}

// TakeOut replaces the buffer pods of a launch by the buffers and requests that the launch is for, and returns the buffer pods.
func (r Room) TakeOut(l *engine.Launch) (out []*corev1.Pod) {
	l.Pods = slices.DeleteFunc(l.Pods, func(id engine.PodID) bool {
		pod := r[id.UID]
		if pod == nil {
			return false
		}
		out = append(out, pod)
		shares, share := &l.Buffers, engine.BufferShare{Namespace: pod.Namespace, Name: pod.Annotations[v1.BufferNameAnnotationKey], Pods: 1}
		if name := pod.Annotations[kube.RequestNameAnnotation]; name != "" {
			shares, share.Name = &l.ProvisioningRequests, name
		}
		i := slices.IndexFunc(*shares, func(x engine.BufferShare) bool { return x.Namespace == share.Namespace && x.Name == share.Name })
		if i >= 0 {
			(*shares)[i].Pods++
		} else {
			*shares = append(*shares, share)
		}
		return true
	})
	return out
}

// roomCount holds, for each buffer, the number of its buffer pods with a place.
type roomCount struct {
	p        *Problem
	room     Room
	of       map[types.UID]*engine.BufferRoom // the result for each pod's buffer
	machines map[string]*inventory.Machine    // every machine by name
}

// sumUp takes the buffer pods out of the plan, and adds the result for each buffer.
func (p *Problem) sumUp(plan *engine.Plan, buffers []*buffer.Buffer, waiting []*corev1.Pod) {
	plan.Buffers = make([]engine.BufferRoom, len(buffers))
	c := &roomCount{p: p, room: roomOf(waiting), of: map[types.UID]*engine.BufferRoom{}, machines: map[string]*inventory.Machine{}}
	next := 0
	for i, b := range buffers {
		room := &plan.Buffers[i]
		*room = engine.BufferRoom{
			Namespace: b.Object.Namespace, Name: b.Object.Name, UID: b.Object.UID, ProblemReason: b.Reason, Problem: b.Message, Quota: b.Quota, Limit: b.Limit,
		}
		if b.Reason != "" {
			continue
		}
		room.Size = b.Size
		for _, pod := range waiting[next : next+b.Size] {
			c.of[pod.UID] = room
		}
		next += b.Size
	}
	for _, m := range p.Machines {
		c.machines[m.Name()] = m
	}
	plan.Placements = slices.DeleteFunc(plan.Placements, c.placed)
	for i := range plan.Launches {
		c.launched(&plan.Launches[i])
	}
	plan.Unplaced = slices.DeleteFunc(plan.Unplaced, func(u engine.Unplaced) bool {
		room := c.of[u.Pod.UID]
		if room != nil && room.Reasons == nil {
			room.Reasons = u.Reasons
		}
		return room != nil
	})
	plan.Sequence = slices.DeleteFunc(plan.Sequence, func(id engine.PodID) bool { return c.room.Has(id) })
	for i := range plan.Buffers {
		room := &plan.Buffers[i]
		slices.Sort(room.Pools)
		room.Pools = slices.Compact(room.Pools)
	}
}

// placed adds a pod that has a place on a machine to the result for its buffer. It returns false if the pod is not a buffer pod.
func (c *roomCount) placed(x engine.Placement) bool {
	room, m := c.of[x.Pod.UID], c.machines[x.Node]
	if room == nil {
		return false
	}
	if m.Node != nil && (m.Claim == nil || m.IsInitialized()) {
		room.Existing++
	} else {
		room.Coming++
	}
	if pool := m.Pool(); pool != "" {
		room.Pools = append(room.Pools, pool)
	}
	room.PerHour += m.Price * c.share(c.room[x.Pod.UID], c.p.Names.Vector(m.Usable()))
	return true
}

// launched adds the buffer pods of a launch to the results for their buffers.
func (c *roomCount) launched(l *engine.Launch) {
	pods := c.room.TakeOut(l)
	if len(pods) == 0 {
		return
	}
	size := c.sizeOf(l)
	for _, pod := range pods {
		room := c.of[pod.UID]
		room.Coming++
		room.Pools = append(room.Pools, l.NodePool)
		room.PerHour += l.Price * c.share(pod, size)
	}
}

// sizeOf returns the resources that the cheapest type of the launch offers to pods.
func (c *roomCount) sizeOf(l *engine.Launch) capacity.Vector {
	for _, pool := range c.p.Pools {
		if pool.NodePool.Name != l.NodePool {
			continue
		}
		for i := range pool.Options {
			if pool.Options[i].ID() == l.Offerings[0].OfferingID {
				return c.p.Names.Vector(pool.Options[i].Kind.Allocatable())
			}
		}
	}
	return nil
}

// share returns the largest share of any resource of a machine that the pod takes.
func (c *roomCount) share(pod *corev1.Pod, size capacity.Vector) float64 {
	most := 0.0
	for i, n := range c.p.requestOf(pod) {
		if n > 0 && i < len(size) && size[i] > 0 && size[i] < capacity.Most {
			most = max(most, float64(n)/float64(size[i]))
		}
	}
	return min(most, 1)
}
