package scheduler

import "tenon.sh/engine/capacity"

// freeByNode holds the free resources of all nodes, minus those kept for nominated pods. The amounts are in one slice, because each pod is compared
// with each node.
type freeByNode struct {
	dims, nodes int
	free        []int64 // node by node
	// most holds an upper bound of the free amounts in each block of nodes; least holds a lower bound.
	most, least []capacity.Vector
	stale       []bool // by block: its nodes may have less than most
	next        int    // the block at which the next search begins
}

// roomBlock is the number of nodes of a block.
const roomBlock = 32

func (r *freeByNode) start(dims, nodes int) {
	r.dims, r.nodes = dims, nodes
	r.free = make([]int64, dims*nodes)
	for from := 0; from < nodes; from += roomBlock {
		most := make(capacity.Vector, dims)
		for d := range most {
			most[d] = capacity.Most
		}
		r.most, r.least, r.stale = append(r.most, most), append(r.least, most.Clone()), append(r.stale, true)
	}
}

// put sets the free resources of node i.
func (r *freeByNode) put(i int, free capacity.Vector) {
	copy(r.of(i), free)
	r.least[i/roomBlock].Min(free)
}

// of returns the free resources of node i.
func (r *freeByNode) of(i int) capacity.Vector { return r.free[i*r.dims : (i+1)*r.dims] }

// take subtracts need n times from node i; n = -1 returns it.
func (r *freeByNode) take(i int, need capacity.Vector, n int64) {
	free := r.of(i)
	free.Add(need, -n)
	if b := i / roomBlock; n < 0 {
		r.most[b].Max(free)
	} else {
		r.stale[b] = true
		r.least[b].Min(free)
	}
}

// each visits the blocks of nodes that may have room for the pod. It calls `look` for each block, and stops if enough nodes admit the pod. `look`
// gets the nodes from `from` to before `to`, and returns the number of them that admit the pod; roomy means that all have room. As in
// kube-scheduler, a search starts at the block where the last search stopped.
func (r *freeByNode) each(p *podInfo, enough int, look func(from, to int, roomy bool) int) {
	taken := 0
	for range r.most {
		b := r.next
		if r.next++; r.next == len(r.most) {
			r.next = 0
		}
		if !p.fits(r.most[b]) {
			continue
		}
		found := look(b*roomBlock, min((b+1)*roomBlock, r.nodes), p.fits(r.least[b]))
		if found == 0 {
			r.tighten(b)
		} else if taken += found; taken >= enough {
			return
		}
	}
}

func (r *freeByNode) tighten(b int) {
	if !r.stale[b] {
		return
	}
	r.stale[b] = false
	clear(r.most[b])
	for i := b * roomBlock; i < min((b+1)*roomBlock, r.nodes); i++ {
		r.most[b].Max(r.of(i))
	}
}

// fits reports whether the room covers the pod's requests.
func (p *podInfo) fits(room capacity.Vector) bool {
	for _, a := range p.asked {
		if a.n > room[a.resource] {
			return false
		}
	}
	return true
}
