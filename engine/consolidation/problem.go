// Package consolidation finds machines whose removal saves money, because their pods have room elsewhere or on cheaper machines. It knows only
// numbers and sets, and no rules between pods but the number of pods of a kind that one machine takes. Its result is a state to aim at, and the
// caller has to check whether all rules allow it.
package consolidation

import (
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Problem is the running machines with their pods, and the options to buy. All vectors have the same length. Of equally good choices, the first in
// its list is taken.
type Problem struct {
	Machines []Machine
	Classes  []Class
	Options  []Option
	// Worth is the worth of a unit of each resource, in USD per hour.
	Worth []float64
	// Horizon is the time within which a move has to pay for itself, in hours.
	Horizon float64
	// Floor is the least saving of a move, in USD per hour. Share is the least saving as a share of the price of the machines that go.
	Floor, Share float64
	// Strict multiplies the cost of a move that buys machines, because most of the time it is enough to remove machines.
	Strict float64
	// Caps bound the machines that go together. A cap is a number of units left, for example in a budget. Machine.Uses lists a machine's units.
	Caps []int
	// Effort is how many units of work to spend on replacing several machines together.
	Effort int
	// Threads above 1 lets several orders be searched side by side; the result does not depend on it.
	Threads int
}

// Machine is a running machine.
type Machine struct {
	// Free is the room that is left on the machine.
	Free capacity.Vector
	// Takes is true for a machine that other pods may come to.
	Takes bool
	// Goes is true for a machine that may be removed. Then Price is its price in USD per hour, Pods are the pods that would have to move, and
	// Cost is the cost of their move in USD.
	Goes  bool
	Price float64
	Cost  float64
	Pods  []Lot
	// Uses is how much of each cap the machine uses up if it goes.
	Uses []Lot
	// Kinds counts the machine's pods of each kind (see Class.Kind).
	Kinds []Lot
}

// Lot is a number of something: pods of a class or kind, units of a cap.
type Lot struct{ Of, N int }

// Class is pods that are alike.
type Class struct {
	Request capacity.Vector
	// Where holds the machines that admit the class, even if they have no room. Options holds the options that admit it.
	Where, Options bitset.Set
	// Kind is the number of the class's kind, -1 for none. A machine takes at most Most pods of one kind, whatever their classes.
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
	// Gone are the machines to remove, in the order in which they were found.
	Gone []int
	// Later lists the machines of Gone that a cap keeps for now: each follows the machine that it goes together with. Of is the machine, N the cap.
	Later []Lot
	// Placed lists the pods that find room on machines that stay, and these machines. The other pods need new machines.
	Placed []Placed
	// PutOff lists the machines that could go if a cap had more units left. In each Lot, Of is the machine and N is the cap.
	PutOff []Lot
	// Paid is the price of the new machines, in USD per hour, as far as this package can tell.
	Paid float64
}

// Placed is N pods of a class that move from one machine to another.
type Placed struct{ Class, From, To, N int }
