package scheduler

import (
	"math"
	"slices"
)

// topologyDomains numbers the values of one label over all nodes of a replay.
type topologyDomains struct {
	of     []int32 // by node, -1 where the label is missing
	values int
}

func newTopology(nodes []*nodeInfo, key string) *topologyDomains {
	t := &topologyDomains{of: make([]int32, len(nodes))}
	index := map[string]int32{}
	for i, n := range nodes {
		value, ok := n.node.Labels[key]
		if !ok {
			t.of[i] = -1
			continue
		}
		d, known := index[value]
		if !known {
			d = int32(len(index))
			index[value] = d
		}
		t.of[i] = d
	}
	t.values = len(index)
	return t
}

// eachNode is the topology in which every node is a domain of its own.
func eachNode(nodes int) *topologyDomains {
	t := &topologyDomains{of: make([]int32, nodes), values: nodes}
	for i := range t.of {
		t.of[i] = int32(i)
	}
	return t
}

// matchCount counts pods of one sort (those that a selector matches, or those that own a term) by domain of a topology.
type matchCount struct {
	*topologyDomains
	// within says which nodes count; nil means all.
	within []bool
	// live counts pass over pods that are being deleted.
	live   bool
	counts []int32
	total  int
	// promised counts, by node, pods that are nominated there and not bound yet; nil as long as there are none.
	promised []int32
	// least is the smallest count of a domain that has nodes that count, leastOf how many domains have it; it is stale
	// once that is 0.
	domains []bool
	size    int32 // how many of domains are true
	least   int32
	leastOf int32
}

func newMatchCount(t *topologyDomains, within []bool, live bool) *matchCount {
	out := &matchCount{topologyDomains: t, within: within, live: live, counts: make([]int32, t.values), domains: make([]bool, t.values)}
	for n, d := range t.of {
		if d >= 0 && (within == nil || within[n]) && !out.domains[d] {
			out.domains[d] = true
			out.size++
		}
	}
	return out
}

// add counts so many pods on node n.
func (t *matchCount) add(n int, pods int32) {
	d := t.of[n]
	if d < 0 || t.within != nil && !t.within[n] {
		return
	}
	if t.counts[d] == t.least {
		t.leastOf--
	}
	t.counts[d] += pods
	t.total += int(pods)
}

// promise counts a pod that is nominated to node n; by is -1 once it is not any more.
func (t *matchCount) promise(n int, by int32) {
	if t.promised == nil {
		t.promised = make([]int32, len(t.of))
	}
	t.promised[n] += by
}

// at is the count of the domain of node n, with what is promised to that node; a node without the label has none.
func (t *matchCount) at(n int) int32 {
	d := t.of[n]
	if d < 0 {
		return 0
	}
	if t.promised != nil && (t.within == nil || t.within[n]) {
		return t.counts[d] + t.promised[n]
	}
	return t.counts[d]
}

// minimum is the smallest count over the domains, 0 where there are fewer than wanted.
func (t *matchCount) minimum(wanted int32) int32 {
	if t.size < max(wanted, 1) {
		return 0
	}
	if t.leastOf <= 0 {
		t.least, t.leastOf = math.MaxInt32, 0
		for d, count := range t.counts {
			switch {
			case !t.domains[d]:
			case count < t.least:
				t.least, t.leastOf = count, 1
			case count == t.least:
				t.leastOf++
			}
		}
	}
	return t.least
}

// appendOnce adds a count to a list that it is not in yet.
func appendOnce(list []*matchCount, t *matchCount) []*matchCount {
	if slices.Contains(list, t) {
		return list
	}
	return append(list, t)
}
