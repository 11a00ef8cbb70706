package engine

import "tenon.sh/engine/capacity"

// landingRoom is what is free on the nodes of a replay, less what is kept for nominated pods: numbers side by side, because
// every pod is compared with every node.
type landingRoom struct {
	dims, nodes int
	free        []int64 // node by node
	// most holds, for each block of nodes, amounts of which no node there has more.
	most []capacity.Vector
}

// roomBlock is the number of nodes of a block.
const roomBlock = 64

func (r *landingRoom) start(dims, nodes int) {
	r.dims, r.nodes = dims, nodes
	r.free = make([]int64, dims*nodes)
	for from := 0; from < nodes; from += roomBlock {
		most := make(capacity.Vector, dims)
		for d := range most {
			most[d] = capacity.Most
		}
		r.most = append(r.most, most)
	}
}

// of is what is free on node i.
func (r *landingRoom) of(i int) capacity.Vector { return r.free[i*r.dims : (i+1)*r.dims] }

// take takes the need n times from node i; -1 gives it back.
func (r *landingRoom) take(i int, need capacity.Vector, n int64) {
	free := r.of(i)
	free.Add(need, -n)
	if n < 0 {
		r.most[i/roomBlock].Max(free)
	}
}

// each calls look with the nodes in their order, without those that have no room for the pod for certain. Look reports
// whether the node took it.
func (r *landingRoom) each(p *landingPod, look func(i int) bool) {
	for b := range r.most {
		if !p.fits(r.most[b]) {
			continue
		}
		found := false
		from, to := b*roomBlock, min((b+1)*roomBlock, r.nodes)
		for i := from; i < to; i++ {
			if look(i) {
				found = true
			}
		}
		if found {
			continue
		}
		clear(r.most[b])
		for i := from; i < to; i++ {
			r.most[b].Max(r.of(i))
		}
	}
}

// fits reports whether there is room for what the pod asks for.
func (p *landingPod) fits(room capacity.Vector) bool {
	for _, d := range p.asked {
		if p.need[d] > room[d] {
			return false
		}
	}
	return true
}
