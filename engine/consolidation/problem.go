// Package consolidation finds machines whose removal saves money, because their pods have room elsewhere or on cheaper machines. It knows only
// numbers and sets, and no rules between pods but the number of pods of a kind that one machine takes. Its result is a state to aim at, and the
// caller has to check whether all rules allow it.
package consolidation

import (
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Problem is what runs where, and what can be bought. All vectors have the same length. The result depends on the order of
// the lists where things are equal.
type Problem struct {
	Machines []Machine
	Classes  []Class
	Options  []Option
	// Worth is what a unit of each resource is worth, in USD per hour.
	Worth []float64
	// Horizon is the time within which a move has to pay back what it costs, in hours.
	Horizon float64
	// Floor is the least that a move has to save, in USD per hour; Share the least as a share of the price that goes.
	Floor, Share float64
	// Strict is how much dearer moving counts where something has to be bought: removing machines is enough most of the time.
	Strict float64
	// Caps bound what may go at a time: each is how much is left of something that machines use up.
	Caps []int
	// Effort is how many units of work to spend on replacing several machines together.
	Effort int
	// Threads above 1 lets several orders be searched side by side; the result does not depend on it.
	Threads int
}

// Machine is one that runs.
type Machine struct {
	// Free is what it has left.
	Free capacity.Vector
	// Takes is true for a machine that other pods may come to.
	Takes bool
	// Goes is true for a machine that may be removed. Then Price is what it costs in USD per hour, Pods are those that would
	// have to move, and Cost is what moving them costs in USD.
	Goes  bool
	Price float64
	Cost  float64
	Pods  []Lot
	// Uses is how much of each cap the machine uses up if it goes.
	Uses []Lot
	// Kinds counts the pods on the machine of kinds of which a machine takes only so many.
	Kinds []Lot
}

// Lot is a number of something: pods of a class or kind, units of a cap.
type Lot struct{ Of, N int }

// Class is pods that are alike.
type Class struct {
	Request capacity.Vector
	// Where holds the machines that admit the class, room aside; Options those that can be bought for it.
	Where, Options bitset.Set
	// Kind numbers the pods of which a machine takes Most, whatever their class; -1 for none.
	Kind, Most int
}

// Option is a machine that can be bought.
type Option struct {
	// Price is the most that the machine may turn out to cost, in USD per hour.
	Price       float64
	Allocatable capacity.Vector
}

// Result is a state that costs less.
type Result struct {
	// Gone are the machines to remove, in the order in which they were found.
	Gone []int
	// Later lists the machines of Gone that a cap keeps for now: each follows the machine that it goes together with. Of is the machine, N the cap.
	Later []Lot
	// Placed says where their pods go that find room on machines that stay. The others have to be bought for.
	Placed []Placed
	// PutOff are machines that could go if there were more left of a cap: Of is the machine, N the cap.
	PutOff []Lot
	// Paid is what is bought instead, in USD per hour, as far as this package can tell.
	Paid float64
}

// Placed is N pods of a class that move from one machine to another.
type Placed struct{ Class, From, To, N int }
