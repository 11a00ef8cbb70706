package packing

import (
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// openBin is a new machine whose option may still change: the cheapest that holds its pods.
type openBin struct {
	pool    int
	sum     capacity.Vector
	ways    bitset.Set // options that every pod on it may use, whether they have room or not
	free    []bitset.Set
	loads   []load
	option  int
	price   float64
	has     bitset.Set // the shared things that its pods bring
	large   bool       // some pod fits only large options
	device  bool       // some pod may use only options with devices
	variety []int      // of each of the pool's varieties, how many values the options must keep; nil without pods
	relaxed bool
	// selection describes the options that can be listed for the open bin, as of the last call of selectionOf.
	selection *selection
	bill      capacity.Vector // the amount that is charged to the pool's limits for it; nil means its option's Charge
	draws     []Draw          // the draws on quotas; nil means its option's Draws

	// The following fields are for open bins that grow pod by pod.
	host   []*hostRules // the rules of its pods
	sets   []int        // the number of pods of each host set
	pinned []Pod        // the pods themselves, once they are known
}

// load is a number of pods of one lot.
type load struct {
	lot, n int
}

// Comparisons is the number of comparisons of a shape with the room on a machine that make up one unit of effort.
const Comparisons = 128

func priceOf(bins []*openBin) float64 {
	sum := 0.0
	for _, b := range bins {
		sum += b.price
	}
	return sum
}
