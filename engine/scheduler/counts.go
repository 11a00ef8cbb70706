package scheduler

import (
	"math"
	"slices"
)

// topologyDomains holds, for all nodes of a replay, the index of each node's value of one label.
type topologyDomains struct {
	of     []int32 // the domain of each node; -1 for a node that lacks the label
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

// eachNode returns the topology in which each node is its own domain.
func eachNode(nodes int) *topologyDomains {
	t := &topologyDomains{of: make([]int32, nodes), values: nodes}
	for i := range t.of {
		t.of[i] = int32(i)
	}
	return t
}

// matchCount counts pods by domain of a topology: the pods that a selector matches, or the pods that own a term.
type matchCount struct {
	*topologyDomains
	// within marks the nodes whose pods are counted; nil means all.
	within []bool
	// live is true if pods that are being deleted are left out.
	live   bool
	counts []int32
	total  int
	// promised counts, by node, the pods that are nominated to the node and not bound yet; nil if there are none.
	promised []int32
	// domains marks the domains with nodes in within. least is the smallest count of such a domain, leastOf the number of domains with that count;
	// least is stale if leastOf is 0.
	domains []bool
	size    int32 // the number of true entries in domains
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

// add adds a number of pods on node n to the count.
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

// promise counts a pod that is nominated to node n; by is -1 if the nomination ends.
func (t *matchCount) promise(n int, by int32) {
	if t.promised == nil {
		t.promised = make([]int32, len(t.of))
	}
	t.promised[n] += by
}

// at returns the count of node n's domain plus the promises on node n itself. It returns 0 if n lacks the label.
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

// minimum returns the smallest count of a domain. It returns 0 if there are fewer domains than wanted.
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

// appendOnce appends a count unless the list has it.
func appendOnce(list []*matchCount, t *matchCount) []*matchCount {
	if slices.Contains(list, t) {
		return list
	}
	return append(list, t)
}
