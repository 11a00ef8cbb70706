// Package packing decides how many machines of which kind hold a set of pods at the least price. It knows only numbers and sets: amounts of
// resources, options that can be bought, the options that each class of pods may use, and rules between pods (package topology). Package
// provisioning compiles a Problem from Kubernetes' objects and names the result.
package packing

import (
	"cmp"
	"sync/atomic"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// Problem is what must be placed, and where it may go. All vectors have the same length. The solution depends on the
// order of the lists, so a caller that wants it independent of names sorts them by structure first.
type Problem struct {
	Classes []Class
	Nodes   []Node
	Pools   []Pool
	// Layout says what rules between pods count, Places which domains there are: nodes and options name theirs.
	Layout topology.Layout
	Places []topology.Place
	// Quotas holds, for each supply with an end that options draw from, how many units it has left. A capacity reservation is one of
	// which every machine takes one unit.
	Quotas []int
	// Relief is what covered options save at most, beside the same at their full price.
	Relief float64
	// Things counts what pods can share on a node.
	Things int
	// Effort is how many patterns may be built to make the first solution cheaper.
	Effort int
	// MostLooks bounds how many rules, options and domains placing may look at. Beyond it, pods without a place get none, and no further
	// round begins. 0 means no bound.
	MostLooks int64
	looked    *atomic.Int64
	// Work, unless it is nil, counts the units of effort that are spent, on the first solution too, and what placing looks at in
	// the same units.
	Work *atomic.Int64
	// Stop, unless it is nil, is asked now and then whether nobody waits for the solution any more: then the search ends soon. Several
	// goroutines may ask at a time.
	Stop func() bool
	// Unit is one unit of the resource that machines are mostly sold by: one core.
	Unit capacity.Vector
	// Devices marks the resources of machines that are bought only for pods that ask for them.
	Devices []bool
	// PriceBand bounds the options that one new machine lists: each costs at most this times the cheapest. MaxTypes
	// bounds their types.
	PriceBand float64
	MaxTypes  int
	// Weighted compares what a level misses with what a place costs; otherwise the first level that can be met is taken.
	Weighted bool
	// Threads is how many goroutines may search; the solution does not depend on it.
	Threads int
}

func (p *Problem) stopped() bool { return p.Stop != nil && p.Stop() }

// spent reports whether placing has reached MostLooks.
func (p *Problem) spent() bool { return p.MostLooks > 0 && p.looked.Load() > p.MostLooks }

// Class is a number of pods that are alike in everything that matters here.
type Class struct {
	Request capacity.Vector
	Count   int
	// Owners holds, for each pod, a number that replicas of one workload share, -1 for none; nil means none at all.
	Owners []int
	// Shared lists parts of the request that a node has no need to give where somebody has them already.
	Shared []Shared
	// Priority orders classes that compete for too little room: higher first.
	Priority int
	// Levels are what the pods ask for, the most first: where one cannot be met, the next is tried.
	Levels []Level
	// Assigned is one more than the index of the node that the pods are expected on, 0 for none. They go there before any other
	// pod goes anywhere, whether there is room or not, if the rules between pods allow it; else they are pods like others.
	Assigned int
	// Proposed homes are taken only where there is room.
	Proposed bool
	// Batch keeps new machines apart: none has pods of two batches.
	Batch int
}

// Level is one set of demands of a class.
type Level struct {
	// Nodes holds the existing nodes that admit the class, room aside.
	Nodes bitset.Set
	// Ways says how the class may use the pools' new machines. Levels may share it.
	Ways *Ways
	// Rules are those between pods; nil means none. Levels may share them.
	Rules *topology.Rules
	// Miss is, of what a pod is worth, the share that is lost by placing it at this level rather than at the first.
	Miss float64
	// Lone marks a first level that asks for something about single machines: in a Weighted problem it is found out by
	// trying whether machines are worth starting for it.
	Lone bool
}

// Ways holds, for each pool, the ways in which a class may use a machine of it; none means not at all.
type Ways struct {
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
	// Place is the index of the node's place.
	Place int
	// Has holds the shared things that somebody has there; nil for none.
	Has bitset.Set
	// Owns holds the host marks that the node owns already, Rejects those that its pods keep out; nil means none.
	Owns, Rejects bitset.Set
	// Groups and Sets count the pods on the node, for those counted by machine; what is not listed is 0. Doubtful are those of the
	// groups' pods that may not come.
	Groups, Sets, Doubtful []Tally
	// Ending counts, for sets of all keys, victims of preemption; they count for affinity only if the preemptor does not come.
	Ending []Tally
}

// Shared is what a thing that several pods can use takes of a resource: whoever comes first to a node takes it. Things are numbered. One
// may take of several resources.
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
	// Weight orders the pools strictly: pods go to a heavier pool if it can take them, whatever its price.
	Weight  int
	Options []Option
	// Free holds the values that each free key may take: labels that no option fixes.
	Free []bitset.Set
	// Left is what the pool's limits leave; capacity.Most where there is none.
	Left capacity.Vector
	// Variety lists how many different values of something a machine's list of options must keep.
	Variety []Variety
}

// Variety asks for a number of different values among the options of one machine.
type Variety struct {
	Min int
	// Value holds the value of each option, -1 for none.
	Value []int
	// Soft lowers the number to what can be had when a machine gets its first pod.
	Soft bool
}

// Option is one offering of one type of machine.
type Option struct {
	// Type and Slot place the option in the product that a new machine lists: options of one Type have the same size,
	// options of one Slot the same zone and the like. Group keeps apart what may not be listed together.
	Type, Slot, Group int
	Price             float64
	// Full is what a machine of the option costs without what pays for it, 0 where nothing does: of these prices the band is a share.
	Full        float64
	Allocatable capacity.Vector
	// Charge is what the option counts against the pool's limits.
	Charge capacity.Vector
	// Place is the index of the place that a machine of this option is in.
	Place int
	// Draws is what a machine of the option takes of quotas, at most once of each.
	Draws []Draw
	// Covered marks an option that costs next to nothing as long as a quota lasts. There is another one that is the same at its full price.
	Covered bool
	// Large marks an option that is bought only for pods that no other option can hold.
	Large bool
	// Wide asks for a long list of types, because options of this kind sell out often.
	Wide bool
	// Listed is false for an option that cannot be bought now.
	Listed bool
}

// full is the price that the price band is about.
func (o *Option) full() float64 { return cmp.Or(o.Full, o.Price) }

// Draw is what one machine takes of a quota: its index, and so many units of it.
type Draw struct{ Quota, Units int }

// Solution says where the pods go.
type Solution struct {
	// OnNodes holds, for each node, the pods that it gets.
	OnNodes [][]Share
	New     []Machine
	// Left holds the pods of each class that nothing can run.
	Left [][]int
	// Exhausted says that MostLooks was reached too early: a pod in Left might have a place.
	Exhausted bool
	// Order lists every placed pod, in an order in which each meets its rules when those before it are there.
	Order []Pod
	// Bound is a lower bound for the price of the new machines, Worth what a unit of each resource is worth at it.
	Bound float64
	Worth []float64
	// World is the state of the rules between pods at the end, for explanations.
	World *topology.World
}

// Pod is one pod of a class: the pods of a class are numbered from 0, the first ones are placed first.
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
	// Relaxed is true where a soft Variety had to be lowered.
	Relaxed bool
	varied  bool // the list is as long as it is for a Variety
}
