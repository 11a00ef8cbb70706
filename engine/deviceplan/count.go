package deviceplan

import (
	"iter"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/kube"
)

// group is selections that may match the same devices. For each set of them there is a resource: of it a machine has the devices that any
// of the set matches, and every request takes of all sets that it is in. That requests fit all of them is just when all can be served
// (Hall's theorem), if kube-scheduler does not give a device to the wrong one; see limit.
type group []selection

// mostTogether bounds the resources of a group. Kinds with further selections are not counted.
const mostTogether = 4

// masks are the sets of the group's selections.
func (g group) masks() iter.Seq[int] {
	return func(yield func(int) bool) {
		for mask := 1; mask < 1<<len(g); mask++ {
			if !yield(mask) {
				return
			}
		}
	}
}

func resourceOf(group, mask int) corev1.ResourceName {
	return corev1.ResourceName(kube.DevicesPrefix + strconv.Itoa(group) + "-" + strconv.Itoa(mask))
}

// makeGroups sorts the selections of kinds that count.
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
	for _, k := range p.kinds {
		for i := range k.asks {
			a := &k.asks[i]
			a.group = -1
			for g := range p.groups {
				if at := slices.IndexFunc(p.groups[g], func(s selection) bool { return s.text == a.selection.text }); at >= 0 {
					a.group, a.bit = g, at
				}
			}
			k.counts = k.counts && a.group >= 0 && len(p.groups[a.group]) <= mostTogether
		}
	}
}

// join adds a selection to the group that it overlaps with, and makes one of groups that it ties together.
func (p *Plan) join(s selection) {
	joined := group{s}
	var rest []group
	for _, g := range p.groups {
		switch {
		case slices.ContainsFunc(g, func(o selection) bool { return o.text == s.text }):
			return
		case slices.ContainsFunc(g, func(o selection) bool { return p.overlap(o, s) }):
			joined = append(slices.Clone(g), joined...)
		default:
			rest = append(rest, g)
		}
	}
	p.groups = append(rest, joined)
}

func (p *Plan) overlap(a, b selection) bool {
	for s := range p.facts.Shapes {
		if p.answer(a.choice, s) == device.Yes && p.answer(b.choice, s) == device.Yes {
			return true
		}
	}
	return false
}

// OnType is what a machine of the type has of the resources that devices are counted as.
func (p *Plan) OnType(t *engine.InstanceType) map[corev1.ResourceName]int64 {
	t = p.typeOf(t)
	room, known := p.roomOfType[t]
	if !known {
		room = p.room(p.types[t], device.NewUsage())
		p.roomOfType[t] = room
	}
	return room
}

// OnNode is what a node has left. Of a machine that is still starting it is what the type promises (nil if that is not known), until all its drivers
// have published.
func (p *Plan) OnNode(node *corev1.Node, initialized bool, expected *engine.InstanceType) map[corev1.ResourceName]int64 {
	if !initialized && !p.published(node, expected) {
		return p.OnType(expected)
	}
	room, known := p.roomOfNode[node.Name]
	if !known {
		room = p.room(p.nodes[node.Name], p.usage)
		p.roomOfNode[node.Name] = room
	}
	return room
}

// published reports whether every driver that the type promises has published a whole pool.
func (p *Plan) published(node *corev1.Node, expected *engine.InstanceType) bool {
	if node == nil {
		return false
	}
	for _, want := range p.types[p.typeOf(expected)] {
		if !slices.ContainsFunc(p.nodes[node.Name], func(have device.Pool) bool { return have.Driver == want.Driver && !have.Incomplete }) {
			return false
		}
	}
	return true
}

// mostPods bounds how many pods of one kind are tried on a machine.
const mostPods = 128

// room counts what pools have left.
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

// countGroup counts the devices that are free.
func (p *Plan) countGroup(out map[corev1.ResourceName]int64, g int, pools []device.Pool, usage *device.Usage) {
	selections := p.groups[g]
	if len(selections) > mostTogether {
		return
	}
	failed := 0
	var matched []int // for each free device, the selections that match it
	for i := range pools {
		pool := &pools[i]
		if pool.Incomplete || pool.Invalid != "" {
			continue
		}
		for j := range pool.Devices {
			d, mask := &pool.Devices[j], 0
			for bit, s := range selections {
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
	for mask := range selections.masks() {
		if n := countOf(matched, mask&^failed); n > 0 {
			out[resourceOf(g, mask)] = n
		}
	}
	limit(out, g, selections, matched, failed)
}

// countOf counts the devices that one of the selections of the mask matches.
func countOf(matched []int, mask int) (n int64) {
	for _, m := range matched {
		if m&mask != 0 {
			n++
		}
	}
	return n
}

// limit bears in mind that kube-scheduler gives the first device that matches to who comes first, though only another would do for who
// comes next: all who may take devices of a selection together take no more than it matches. On machines whose devices are alike that
// changes nothing.
func limit(out map[corev1.ResourceName]int64, g int, selections group, matched []int, failed int) {
	for bit := range selections {
		own := int64(0)
		rivals := 0
		for _, m := range matched {
			if m>>bit&1 == 1 && failed>>bit&1 == 0 {
				own++
				rivals |= m &^ failed
			}
		}
		if name := resourceOf(g, rivals); own > 0 && own < out[name] {
			out[name] = own
		}
	}
}
