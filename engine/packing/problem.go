// Package packing decides how many machines of which kind hold a set of pods at the least price. It knows only numbers and sets: amounts of
// resources, options that can be bought, the options that each class of pods may use, and rules between pods (package topology). Package
// provisioning compiles a Problem from Kubernetes' objects and adds names to the result.
package packing

import (
	"cmp"
	"slices"
	"sync/atomic"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// Problem lists the pods to place, and the nodes and options that they may use. All vectors have the same length. The solution depends on
// the order of the lists. A caller sorts them by structure first if the solution must not depend on names.
type Problem struct {
	Classes []Class
	Nodes   []Node
	Pools   []Pool
	// Layout describes the rules between pods, Places the domains. Nodes and options refer to Places by index.
	Layout topology.Layout
	Places []topology.Place
	// Quotas holds the units that each quota has left. A capacity reservation is a quota of which every machine takes one unit.
	Quotas []int
	// Relief is the most that covered options save, compared with the same options at their full price.
	Relief float64
	// Things is the number of things that pods can share on a node.
	Things int
	// Effort is the effort that the search for cheaper machines may spend after the first solution.
	Effort int
	// strategies are the ways to find cheaper machines; nil for all of them.
	strategies []strategy
	// MostLooks bounds the looks of placing, at rules, options and domains. Once it is reached, the remaining pods get no place, and no
	// further round begins. 0 means no bound.
	MostLooks int64
	looked    *atomic.Int64
	// Work, unless it is nil, counts the units of effort that are spent, on the first solution too, and the looks of placing, converted to
	// the same units.
	Work *atomic.Int64
	// Stop, unless it is nil, is called now and then. If it returns true, the solution is not needed any more, and the search ends soon.
	// Several goroutines may call it at a time.
	Stop func() bool
	// Unit is the vector of one core, because cpu is the resource that mainly decides the price of machines.
	Unit capacity.Vector
	// Devices marks resources, for example GPUs. Machines with them are bought only for pods that request them.
	Devices []bool
	// PriceBand and MaxTypes bound the options that one new machine lists: each costs at most PriceBand times the price of the cheapest,
	// and they have at most MaxTypes types.
	PriceBand float64
	MaxTypes  int
	// Weighted compares the Miss of a level with the price of a place; otherwise a pod takes the first level that can be met.
	Weighted bool
	// Threads is the number of goroutines that may search; the solution does not depend on it.
	Threads int
}

func (p *Problem) stopped() bool { return p.Stop != nil && p.Stop() }

// spent reports whether placing has reached MostLooks.
func (p *Problem) spent() bool { return p.MostLooks > 0 && p.looked.Load() > p.MostLooks }

// Class is a set of pods that are equal for every decision of this package.
type Class struct {
	Request capacity.Vector
	Count   int
	// Owners holds, for each pod, an ID that the replicas of one workload have in common, or -1 for a pod without an owner; nil means that no pod has
	// one.
	Owners []int
	// Shared lists the parts of the request that a pod does not take of a node if another pod there has taken them already.
	Shared []Shared
	// Priority orders classes that compete for too little room: the higher priority comes first.
	Priority int
	// Levels are the relaxations of the pods, the strictest first: if one cannot be met, the next is tried.
	Levels []Level
	// Assigned is one more than the index of the node on which the pods are expected; 0 if there is none. If the rules between pods allow it, these
	// pods are placed there before all other pods, even without enough room. Otherwise they are placed like other pods.
	Assigned int
	// Proposed marks an Assigned node that the pods use only if it admits them and has room.
	Proposed bool
	// Batch keeps batches apart: no new machine has pods of two batches.
	Batch int
}

// Level is one relaxation of a class: the nodes and machines that its pods may use, and the rules between pods.
type Level struct {
	// Nodes holds the existing nodes that admit the class, whether they have room or not.
	Nodes bitset.Set
	// Ways holds the ways in which the class may use the pools' new machines. Several levels may share one Ways.
	Ways *Ways
	// Rules are the rules between pods; nil means none. Levels may share them.
	Rules *topology.Rules
	// Miss is the loss, as a share of a pod's worth, if the pod is placed at this level rather than at the first.
	Miss float64
	// Lone marks a first level with a preference about single machines. A Weighted problem is solved with and without such levels, to find
	// out whether machines are worth starting for them.
	Lone bool
}

// Ways holds, for each pool, the ways in which a class may use a machine of it; a class may not use a pool without ways.
type Ways struct {
	Pools [][]Way
}

// Way is one way to use a pool's machines: any of its options, with each free key of the pool narrowed to a set of values.
type Way struct {
	Options bitset.Set
	// Free holds a set of values for each of the pool's free keys, in the order of Pool.Free; nil does not narrow a key.
	Free []bitset.Set
}

// Node is a machine that exists already; it costs nothing to use.
type Node struct {
	// Free is the free room of the node. A resource may be negative; then no pod fits that requests it.
	Free capacity.Vector
	// Place is the index of the node in Problem.Places.
	Place int
	// Has holds the shared things that pods have taken there already; nil for none.
	Has bitset.Set
	// Owns holds the host marks of the pods on the node, Rejects the host marks that these pods keep out; nil means none.
	Owns, Rejects bitset.Set
	// Groups and Sets count the pods on the node, for the groups and sets that are counted for each machine; a missing entry means 0. Doubtful counts
	// those pods of Groups that may not be placed here after all.
	Groups, Sets, Doubtful []Tally
	// Ending counts, for sets of all keys, the victims of preemption on the node. Affinity considers these victims only if the preemptor does not get
	// its place here.
	Ending []Tally
}

// Shared is the amount of a resource that a thing takes once for all pods that share it: the first of them on a node takes it. A thing is identified
// by an index, and may take several resources.
type Shared struct {
	Thing, Resource int
	Amount          int64
}

// Tally is a number of pods of one group or set.
type Tally struct {
	Of, Count int
}

// Pool is a source of new machines.
type Pool struct {
	// Weight orders the pools strictly: pods are put on machines of a heavier pool if it can take them, even at a higher price.
	Weight  int
	Options []Option
	// Free holds the values that each free key may take: labels that no option fixes.
	Free []bitset.Set
	// Left is the room that the pool's limits leave; capacity.Most for a resource without a limit.
	Left capacity.Vector
	// Variety lists requirements for different values among the options of one machine.
	Variety []Variety
}

// Variety requires a number of different values among the options of one machine.
type Variety struct {
	Min int
	// Value holds the value of each option, -1 for none.
	Value []int
	// Soft means that, if the number is not possible for a machine's first pod, the machine needs only the number that is possible.
	Soft bool
}

// Option is one offering of one type of machine.
type Option struct {
	// Type and Slot place the option in the product of types and slots that a new machine lists. Options of one Type have the same size,
	// options of one Slot the same zone and labels. Only options of the same Group may be listed together.
	Type, Slot, Group int
	Price             float64
	// Full is the price of a machine of the option without the commitment that pays for it. It is 0 if no commitment pays. PriceBand compares these
	// prices.
	Full        float64
	Allocatable capacity.Vector
	// Charge is the amount that a machine of the option uses of the pool's limits.
	Charge capacity.Vector
	// Place is the index, in Problem.Places, of the place of a machine of this option.
	Place int
	// Draws lists the units that a machine of the option takes of quotas, at most one entry for each quota.
	Draws []Draw
	// Covered marks an option that costs next to nothing as long as a quota lasts. Another option is the same at its full price.
	Covered bool
	// Large marks an option that is bought only for pods that no other option can hold.
	Large bool
	// Wide makes the list of types of a new machine longer, because options of this kind sell out often.
	Wide bool
	// Listed is false for an option that cannot be bought now.
	Listed bool
}

// full returns the price to which PriceBand applies.
func (o *Option) full() float64 { return cmp.Or(o.Full, o.Price) }

// Draw is the number of units that one machine takes of a quota.
type Draw struct{ Quota, Units int }

// Solution is the result: the place of each pod, and the machines to buy.
type Solution struct {
	// OnNodes holds, for each node, the pods that it gets.
	OnNodes [][]Share
	New     []Machine
	// Left holds the pods of each class without a place.
	Left [][]int
	// Exhausted is true if MostLooks was reached too early: a pod in Left might have a place.
	Exhausted bool
	// Order lists every placed pod. In this order, the rules of each pod are met by the pods before it.
	Order []Pod
	// Bound is a lower bound for the price of the new machines, Worth the worth of a unit of each resource at this bound.
	Bound float64
	Worth []float64
	// World is the state of the rules between pods at the end, for explanations.
	World *topology.World
}

// Pod is one pod of a class. The Numbers of a class's pods begin at 0; pods with lower Numbers are placed first.
type Pod struct {
	Class, Number int
}

// Share is some pods of one class.
type Share struct {
	Class int
	Pods  []int
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
	// Relaxed is true if a soft Variety had to be lowered.
	Relaxed bool
	varied  bool // a Variety decided the list
}

// batched reports whether the pods are of several batches. A plan with batches has no bound.
func (p *Problem) batched() bool {
	return slices.ContainsFunc(p.Classes, func(c Class) bool { return c.Batch != p.Classes[0].Batch })
}
