// Package packing decides how many machines of which kind hold a set of pods at the least price. It knows numbers and
// sets only: amounts of resources, options that can be bought, and which classes of pods may use which option. What
// these stand for in Kubernetes is settled before (package engine compiles a Problem) and after (it names the result).
package packing

import (
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Problem is what must be placed, and where it may go. All vectors have the same length. The solution depends on the
// order of the lists, so a caller that wants it independent of names sorts them by structure first.
type Problem struct {
	Classes []Class
	Nodes   []Node
	Pools   []Pool
	// Effort is how many patterns may be built to make the first solution cheaper.
	Effort int
	// Unit is one unit of the resource that machines are mostly sold by: one core.
	Unit capacity.Vector
	// PriceBand bounds the options that one new machine lists: each costs at most this times the cheapest. MaxTypes
	// bounds their types.
	PriceBand float64
	MaxTypes  int
}

// Class is a number of pods that are alike in everything that matters here.
type Class struct {
	Request capacity.Vector
	Count   int
	// Nodes holds the existing nodes that admit the class, room aside.
	Nodes bitset.Set
	// Pools holds, for each pool, the ways in which the class may use a machine of it; none means not at all.
	Pools [][]Way
}

// Way is one way to use a pool's machines: on any of the options, with each free key of the pool narrowed to a set.
type Way struct {
	Options bitset.Set
	// Free narrows the pool's free keys, in their order; nil leaves a key as it is.
	Free []bitset.Set
}

// Node is a machine that exists already; it costs nothing to use.
type Node struct {
	// Free is what the node has left. It may be negative, then nothing fits that asks for that resource.
	Free capacity.Vector
}

// Pool is a source of new machines.
type Pool struct {
	// Weight orders the pools strictly: pods go to a heavier pool if it can take them, whatever its price.
	Weight  int
	Options []Option
	// Free holds the values that each free key may take: labels that no option settles.
	Free []bitset.Set
	// Left is what the pool's limits leave; capacity.Most where there is none.
	Left capacity.Vector
}

// Option is one offering of one type of machine.
type Option struct {
	// Type and Slot place the option in the product that a new machine lists: options of one Type have the same size,
	// options of one Slot the same zone and the like. Group keeps apart what may not be listed together.
	Type, Slot, Group int
	Price             float64
	Allocatable       capacity.Vector
	// Charge is what the option counts against the pool's limits.
	Charge capacity.Vector
	// Wide asks for a long list of types, because options of this kind sell out often.
	Wide bool
	// Listed is false for an option that cannot be bought now.
	Listed bool
}

// Solution says where the pods go.
type Solution struct {
	// OnNodes holds, for each node, how many pods of which class it gets.
	OnNodes [][]Share
	New     []Machine
	// Left counts the pods of each class that nothing can run.
	Left []int
	// Bound is a lower bound for the price of the new machines.
	Bound float64
}

// Share is a number of pods of one class.
type Share struct {
	Class, Count int
}

// Machine is a new machine: any of the listed options, a product of types and slots, holds all its pods.
type Machine struct {
	Pool int
	// Chosen is the cheapest listed option.
	Chosen int
	Listed []int // cheapest first, Chosen among them
	Free   []bitset.Set
	Pods   []Share
	// Fitting counts the options that could hold the pods; RunnerUp is the cheapest of another type, -1 if none.
	Fitting  int
	RunnerUp int
}
