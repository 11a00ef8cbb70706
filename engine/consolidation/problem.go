// Package consolidation finds machines whose removal saves money, because their pods have room elsewhere or on cheaper machines. It computes with
// numbers and sets only. The only rule between pods that it applies is the number of pods of a kind that one machine takes. Its result is a state
// to aim at, and the caller has to check whether all rules allow it.
package consolidation

import (
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Problem holds the running machines with their pods, and the options to buy. All vectors have the same length. Of equally good choices, the search
// takes the first in the list.
type Problem struct {
	Machines []Machine
	Classes  []Class
	Options  []Option
	// Worth is the worth of a unit of each resource, in USD per hour.
	Worth []float64
	// Horizon is the time within which a move has to pay for itself, in hours.
	Horizon float64
	// Floor is the least saving of a move, in USD per hour. Share is the least saving as a share of the price of the removed machines.
	Floor, Share float64
	// Strict multiplies the cost of a move that buys machines, because most of the time it is enough to remove machines.
	Strict float64
	// Caps bound the machines that are removed together. A cap is a number of units left, for example in a budget. Machine.Uses lists the units that
	// each machine needs.
	Caps []int
	// Effort is the number of units of work to spend on replacing several machines together.
	Effort int
	// If Threads is above 1, several orders are searched side by side; the result does not depend on it.
	Threads int
}

// Machine is a running machine.
type Machine struct {
	// Free is the room that is left on the machine.
	Free capacity.Vector
	// Takes is true for a machine on which pods of other machines may be placed.
	Takes bool
	// Goes is true for a machine that may be removed. Then Price is its price in USD per hour, Pods are the pods that would have to move, and
	// Cost is the cost of their move in USD.
	Goes  bool
	Price float64
	Cost  float64
	Pods  []Lot
	// Uses lists the units that the machine uses of each cap if it is removed.
	Uses []Lot
	// Kinds counts the machine's pods of each kind (see Class.Kind).
	Kinds []Lot
}

// Lot is a number of something: pods of a class or kind, units of a cap.
type Lot struct{ Of, N int }

// Class is a set of equal pods.
type Class struct {
	Request capacity.Vector
	// Where holds the machines that admit the class, even if they have no room. Options holds the options that admit it.
	Where, Options bitset.Set
	// Kind is the index of the class's kind, -1 for none. A machine takes at most Most pods of one kind, whatever their classes.
	Kind, Most int
}

// Option is a machine that can be bought.
type Option struct {
	// Price is the most that the machine may turn out to cost, in USD per hour.
	Price       float64
	Allocatable capacity.Vector
}

// Result is a cheaper state.
type Result struct {
	// Gone are the indexes of the machines to remove, in the order in which they were found.
	Gone []int
	// Later lists the machines of Gone that a cap keeps for now: each is removed after other machines of the same move. Of is the machine, N the cap.
	Later []Lot
	// Placed lists the pods that find room on machines that are not removed, and the machines where they find it. The other pods need new machines.
	Placed []Placed
	// PutOff lists the machines that could be removed if a cap had more units left. In each Lot, Of is the machine and N is the cap.
	PutOff []Lot
	// Paid is the price of the new machines, in USD per hour, as far as this package knows it.
	Paid float64
}

// Placed is N pods of a class that move from one machine to another.
type Placed struct{ Class, From, To, N int }
