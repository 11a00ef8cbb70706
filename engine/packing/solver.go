package packing

import (
	"sync"
)

// solver is the state of one round: placement puts pods on nodes and into domains, search finds machines for the pods in domains, and listing
// turns these into machines with the options that each may be started with.
type solver struct {
	p         *Problem
	market    *market
	placement placement
	search    search
	listing   listing
	broken    bool // a lesson was learned that makes this round's plan wrong
	exhausted bool // the looks were used up before each pod had a correct place
}

// frame is the data that all rounds of a problem share. Several rounds may run at the same time.
type frame struct {
	pools     []supplyPool
	quotas    []int
	heaviest  int // the rank of the heaviest pool
	views     views
	mu        sync.Mutex // guards sales
	sales     map[saleKey]*sale
	followers [][]dependant
	members   []int
	shapeOf   []int
	fresh     []int // of each group, the number of its pods that are residents of every new machine which the group counts
}

type rank struct{ priority, count int }
