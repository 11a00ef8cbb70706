package deviceplan

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/kube"
)

// group holds selections that may match the same devices. Each mask is a set of these selections, with a resource of its own. A machine has one
// unit of the resource for each device that any selection of the set matches. A request takes units of the resources of all sets that contain
// its selection. The sets are the single selections, the selections that match one device, and the selections that compete for devices (see
// countGroup). If requests fit within all these resources, kube-scheduler finds devices for them in any order.
type group struct {
	selections []selection
	masks      []int
}

// mostSets is the largest number of resources of a group, mostSelections the largest number of bits of a mask. Larger groups are not counted.
const (
	mostSets       = 24
	mostSelections = 60
)

func resourceOf(group, mask int) corev1.ResourceName {
	return corev1.ResourceName(kube.DevicesPrefix + strconv.Itoa(group) + "-" + strconv.Itoa(mask))
}

// makeGroups divides the selections of counting kinds into groups.
func (p *Plan) makeGroups() {
	for _, k := range p.kinds {
		if !k.counts || !k.problem.OK() {
			k.counts = false
			continue
		}
		for i := range k.asks {
			p.join(k.asks[i].selection)
		}
	}
	for g := range p.groups {
		p.findSets(&p.groups[g])
	}
	for _, k := range p.kinds {
		for i := range k.asks {
			a := &k.asks[i]
			a.group = -1
			for g := range p.groups {
				if at := slices.IndexFunc(p.groups[g].selections, func(s selection) bool { return s.text == a.selection.text }); at >= 0 {
					a.group, a.bit = g, at
				}
			}
			k.counts = k.counts && a.group >= 0 && len(p.groups[a.group].masks) > 0 &&
				!slices.ContainsFunc(k.asks[:i], func(other ask) bool { return other.group == a.group && other.bit != a.bit })
		}
	}
}

// findSets finds the sets of a group. It finds none if the devices cannot be counted. That is so if a selection matches
// some devices of a type, and a competing selection matches further ones.
func (p *Plan) findSets(g *group) {
	if len(g.selections) > mostSelections {
		return
	}
	sets := map[int]bool{}
	for bit := range g.selections {
		sets[1<<bit] = true
	}
	note := func(pools []device.Pool) (mixed bool) {
		matched, failed := p.matched(g, pools, device.NewUsage())
		for _, m := range matched {
			sets[m] = true
		}
		for bit := range g.selections {
			own, rivals := ownOf(matched, failed, bit)
			if own > 0 {
				sets[rivals] = true
				mixed = mixed || own < countOf(matched, rivals)
			}
		}
		return mixed
	}
	for _, of := range []iter.Seq[[]device.Pool]{maps.Values(p.types), maps.Values(p.learned)} {
		for pools := range of {
			if note(pools) {
				return
			}
		}
	}
	for _, pools := range p.nodes {
		note(pools)
	}
	if len(sets) <= mostSets {
		g.masks = slices.Sorted(maps.Keys(sets))
	}
}

// join adds a selection to the group that it overlaps with. If it overlaps with several groups, join merges them.
func (p *Plan) join(s selection) {
	joined := []selection{s}
	var rest []group
	for _, g := range p.groups {
		switch {
		case slices.ContainsFunc(g.selections, func(o selection) bool { return o.text == s.text }):
			return
		case slices.ContainsFunc(g.selections, func(o selection) bool { return p.overlap(o, s) }):
			joined = append(slices.Clone(g.selections), joined...)
		default:
			rest = append(rest, g)
		}
	}
	p.groups = append(rest, group{selections: joined})
}

func (p *Plan) overlap(a, b selection) bool {
	for s := range p.facts.Shapes {
		if p.answer(a.choice, s) == device.Yes && p.answer(b.choice, s) == device.Yes {
			return true
		}
	}
	return false
}

// OnType returns the resources for devices on a machine of the type that the NodePool starts.
func (p *Plan) OnType(pool string, t *engine.InstanceType) map[corev1.ResourceName]int64 {
	key := typeIn{pool, t}
	room, known := p.roomOfType[key]
	if !known {
		room = p.room(p.expected(pool, t), device.NewUsage())
		p.roomOfType[key] = room
	}
	return room
}

// OnNode returns the resources for devices that are free on a node. If the machine is still starting, the devices of its type are added that its
// drivers have not published yet. expected is nil if the type is not known.
func (p *Plan) OnNode(node *corev1.Node, initialized bool, expected *engine.InstanceType) map[corev1.ResourceName]int64 {
	if missing := p.missing(node, initialized, expected); len(missing) > 0 {
		if len(p.nodes[node.Name]) == 0 {
			return p.OnType(node.Labels[v1.NodePoolLabelKey], expected)
		}
		return p.room(slices.Concat(p.nodes[node.Name], missing), p.usage)
	}
	room, known := p.roomOfNode[node.Name]
	if !known {
		room = p.room(p.nodes[node.Name], p.usage)
		p.roomOfNode[node.Name] = room
	}
	return room
}

// missing returns the pools of the type that a starting machine has not published yet. The names of a driver's future pools are not known. So
// each complete published pool takes the place of an expected pool with as many devices. If there is none, it takes the place of the last expected
// pool of its driver.
func (p *Plan) missing(node *corev1.Node, initialized bool, expected *engine.InstanceType) []device.Pool {
	if initialized {
		return nil
	}
	out := slices.Clone(p.expected(node.Labels[v1.NodePoolLabelKey], expected))
	for _, have := range p.nodes[node.Name] {
		at := -1
		for i := range out {
			elsewhere := len(have.Devices) == 0 && len(have.Others) > 0 // a node's counters are read from the pools of all nodes
			if out[i].Driver == have.Driver && !have.Incomplete && !elsewhere {
				if at = i; len(out[i].Devices) == len(have.Devices) {
					break
				}
			}
		}
		if at >= 0 {
			out = slices.Delete(out, at, at+1)
		}
	}
	return out
}

// mostPods is the largest number of pods of one kind that are tried on a machine.
const mostPods = 128

// room counts the free resources for devices in the pools.
func (p *Plan) room(pools []device.Pool, usage *device.Usage) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{}
	if len(pools) == 0 {
		return out
	}
	for g := range p.groups {
		p.countGroup(out, g, pools, usage)
	}
	for _, k := range p.kinds {
		if k.counts || !k.problem.OK() {
			continue
		}
		used, n := usage.Clone(), int64(0)
		for n < mostPods {
			picks, reason := device.Allocate(p.facts, pools, used, k.claims, 0)
			if reason != nil {
				break
			}
			n++
			for i := range picks {
				used.Add(picks[i])
			}
		}
		if n > 0 {
			out[k.resource()] = n
		}
	}
	return out
}

// countGroup counts the free devices of a group.
func (p *Plan) countGroup(out map[corev1.ResourceName]int64, g int, pools []device.Pool, usage *device.Usage) {
	of := &p.groups[g]
	all, failed := p.matched(of, pools, device.NewUsage())
	free, _ := p.matched(of, pools, usage)
	for _, mask := range of.masks {
		if n := countOf(free, mask&^failed); n > 0 {
			out[resourceOf(g, mask)] = n
		}
	}
	// kube-scheduler gives the first matching device to the first pod, even if the next pod could only use that device. So all pods that may take
	// devices of a selection together take at most as many devices as it matches. If the devices are alike, that changes nothing.
	for bit := range of.selections {
		_, rivals := ownOf(all, failed, bit)
		own, _ := ownOf(free, failed, bit)
		if name := resourceOf(g, rivals); own > 0 && own < out[name] {
			out[name] = own
		}
	}
}

// matched lists, for each free device, the selections that match it, and the selections that fail for some device. Failing selections count no
// devices, because kube-scheduler gives up at the failing device.
func (p *Plan) matched(g *group, pools []device.Pool, usage *device.Usage) (matched []int, failed int) {
	for i := range pools {
		pool := &pools[i]
		if pool.Incomplete || pool.Invalid != "" {
			continue
		}
		for j := range pool.Devices {
			d, mask := &pool.Devices[j], 0
			for bit, s := range g.selections {
				switch p.answer(s.choice, d.Shape) {
				case device.Failed:
					failed |= 1 << bit
				case device.Yes:
					if !d.Elsewhere && device.Tolerates(s.choice.Tolerations, d.Taints) {
						mask |= 1 << bit
					}
				}
			}
			if mask != 0 && !usage.InUse(device.ID{Driver: pool.Driver, Pool: pool.Name, Device: d.Name}) {
				matched = append(matched, mask)
			}
		}
	}
	return matched, failed
}

// countOf counts the devices that at least one selection of the mask matches.
func countOf(matched []int, mask int) (n int64) {
	for _, m := range matched {
		if m&mask != 0 {
			n++
		}
	}
	return n
}

// ownOf counts the devices that a selection matches, and returns the selections that match some of these devices.
func ownOf(matched []int, failed, bit int) (own int64, rivals int) {
	for _, m := range matched {
		if (m&^failed)>>bit&1 == 1 {
			own++
			rivals |= m &^ failed
		}
	}
	return own, rivals
}
