package scheduler

import "tenon.sh/engine/capacity"

// freeByNode is what is free on the nodes of a replay, less what is kept for nominated pods: numbers side by side, because
// every pod is compared with every node.
type freeByNode struct {
	dims, nodes int
	free        []int64 // node by node
	// most holds, for each block of nodes, amounts of which no node there has more; least, of which none has less.
	most, least []capacity.Vector
	stale       []bool // of each block: its nodes may have less by now than most
	next        int    // the block to begin with
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

// put says what is free on node i.
func (r *freeByNode) put(i int, free capacity.Vector) {
	copy(r.of(i), free)
	r.least[i/roomBlock].Min(free)
}

// of is what is free on node i.
func (r *freeByNode) of(i int) capacity.Vector { return r.free[i*r.dims : (i+1)*r.dims] }

// take takes the need n times from node i; -1 gives it back.
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

// each calls look with blocks of nodes, of which some may have room for the pod, until enough nodes have taken it or all have
// been asked. Look says how many of the nodes from, up to but not including to, did; roomy means that all have room for it. Like
// kube-scheduler it begins where it has stopped the last time.
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

// fits reports whether there is room for what the pod asks for.
func (p *podInfo) fits(room capacity.Vector) bool {
	for _, a := range p.asked {
		if a.n > room[a.resource] {
			return false
		}
	}
	return true
}
